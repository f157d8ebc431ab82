"""Protobuf messages of generated classes."""

from __future__ import annotations

import sys
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import DeserializationError, TypeMismatchError, WrongArgumentError
from firesteel.common.serialization import DeserializationSchema, SerializationSchema
from firesteel.formats.schema_base import library

__all__ = ["ProtobufSchema"]


class ProtobufSchema(SerializationSchema, DeserializationSchema):
    """Objects of a class that ``protoc`` has made, both ways.

    Messages are written with their fields in order, so that equal ones have equal bytes. Records of such classes can
    change, and travel by pickle; what goes through many operators is faster as a dataclass made of it in a ``map``.
    """

    gives_away = True

    def __init__(self, message_class: Any) -> None:
        base = library("google.protobuf.message", "protobuf", "Protobuf").Message
        if not isinstance(message_class, type) or not issubclass(message_class, base):
            raise WrongArgumentError(
                f"ProtobufSchema needs a class of messages that protoc has generated, got {message_class!r}"
            )
        self._class: Any = message_class

    @override
    def deserialize(self, message: bytes) -> Any:
        if message is None:
            return None
        try:
            record = self._class.FromString(message)
        except library("google.protobuf.message", "protobuf", "Protobuf").DecodeError as error:
            raise self._error(message, str(error)) from None
        if not record.IsInitialized():
            missing = ", ".join(record.FindInitializationErrors())
            raise self._error(message, f"required fields are missing: {missing}")
        return record

    def _error(self, message: bytes, reason: str) -> DeserializationError:
        return DeserializationError(message, reason, format=f"Protobuf of {self._class.DESCRIPTOR.full_name}")

    @override
    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, self._class):
            raise TypeMismatchError(self._class.DESCRIPTOR.full_name, value)
        if not value.IsInitialized():
            missing = ", ".join(value.FindInitializationErrors())
            raise TypeMismatchError(
                self._class.DESCRIPTOR.full_name, value, hint=f"required fields are missing: {missing}"
            )
        encoded: bytes = value.SerializeToString(deterministic=True)
        return encoded

    # A generated class is pickled by its name; one that was made while the program runs, by its description.

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        kind = self._class
        module = sys.modules.get(kind.__module__ or "")
        if module is not None and getattr(module, kind.__name__, None) is kind:
            return ProtobufSchema, (kind,)
        return _from_description, (kind.DESCRIPTOR.full_name, _description(kind.DESCRIPTOR.file))

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProtobufSchema)
            and self._class.DESCRIPTOR.full_name == other._class.DESCRIPTOR.full_name
        )

    @override
    def __hash__(self) -> int:
        return hash(self._class.DESCRIPTOR.full_name)


def _description(file: Any) -> list[bytes]:
    """The file of a class and all that it needs, those first that others need."""
    by_name: dict[str, bytes] = {}

    def add(one: Any) -> None:
        for needed in one.dependencies:
            add(needed)
        by_name.setdefault(one.name, one.serialized_pb)

    add(file)
    return list(by_name.values())


def _from_description(name: str, files: list[bytes]) -> ProtobufSchema:
    pools = library("google.protobuf.descriptor_pool", "protobuf", "Protobuf")
    factory = library("google.protobuf.message_factory", "protobuf", "Protobuf")
    pool = pools.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file)
    return ProtobufSchema(factory.GetMessageClass(pool.FindMessageTypeByName(name)))
