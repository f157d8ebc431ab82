"""TypeSerializer, how users write a binary form for their own type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

from firesteel.common._override import override

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values of a type to a stream of bytes and reads them back; equal when class and settings are."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write one value to the stream, as `deserialize` reads it."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read one value from the stream, as `serialize` has written it."""

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.__dict__ == other.__dict__

    @override
    def __hash__(self) -> int:
        return hash(repr(self))

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
