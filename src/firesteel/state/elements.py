"""The elements of a list state, for whoever reads them: a sequence that is what it was when it was asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from firesteel.common._override import override

__all__ = ["Elements", "ElementsView"]


class Elements(Sequence[Any]):
    """A sequence that is best iterated over; it may be indexed and compared as well, as a list may."""

    __slots__ = ()

    @abstractmethod
    @override
    def __iter__(self) -> Iterator[Any]: ...

    @override
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and index >= 0:
            for element in islice(self, index, None):
                return element
            raise IndexError(f"there are {len(self)} elements, none at {index}")
        return list(self)[index]

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | Elements) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @override
    def __repr__(self) -> str:
        return repr(list(self))


class ElementsView(Elements):
    """The elements that a list has when this is made; the list is only ever added to."""

    __slots__ = ("_count", "_elements")

    def __init__(self, elements: list[Any]) -> None:
        self._elements = elements
        self._count = len(elements)

    @override
    def __len__(self) -> int:
        return self._count

    @override
    def __iter__(self) -> Iterator[Any]:
        return islice(self._elements, self._count)

    @override
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and -self._count <= index < self._count:
            return self._elements[index % self._count]
        return super().__getitem__(index)
