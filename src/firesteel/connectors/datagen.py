"""Generated records at a chosen rate: a function from index to value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.typeinfo import TypeInformation
from firesteel.connectors.rate_limit import Pacer, RateLimiterStrategy
from firesteel.contracts.source import Boundedness, Polled, Source, SourceContext, SourceReader


class DataGeneratorSource(Source):
    """Emits ``generator_function(index)`` for index 0, 1, 2 ... ``count - 1``, or for ever when there is no count.

    Subtasks take turns (with two, one takes the even indexes and the other the odd ones), so that time
    derived from the index advances alike in all of them. The generator is a function, or an object with
    ``map(index)`` and, if it likes, ``open(context)`` and ``close()``.
    """

    def __init__(
        self,
        generator_function: Callable[[int], Any] | Any,
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
        self.generator_function = generator_function
        self.count = count
        self.rate_limiter_strategy = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self.type_info = type_info

    @property
    def boundedness(self) -> Boundedness:
        """Bounded when there is a count."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.count is None else Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """The declared type of the values."""
        return self.type_info

    def create_reader(self, context: SourceContext) -> SourceReader:
        """The reader of one subtask's indexes."""
        return _GeneratorReader(self, context)


class _GeneratorReader(SourceReader):
    def __init__(self, source: DataGeneratorSource, context: SourceContext) -> None:
        generator = source.generator_function
        self._generator = generator
        self._generate: Callable[[int], Any] = generator.map if hasattr(generator, "map") else generator
        self._context = context
        self._step = context.parallelism
        self._next = context.subtask
        self._count = source.count
        rate = source.rate_limiter_strategy.records_per_second
        self._pacer = None if rate is None else _pacer_of(rate, context)

    def open(self) -> None:
        """Open the generator, if it wants to be."""
        if hasattr(self._generator, "open"):
            self._generator.open(self._context)

    def poll(self, limit: int) -> Polled:
        """The records that are due, or as many as wanted when there is no rate."""
        if self._remaining() == 0:
            return Polled([], ended=True)
        if self._pacer is None:
            values = self._take(limit)
            return Polled(values, ended=self._remaining() == 0)
        return self._paced(self._pacer, limit)

    def _paced(self, pacer: Pacer, limit: int) -> Polled:
        due = pacer.due(self._context.now())
        values = self._take(min(due, limit)) if due else []
        pacer.emitted(len(values))
        remaining = self._remaining()
        if remaining == 0:
            return Polled(values, ended=True)
        return Polled(values, retry_at=0.0 if due > limit else pacer.next_time(remaining))

    def _take(self, limit: int) -> list[Any]:
        end = self._next + limit * self._step
        indexes = range(self._next, end if self._count is None else min(end, self._count), self._step)
        values = [*map(self._generate, indexes)]
        self._next += len(indexes) * self._step
        return values

    def _remaining(self) -> int | None:
        if self._count is None:
            return None
        return len(range(self._next, self._count, self._step))

    def stop(self) -> None:
        """Leave out the rest."""
        self._count = self._next

    def close(self) -> None:
        """Close the generator, if it wants to be."""
        if hasattr(self._generator, "close"):
            self._generator.close()


def _pacer_of(rate: float, context: SourceContext) -> Pacer:
    """The subtask's part of the rate, its records falling between those of the others."""
    return Pacer(rate / context.parallelism, offset=context.subtask / context.parallelism)
