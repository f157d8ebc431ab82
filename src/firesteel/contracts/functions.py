"""The functions users write: one class per operation, all with `Function.open` and `Function.close`.

Wherever Flink takes one of the single-method functions, a plain Python callable does as well.
Process functions emit by returning an iterable or by ``yield``; ``yield tag, value`` goes to a side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic

from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import WrongArgumentError, short_repr
from firesteel.contracts.async_retry import AsyncRetryPredicate, AsyncRetryStrategy
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.runtime_context import KeyedStateStore, RuntimeContext
from firesteel.contracts.timers import TimeDomain, TimerService

if TYPE_CHECKING:
    from firesteel.contracts.state import (
        BroadcastState,
        MapStateDescriptor,
        ReadOnlyBroadcastState,
        State,
        StateDescriptor,
    )

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "WindowFunction",
    "merges_exactly",
]

T = TypeVar("T", default=Any)
ACC = TypeVar("ACC", default=Any)
IN = TypeVar("IN", contravariant=True, default=Any)
IN1 = TypeVar("IN1", contravariant=True, default=Any)
IN2 = TypeVar("IN2", contravariant=True, default=Any)
OUT = TypeVar("OUT", covariant=True, default=Any)
RESULT = TypeVar("RESULT", default=Any)
SIDE = TypeVar("SIDE", default=Any)
#: A key that a function is given, one that it computes, and the key of a context.
KEY = TypeVar("KEY", contravariant=True, default=Any)
KEY_OUT = TypeVar("KEY_OUT", covariant=True, default=Any)
KEY2 = TypeVar("KEY2", covariant=True, default=Any)
K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
S = TypeVar("S", bound="State", default=Any)
W = TypeVar("W", contravariant=True, default=Any)
W2 = TypeVar("W2", covariant=True, default=Any)

#: What process functions may return or yield: results, and pairs of tag and value for side outputs.
Emitted = Iterable[RESULT | tuple[OutputTag[Any], Any]] | None


class Function(ABC):  # noqa: B024 - its hooks are optional
    """Base of all user functions."""

    def open(self, runtime_context: RuntimeContext, /) -> None:
        """Called once per subtask before the first record: the place for connections and state."""

    def close(self) -> None:
        """Called once per subtask after the last record, also when the job failed or was cancelled."""


# One record at a time -------------------------------------------------------------------------------


class MapFunction(Function, Generic[IN, OUT]):
    """One output for each input."""

    @abstractmethod
    def map(self, value: IN, /) -> OUT:
        """Return what replaces ``value``."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Any number of outputs for each input."""

    @abstractmethod
    def flat_map(self, value: IN, /) -> Iterable[OUT] | None:
        """Return or yield the outputs."""


class FilterFunction(Function, Generic[IN]):
    """Keeps some of the records."""

    @abstractmethod
    def filter(self, value: IN, /) -> bool:
        """Return whether to keep ``value``."""


class ReduceFunction(Function, Generic[T]):
    """Combines two values into one of the same type."""

    @abstractmethod
    def reduce(self, value1: T, value2: T, /) -> T:
        """Return the combination of what there was and what came."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Aggregates values of one type into an accumulator of another and that into a result."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC, /) -> ACC:
        """Return the accumulator with ``value`` added."""

    @abstractmethod
    def get_result(self, accumulator: ACC, /) -> OUT:
        """Return the result that the accumulator stands for."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC, /) -> ACC:
        """Return one accumulator for two; called when session windows merge."""


_Said = TypeVar("_Said", bound=Callable[..., Any])


def merges_exactly(function: _Said) -> _Said:
    """Say of a reduce function or an `AggregateFunction` that merging parts is exactly what adding one by one is.

    A decorator, for classes and for plain functions. However elements are cut into parts, and in whatever order the
    parts are merged, the result has to be the same: so it is for counts and sums of integers, for the largest
    number; not for sums of floats, for the first or last element, or when fields are taken from "some" element.
    Sliding windows then add an element to one part that windows share, instead of to each of its windows.

    >>> @merges_exactly
    ... def added(a, b):
    ...     return a + b
    """
    if not callable(function):
        raise WrongArgumentError(
            f"merges_exactly() is for functions and classes of functions, got {short_repr(function)}; write @merges_exactly "
            "above the function or the class"
        )
    function.merges_exactly = True  # type: ignore[attr-defined]
    return function


