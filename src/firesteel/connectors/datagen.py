"""Generated records, hop 1 of a record's journey: a function from index to value, at a chosen rate."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common._values import private_all
from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.rate_limit import Pacer, RateLimiterStrategy
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext

T = TypeVar("T", covariant=True, default=Any)

#: Where a generator without a count ends: never, but a range needs an end, and len() of one a C number.
_NO_END = 2**62


class Generator(Protocol[T]):
    """An object that makes the records; a `MapFunction`, for example."""

    def map(self, index: int, /) -> T:
        """The record of an index."""
        ...


class DataGeneratorSource(Source[T]):
    """Emits ``generator_function(index)`` for index 0, 1, 2 ... ``count - 1``, or for ever when there is no count.

    Subtasks take turns (with two, one has the even indexes and the other the odd ones), so that time
    derived from the index advances alike in all of them. The generator is a function, or an object with
    ``map(index)`` and, if it likes, ``open(context)`` and ``close()``.
    """

    def __init__(
        self,
        generator_function: Callable[[int], T] | Generator[T],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        if not hasattr(generator_function, "map") and not callable(generator_function):
            raise ProgramError(
                "a data generator needs a function of the index or an object with map(index), "
                f"got {short_repr(generator_function)}"
            )
        if count is not None and count < 0:
            raise ProgramError(f"a data generator cannot emit {count} records; use None for no end")
        self.generator_function: Any = generator_function
        self.count = count
        self.rate_limiter_strategy = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self.type_info = type_info

    @property
    @override
    def boundedness(self) -> Boundedness:
        """Bounded when there is a count."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.count is None else Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """The declared type of the values."""
        return self.type_info

    @override
    def splits_of(self, subtask: int, parallelism: int) -> list[range]:
        """A split is the indexes that a subtask has not emitted yet."""
        end = _NO_END if self.count is None else self.count
        indexes = range(subtask, end, parallelism)
        return [indexes] if indexes else []

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader of one subtask's indexes."""
        return _GeneratorReader(self, context)


class _GeneratorReader(SourceReader):
    def __init__(self, source: DataGeneratorSource, context: SourceReaderContext) -> None:
        generator = source.generator_function
        self._generator = generator
        self._generate: Callable[[int], Any] = generator.map if hasattr(generator, "map") else generator
        self._context = context
        self._rate = source.rate_limiter_strategy.records_per_second
        self._pacer: Pacer | None = None
        self._splits: list[range] = []
        self._stopped = False

    @override
    def open(self) -> None:
        """Open the generator, if it wants to be."""
        if hasattr(self._generator, "open"):
            self._generator.open(self._context)

    @override
    def add_splits(self, splits: Sequence[range]) -> None:
        """Emit these too, each with its share of the rate, its records falling between those of the others."""
        self._splits += splits
        if self._rate is not None and self._splits:
            first = self._splits[0]
            shares = sum(1 / split.step for split in self._splits)
            self._pacer = Pacer(self._rate * shares, offset=first.start % first.step / first.step)

    @override
    def poll(self, limit: int) -> Polled:
        """The records that are due, or as many as wanted when there is no rate."""
        if self._stopped or not self._splits:
            return Polled([], ended=True)
        if self._pacer is None:
            values = self._next_values(limit)
            return Polled(values, ended=not self._splits)
        return self._paced(self._pacer, limit)

    def _paced(self, pacer: Pacer, limit: int) -> Polled:
        due = pacer.due(self._context.now())
        values = self._next_values(min(due, limit)) if due else []
        pacer.emitted(len(values))
        if not self._splits:
            return Polled(values, ended=True)
        remaining = sum(map(len, self._splits))
        return Polled(values, retry_at=0.0 if due > limit else pacer.next_time(remaining))

    def _next_values(self, limit: int) -> list[Any]:
        if len(self._splits) == 1:
            indexes: Iterable[int] = self._splits[0][:limit]
            self._splits[0] = self._splits[0][limit:]
        else:
            indexes = self._merged(limit)
        values = private_all(map(self._generate, indexes))
        self._splits = [split for split in self._splits if split]
        return values

    def _merged(self, limit: int) -> list[int]:
        """The next indexes of several splits, so that all of them advance alike."""
        indexes = list(islice(heapq.merge(*self._splits), limit))
        last = indexes[-1]
        self._splits = [split[bisect_right(split, last) :] for split in self._splits]
        return indexes

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[range]:
        """The indexes that are left."""
        return list(self._splits)

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def close(self) -> None:
        """Close the generator, if it wants to be."""
        if hasattr(self._generator, "close"):
            self._generator.close()
