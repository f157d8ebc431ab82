"""How connectors deserialize: bad messages apart from the others, records with the number of their message."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.errors import DeserializationError, MissingModuleError, TypeMismatchError
from firesteel.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from firesteel.formats.decoding import decode
from firesteel.formats.schema_base import library


class Numbers(DeserializationSchema, SerializationSchema):
    """Whole numbers; negative ones stand for no record."""

    def deserialize(self, message: bytes) -> int | None:
        number = int(message)
        return number if number >= 0 else None

    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, int):
            raise TypeMismatchError("a number", value)
        return str(value).encode()


class Repeated(DeserializationSchema):
    gives_many = True

    def deserialize(self, message: bytes) -> list[int]:
        return [int(message)] * int(message)


@given(st.lists(st.sampled_from([b"1", b"2", b"-1", b"x"]), max_size=8))
def test_every_message_is_a_record_or_nothing_or_bad(messages: list[bytes]) -> None:
    found = decode(Numbers(), messages, lambda index: {"offset": 100 + index})
    good = [(index, int(message)) for index, message in enumerate(messages) if message in (b"1", b"2")]
    assert found.values == [number for _, number in good]
    assert found.origins in ([index for index, _ in good], None)
    assert found.origins is not None or len(good) == len(messages)
    assert [error.index for error in found.bad] == [
        i for i, message in enumerate(messages) if message == b"x"
    ]
    assert all(error.where == {"offset": 100 + (error.index or 0)} for error in found.bad)


def test_many_records_of_a_message_have_its_number() -> None:
    found = decode(Repeated(), [b"2", b"0", b"x", b"1"])
    assert (found.values, found.origins) == ([2, 2, 1], [0, 0, 3])
    assert [error.index for error in found.bad] == [2]


class Broken(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        raise MemoryError


def test_errors_that_are_not_the_messages_are_not_bad_messages() -> None:
    with pytest.raises(MemoryError):
        decode(Broken(), [b"1"])


def test_schemas_of_ones_own_have_batches() -> None:
    assert Numbers().deserialize_batch([b"1", b"-1"]) == [1, None]
    assert Numbers().serialize_batch([1, 2]) == [b"1", b"2"]
    with pytest.raises(DeserializationError, match="Numbers raised ValueError") as failure:
        Numbers().deserialize_batch([b"1", b"x"])
    assert failure.value.index == 1
    with pytest.raises(TypeMismatchError) as mismatch:
        Numbers().serialize_batch([1, "x"])
    assert mismatch.value.index == 1


def test_strings_and_bytes_have_batches() -> None:
    assert SimpleStringSchema().deserialize_batch([b"a", b"\xff"]) == ["a", "\ufffd"]
    assert SimpleStringSchema("latin-1").serialize_batch(["é"]) == [b"\xe9"]
    with pytest.raises(TypeMismatchError) as failure:
        SimpleStringSchema().serialize_batch(["a", 1])
    assert failure.value.index == 1
    with pytest.raises(DeserializationError, match="AttributeError"):
        SimpleStringSchema().deserialize_batch([5])  # type: ignore[list-item]
    assert ByteArraySchema().deserialize_batch([b"a"]) == ByteArraySchema().serialize_batch([b"a"]) == [b"a"]


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(
        MissingModuleError, match=r"Avro needs it; install it with: pip install 'firesteel\[avro\]'"
    ):
        library("fastavro", "avro", "Avro")
