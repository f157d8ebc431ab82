"""The type of values for which the user has written a serializer."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common._type_basics import TypeInformation
from firesteel.common.serializer import TypeSerializer

__all__ = ["SerializedTypeInfo"]


class SerializedTypeInfo(TypeInformation):
    """Any Python object that ``serializer`` writes and reads."""

    def __init__(self, serializer: TypeSerializer[Any]) -> None:
        self.serializer = serializer

    @override
    def _identity(self) -> tuple[Any, ...]:
        return (self.serializer,)

    @override
    def __repr__(self) -> str:
        return f"SerializedTypeInfo<{self.serializer!r}>"
