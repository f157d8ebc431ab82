"""HybridSource: bounded sources one after the other, and a last one, which may never end.

One source is read at a time. When all readers have read their share of it, its enumerator is closed and that of the next
source starts; so the next source looks for what there is to read only then. Which source it is and how far its
enumerator and readers have come is part of every checkpoint.
"""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import ProgramError, WrongArgumentError, short_repr
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.hybrid.enumerator import HybridEnumerator
from firesteel.connectors.hybrid.messages import HybridState
from firesteel.connectors.hybrid.reader import HybridReader
from firesteel.contracts.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)

T = TypeVar("T", covariant=True, default=Any)


class HybridSource(Source[T]):
    """Reads a bounded source to its end, then the next one; made by `HybridSource.builder`."""

    def __init__(self, sources: tuple[Source[Any], ...]) -> None:
        self.sources = sources
        self.decodes = any(source.decodes for source in sources)

    @staticmethod
    def builder(first_source: Source[Any]) -> HybridSourceBuilder:
        """Begin with the source that is read first."""
        return HybridSourceBuilder((_checked(first_source, "HybridSource.builder()"),))

    @property
    @override
    def boundedness(self) -> Boundedness:
        """That of the last source."""
        return self.sources[-1].boundedness

    @property
    @override
    def max_subtasks(self) -> int | None:
        """What all sources can do."""
        limits = [source.max_subtasks for source in self.sources if source.max_subtasks is not None]
        return min(limits, default=None)

    def get_produced_type(self) -> TypeInformation | None:
        """The type that all sources have; None when they differ."""
        types = [
            source.get_produced_type() if hasattr(source, "get_produced_type") else None
            for source in self.sources
        ]
        return types[0] if all(each == types[0] for each in types) else None

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return HybridReader(self.sources, context)

    @override
    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return HybridEnumerator(self.sources, context)

    @override
    def restore_enumerator(self, context: SplitEnumeratorContext, state: HybridState) -> SplitEnumerator:
        return HybridEnumerator(self.sources, context, state)


class HybridSourceBuilder:
    """Adds sources in the order in which they are read; all but the last one must have an end."""

    def __init__(self, sources: tuple[Source[Any], ...]) -> None:
        self._sources = sources

    def add_source(self, source: Source[Any]) -> HybridSourceBuilder:
        """Go on with this source when all before it have been read."""
        last = self._sources[-1]
        if last.boundedness is not Boundedness.BOUNDED:
            raise ProgramError(
                f"add_source(): {type(last).__name__} has no end, so nothing behind it would ever be read; all sources but "
                "the last one must be bounded"
            )
        self._sources = (*self._sources, _checked(source, "add_source()"))
        return self

    def build(self) -> HybridSource[Any]:
        """The source of all that were added, which are read in that order."""
        return HybridSource(self._sources)


def _checked(source: object, operation: str) -> Source[Any]:
    if not isinstance(source, Source):
        raise WrongArgumentError(f"{operation} needs a Source, got {short_repr(source)}")
    return source