class KeySelector(Function, Generic[IN, KEY_OUT]):
    """Computes the key of a record; must give equal keys for equal records on every machine."""

    @abstractmethod
    def get_key(self, value: IN, /) -> KEY_OUT:
        """Return the key of a record; it may be asked for more than once."""


class Partitioner(Function, Generic[KEY]):
    """Chooses the subtask that gets a record."""

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int, /) -> int:
        """Return an index from 0 to ``num_partitions - 1``."""


# Two inputs -----------------------------------------------------------------------------------------


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """One output for each record of two inputs. Return None to emit nothing, as in PyFlink."""

    @abstractmethod
    def map1(self, value: IN1, /) -> OUT | None:
        """Return what replaces a record of the first input."""

    @abstractmethod
    def map2(self, value: IN2, /) -> OUT | None:
        """Return what replaces a record of the second input."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of outputs for each record of two inputs."""

    @abstractmethod
    def flat_map1(self, value: IN1, /) -> Iterable[OUT] | None:
        """Return or yield the outputs for a record of the first input."""

    @abstractmethod
    def flat_map2(self, value: IN2, /) -> Iterable[OUT] | None:
        """Return or yield the outputs for a record of the second input."""


# Process functions ----------------------------------------------------------------------------------


class _Context(ABC):
    """What every process function may ask and do about the record at hand."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Current times, and timers."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time of the record in milliseconds, None when it has none."""

    @abstractmethod
    def output(self, output_tag: OutputTag[SIDE], value: SIDE) -> None:
        """Send ``value`` to a side output; the same as ``yield output_tag, value``. Not in PyFlink."""


class _KeyedContext(_Context, Generic[KEY2]):
    """A context that has a key."""

    @abstractmethod
    def get_current_key(self) -> KEY2:
        """Key of the record or timer at hand."""


class ProcessFunction(Function, Generic[IN, OUT]):
    """Sees records one by one, with their times and side outputs."""

    class Context(_Context):
        """What `process_element` may ask and do."""

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessFunction.Context, /) -> Emitted[OUT]:
        """Handle one record; yield or return an iterable of outputs."""


class KeyedProcessFunction(Function, Generic[KEY, IN, OUT]):
    """Sees the records of a keyed stream one by one, with state and timers per key."""

    class Context(_KeyedContext[KEY2]):
        """What `process_element` may ask and do."""

    class OnTimerContext(Context[KEY2]):
        """What `on_timer` may ask and do."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer waited for."""

    @abstractmethod
    def process_element(self, value: IN, ctx: KeyedProcessFunction.Context[KEY], /) -> Emitted[OUT]:
        """Handle one record; yield or return an iterable of outputs."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[KEY], /) -> Emitted[OUT]:
        """Handle a timer that is due."""


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """Sees the records of two inputs one by one."""

    class Context(_Context):
        """What `process_element1` and `process_element2` may ask and do."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: CoProcessFunction.Context, /) -> Emitted[OUT]:
        """Handle one record of the first input."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: CoProcessFunction.Context, /) -> Emitted[OUT]:
        """Handle one record of the second input."""


class KeyedCoProcessFunction(Function, Generic[KEY, IN1, IN2, OUT]):
    """Sees the records of two keyed inputs one by one; both share the state and timers of a key."""

    class Context(_KeyedContext[KEY2]):
        """What `process_element1` and `process_element2` may ask and do."""

    class OnTimerContext(Context[KEY2]):
        """What `on_timer` may ask and do."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer waited for."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: KeyedCoProcessFunction.Context[KEY], /) -> Emitted[OUT]:
        """Handle one record of the first input."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: KeyedCoProcessFunction.Context[KEY], /) -> Emitted[OUT]:
        """Handle one record of the second input."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext[KEY], /) -> Emitted[OUT]:
        """Handle a timer that is due."""


