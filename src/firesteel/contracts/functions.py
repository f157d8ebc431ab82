"""The functions users write: one class per operation, all with `Function.open` and `Function.close`.

Wherever Flink takes one of the single-method functions, a plain Python callable does as well.
Process functions emit by returning an iterable or by ``yield``; ``yield tag, value`` goes to a side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from firesteel.contracts.async_retry import AsyncRetryPredicate, AsyncRetryStrategy
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.runtime_context import KeyedStateStore, RuntimeContext
from firesteel.contracts.timers import TimeDomain, TimerService

if TYPE_CHECKING:
    from firesteel.contracts.state import (
        BroadcastState,
        MapStateDescriptor,
        ReadOnlyBroadcastState,
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
]

IN = TypeVar("IN")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class Function(ABC):  # noqa: B024 - its hooks are optional
    """Base of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once per subtask before the first record: the place for connections and state."""

    def close(self) -> None:
        """Called once per subtask after the last record, also when the job failed or was cancelled."""


# One record at a time -------------------------------------------------------------------------------


class MapFunction(Function):
    """One output for each input."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return what replaces ``value``."""


class FlatMapFunction(Function):
    """Any number of outputs for each input."""

    @abstractmethod
    def flat_map(self, value: Any) -> Any:
        """Return or yield the outputs."""


class FilterFunction(Function):
    """Keeps some of the records."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether to keep ``value``."""


class ReduceFunction(Function):
    """Combines two values into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the combination of what there was and what came."""


class AggregateFunction(Function):
    """Aggregates values of one type into an accumulator of another and that into a result."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with ``value`` added."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result that the accumulator stands for."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return one accumulator for two; called when session windows merge."""


class KeySelector(Function):
    """Computes the key of a record; must give equal keys for equal records on every machine."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key."""


class Partitioner(Function):
    """Chooses the subtask that gets a record."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return an index from 0 to ``num_partitions - 1``."""


# Two inputs -----------------------------------------------------------------------------------------


class CoMapFunction(Function):
    """One output for each record of two inputs. Return None to emit nothing, as in PyFlink."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return what replaces a record of the first input."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return what replaces a record of the second input."""


class CoFlatMapFunction(Function):
    """Any number of outputs for each record of two inputs."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Any:
        """Return or yield the outputs for a record of the first input."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Any:
        """Return or yield the outputs for a record of the second input."""


# Process functions ----------------------------------------------------------------------------------


class _Context(ABC):
    """What every process function may ask and do about the record at hand."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Current times, and timers."""

    @abstractmethod
    def timestamp(self) -> int:
        """Event time of the record in milliseconds, None when it has none."""

    @abstractmethod
    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Send ``value`` to a side output; the same as ``yield output_tag, value``. Not in PyFlink."""


class _KeyedContext(_Context):
    """A context that has a key."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """Key of the record or timer at hand."""


class ProcessFunction(Function):
    """Sees records one by one, with their times and side outputs."""

    class Context(_Context):
        """What `process_element` may ask and do."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        """Handle one record; yield or return an iterable of outputs."""


class KeyedProcessFunction(Function):
    """Sees the records of a keyed stream one by one, with state and timers per key."""

    class Context(_KeyedContext):
        """What `process_element` may ask and do."""

    class OnTimerContext(Context):
        """What `on_timer` may ask and do."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer waited for."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """Handle one record; yield or return an iterable of outputs."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        """Handle a timer that is due."""


class CoProcessFunction(Function):
    """Sees the records of two inputs one by one."""

    class Context(_Context):
        """What `process_element1` and `process_element2` may ask and do."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Handle one record of the first input."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        """Handle one record of the second input."""


class KeyedCoProcessFunction(Function):
    """Sees the records of two keyed inputs one by one; both share the state and timers of a key."""

    class Context(_KeyedContext):
        """What `process_element1` and `process_element2` may ask and do."""

    class OnTimerContext(Context):
        """What `on_timer` may ask and do."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer waited for."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Handle one record of the first input."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        """Handle one record of the second input."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        """Handle a timer that is due."""


# Broadcast state ------------------------------------------------------------------------------------


class BaseBroadcastProcessFunction(Function):
    """Base of the functions that join a stream with a broadcast one."""

    class BaseContext(ABC):
        """What both sides may ask and do."""

        @abstractmethod
        def timestamp(self) -> int:
            """Event time of the record in milliseconds, None when it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Time of the machine in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Event time up to which the inputs are complete."""

        @abstractmethod
        def output(self, output_tag: OutputTag, value: Any) -> None:
            """Send ``value`` to a side output. Not in PyFlink."""

    class Context(BaseContext):
        """The broadcast side: may change broadcast state, the same way in every subtask."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Broadcast state, writable."""

    class ReadOnlyContext(BaseContext):
        """The other side: may only read broadcast state."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """Broadcast state, read only."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Joins a stream without keys with a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context):
        """What `process_broadcast_element` may ask and do."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """What `process_element` may ask and do."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        """Handle one record of the stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Any:
        """Handle one record of the broadcast stream."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Joins a keyed stream with a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context):
        """What `process_broadcast_element` may ask and do."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], Any]
        ) -> None:
            """Call ``function(key, state)`` for every key of this subtask that has the state. Not in PyFlink."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """What `process_element` may ask and do."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Current times, and timers."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Key of the record at hand."""

    class OnTimerContext(ReadOnlyContext):
        """What `on_timer` may ask and do."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer waited for."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        """Handle one record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        """Handle one record of the broadcast stream."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Any:
        """Handle a timer that is due."""


# Windows --------------------------------------------------------------------------------------------


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Computes results from the elements of a window of one key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield the results of a window."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes results from the elements of a window over all keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield the results of a window."""


class _WindowContext(ABC, Generic[W2]):
    """What a process-window function may ask about its window."""

    @abstractmethod
    def window(self) -> W2:
        """The window."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and this window; clear it in ``clear``."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, across windows."""

    @abstractmethod
    def output(self, output_tag: OutputTag, value: Any) -> None:
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
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """Return or yield the results of a window."""

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Clear what was kept in ``context.window_state()``; called when the window goes."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes results from the elements of a window over all keys, with state."""

    class Context(_WindowContext[W2]):
        """What `process` and `clear` may ask and do."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return or yield the results of a window."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Clear what was kept in ``context.window_state()``; called when the window goes."""


# Asynchronous calls ---------------------------------------------------------------------------------


class AsyncFunction(Function, Generic[IN, OUT]):
    """Calls something slow for every record without waiting for one call before the next."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Return the outputs for one record as a list."""

    def timeout(self, value: IN) -> list[OUT]:
        """Return the outputs for a record whose call took too long; raises unless overridden."""
        raise TimeoutError(f"the asynchronous call for {value!r} took too long")