# Broadcast state ------------------------------------------------------------------------------------


class BaseBroadcastProcessFunction(Function):
    """Base of the functions that join a stream with a broadcast one."""

    class BaseContext(ABC):
        """What both sides may ask and do."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Event time of the record in milliseconds, None when it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Time of the machine in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Event time up to which the inputs are complete."""

        @abstractmethod
        def output(self, output_tag: OutputTag[SIDE], value: SIDE) -> None:
            """Send ``value`` to a side output. Not in PyFlink."""

    class Context(BaseContext):
        """The broadcast side: may change broadcast state, the same way in every subtask."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
            """Broadcast state, writable."""

    class ReadOnlyContext(BaseContext):
        """The other side: may only read broadcast state."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor[K, V]
        ) -> ReadOnlyBroadcastState[K, V]:
            """Broadcast state, read only."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Joins a stream without keys with a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context):
        """What `process_broadcast_element` may ask and do."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """What `process_element` may ask and do."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext, /) -> Emitted[OUT]:
        """Handle one record of the stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context, /) -> Emitted[OUT]:
        """Handle one record of the broadcast stream."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Joins a keyed stream with a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context):
        """What `process_broadcast_element` may ask and do."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor[S], function: Callable[[Any, S], Any]
        ) -> None:
            """Call ``function(key, state)`` for every key of this subtask that has the state. Not in PyFlink."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, Generic[KEY2]):
        """What `process_element` may ask and do."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Current times, and timers."""

        @abstractmethod
        def get_current_key(self) -> KEY2:
            """Key of the record at hand."""

    class OnTimerContext(ReadOnlyContext[KEY2]):
        """What `on_timer` may ask and do."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer waited for."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[KEY], /
    ) -> Emitted[OUT]:
        """Handle one record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context, /
    ) -> Emitted[OUT]:
        """Handle one record of the broadcast stream."""

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext[KEY], /
    ) -> Emitted[OUT]:
        """Handle a timer that is due."""


# Windows --------------------------------------------------------------------------------------------


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Computes results from the elements of a window of one key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN], /) -> Iterable[OUT]:
        """Return or yield the results of a window."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes results from the elements of a window over all keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN], /) -> Iterable[OUT]:
        """Return or yield the results of a window."""


class _WindowContext(ABC, Generic[W2]):
    """What a process-window function may ask about its window."""

    @abstractmethod
    def window(self) -> W2:
        """The window that fires, or goes: a `TimeWindow`, say."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and this window; clear it in ``clear``."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, across windows."""

    @abstractmethod
    def output(self, output_tag: OutputTag[SIDE], value: SIDE) -> None:
        """Send ``value`` to a side output. Not in PyFlink."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Computes results from the elements of a window of one key, with times and state."""

    class Context(_WindowContext[W2]):
        """What `process` and `clear` may ask and do."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Time of the machine in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Event time up to which the input is complete."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN], /
    ) -> Emitted[OUT]:
        """Return or yield the results of a window."""

    def clear(self, context: ProcessWindowFunction.Context[W], /) -> None:
        """Clear what was kept in ``context.window_state()``; called when the window goes."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes results from the elements of a window over all keys, with state."""

    class Context(_WindowContext[W2]):
        """What `process` and `clear` may ask and do."""

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN], /
    ) -> Emitted[OUT]:
        """Return or yield the results of a window."""

    def clear(self, context: ProcessAllWindowFunction.Context[W], /) -> None:
        """Clear what was kept in ``context.window_state()``; called when the window goes."""


# Asynchronous calls ---------------------------------------------------------------------------------


class AsyncFunction(Function, Generic[IN, OUT]):
    """Calls something slow for every record without waiting for one call before the next."""

    @abstractmethod
    async def async_invoke(self, value: IN, /) -> Sequence[OUT]:
        """Return the outputs for one record as a list."""

    def timeout(self, value: IN, /) -> Sequence[OUT]:
        """Return the outputs for a record whose call took too long; raises unless overridden."""
        raise TimeoutError(f"the asynchronous call for {value!r} took too long")
