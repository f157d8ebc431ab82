"""Drive one function by hand: push records, watermarks and time into it, look at all that comes out.

No job, no Spark, no threads: what the function does, it does before the call returns.

>>> from firesteel.common.typeinfo import Types
>>> from firesteel.datastream import KeyedProcessFunction
>>> from firesteel.datastream.state import ValueStateDescriptor
>>> class RemindMe(KeyedProcessFunction):
...     COUNT = ValueStateDescriptor("count", Types.INT())
...
...     def open(self, runtime_context):
...         self.count = runtime_context.get_state(self.COUNT)
...
...     def process_element(self, value, ctx):
...         self.count.update((self.count.value() or 0) + 1)
...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
...
...     def on_timer(self, timestamp, ctx):
...         yield ctx.get_current_key(), self.count.value()
>>> harness = FunctionHarness(RemindMe(), key_selector=lambda word: word)
>>> harness.process_element("a", timestamp=5)
>>> harness.process_element("a", timestamp=7)
>>> harness.state("a", "count"), harness.event_time_timers("a")
(2, [15, 17])
>>> harness.process_watermark(15)
>>> harness.take_output()
[('a', 2)]

The state and the timers live on in a new harness:

>>> later = FunctionHarness(RemindMe(), key_selector=lambda word: word, snapshot=harness.snapshot())
>>> later.process_watermark(20)
>>> later.take_records()
[(('a', 2), 17)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from firesteel.common.errors import WrongArgumentError, short_repr
from firesteel.common.time import MAX_WATERMARK, to_millis
from firesteel.contracts import functions as kinds
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import MapStateDescriptor, StateDescriptor
from firesteel.datastream._key_selectors import KeyLike, key_of
from firesteel.datastream._stream import DataStream
from firesteel.plan import operator_specs as specs
from firesteel.plan.shipped import Shipped
from firesteel.state.snapshot.operator_snapshot import OperatorSnapshot
from firesteel.testing._operator_harness import OperatorHarness
from firesteel.testing._operator_specs import spec_of_function
from firesteel.testing.manual_clock import ManualClock

__all__ = ["FunctionHarness"]

_Taken = TypeVar("_Taken")

_NEEDS_KEYS = (
    kinds.KeyedProcessFunction,
    kinds.KeyedCoProcessFunction,
    kinds.KeyedBroadcastProcessFunction,
    kinds.ReduceFunction,
)
_TWO_INPUTS = (specs.CoProcessSpec, specs.CoMapSpec, specs.CoFlatMapSpec, specs.TwoInputTransformSpec)


class FunctionHarness:
    """One function, or one operator of a program, in one subtask, with its clock in your hands.

    ``key_selector`` is what ``key_by`` would be given; ``key_selector2`` that of the second input, the same when
    left out. A broadcast function needs its ``broadcast_state`` descriptors. ``processing_time`` is the time, in
    milliseconds, at which the clock starts. With ``snapshot`` it continues where another harness was.
    """

    def __init__(
        self,
        function: kinds.Function,
        key_selector: KeyLike | None = None,
        key_selector2: KeyLike | None = None,
        *,
        broadcast_state: Sequence[MapStateDescriptor] = (),
        batch: bool = False,
        processing_time: int | None = None,
        snapshot: OperatorSnapshot | None = None,
    ) -> None:
        spec = _spec_of(function, broadcast_state)
        if key_selector is None and isinstance(function, _NEEDS_KEYS):
            raise WrongArgumentError(
                f"a {type(function).__name__} works on a keyed stream: FunctionHarness needs a key_selector"
            )
        keys: tuple[Shipped | None, ...] = ()
        if key_selector is not None:
            keys = (_shipped(key_selector),)
            if isinstance(spec, _TWO_INPUTS):
                keys = (keys[0], _shipped(key_selector if key_selector2 is None else key_selector2))
        self._start(spec, keys, batch, processing_time, snapshot)

    @classmethod
    def of(
        cls,
        stream: DataStream,
        *,
        batch: bool = False,
        processing_time: int | None = None,
        snapshot: OperatorSnapshot | None = None,
    ) -> FunctionHarness:
        """Drive the operator that gives ``stream``, whatever it is: a window, a join, a reduce.

        >>> from firesteel.testing import simulated_environment
        >>> words = simulated_environment().from_collection(["a"])
        >>> harness = FunctionHarness.of(words.key_by(lambda w: w[0]).reduce(lambda a, b: a + b))
        >>> harness.process_elements(["ab", "xy", "ac"])
        >>> harness.take_output()
        ['ab', 'xy', 'abac']
        """
        if len(stream._origins) != 1:
            raise WrongArgumentError("FunctionHarness.of() needs the stream of one operator, got a union")
        node = stream._env._graph[stream._origins[0].node]
        harness = cls.__new__(cls)
        harness._start(node.spec, node.key_selectors, batch, processing_time, snapshot)
        return harness

    def _start(
        self,
        spec: specs.OperatorSpec,
        keys: tuple[Shipped | None, ...],
        batch: bool,
        processing_time: int | None,
        snapshot: OperatorSnapshot | None,
    ) -> None:
        clock = ManualClock() if processing_time is None else ManualClock(processing_time / 1000)
        mode = specs.RuntimeMode.BATCH if batch else specs.RuntimeMode.STREAMING
        self._harness = OperatorHarness(spec, keys=keys, mode=mode, clock=clock, snapshot=snapshot)
        self._output = self._harness.output
        self._harness.on_time()  # what came due while nobody was there

    @property
    def function(self) -> Any:
        """The function at work: a copy of the one that was handed in, as in every task."""
        function: Any = self._harness.operator
        return function.function.instance

    # In -----------------------------------------------------------------------------------------------

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """A record of the (first) input."""
        self.process_elements([value], None if timestamp is None else [timestamp])

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """A record of the second input."""
        self._harness.process_second([value], None if timestamp is None else [timestamp])
        self._harness.on_time()

    def process_broadcast_element(self, value: Any, timestamp: int | None = None) -> None:
        """A record of the broadcast input."""
        self.process_element2(value, timestamp)

    def process_elements(self, values: Iterable[Any], timestamps: Iterable[int] | None = None) -> None:
        """Records of the (first) input as one batch, as they come in a job."""
        self._harness.process(list(values), None if timestamps is None else list(timestamps))
        self._harness.on_time()

    def process_watermark(self, timestamp: int) -> None:
        """Event time comes to ``timestamp`` on all inputs."""
        self._harness.watermark(timestamp)

    def set_processing_time(self, time: int) -> None:
        """Let the clock run to ``time`` milliseconds; each timer on the way fires at its own time."""
        clock, operator = self._harness.services.clock, self._harness.operator
        while operator.next_deadline() <= time / 1000:
            clock.advance_to(operator.next_deadline())
            self._harness.on_time()
        clock.advance_to(time / 1000)

    def advance_processing_time(self, milliseconds: int) -> None:
        """Let so much time pass."""
        self.set_processing_time(self.processing_time + milliseconds)

    @property
    def processing_time(self) -> int:
        """What the clock says, in milliseconds."""
        return to_millis(self._harness.services.now())

    def end_of_input(self) -> None:
        """The inputs end: the greatest watermark, then whatever the operator still has to say."""
        self.process_watermark(MAX_WATERMARK)
        self._harness.finish()

    def close(self) -> None:
        """Close the function; a second call does nothing."""
        self._harness.close()

    # Out ----------------------------------------------------------------------------------------------

    def take_output(self) -> list[Any]:
        """What has come out since the last look."""
        self._output.timestamps.clear()
        return _taken(self._output.values)

    def take_records(self) -> list[tuple[Any, int | None]]:
        """What has come out since the last look, each with its timestamp."""
        stamps = _taken(self._output.timestamps)
        return list(zip(_taken(self._output.values), stamps, strict=True))

    def take_side_output(self, output_tag: OutputTag) -> list[Any]:
        """What has come out of a side output since the last look."""
        self._output.side_timestamps.pop(output_tag.tag_id, None)
        return self._output.sides.pop(output_tag.tag_id, [])

    def take_watermarks(self) -> list[int]:
        """The watermarks passed on since the last look."""
        return _taken(self._output.watermarks)

    # Inside -------------------------------------------------------------------------------------------

    def state(self, key: Any, descriptor: StateDescriptor | str) -> Any:
        """What a state holds for a key: a value, a list, a dict, a result; None for nothing. Changes nothing."""
        return self._harness.state.peek(_name(descriptor), key)

    def keys_of_state(self, descriptor: StateDescriptor | str) -> set[Any]:
        """The keys that have something in a state, expired or not."""
        return set(self._harness.state.table(_name(descriptor)))

    def broadcast_state(self, descriptor: MapStateDescriptor | str) -> dict[Any, Any]:
        """What a broadcast state holds."""
        return dict(self._harness.operator_state.tables[_name(descriptor)])

    def event_time_timers(self, key: Any) -> list[int]:
        """The times of a key's event-time timers, in order: those that functions and triggers have registered.

        Tumbling, sliding and session windows with their own trigger register none: they keep their windows in order
        of time and need no timer per key. Look at their results with `take_output` after a watermark. Windows
        with another trigger, or with an evictor, list what the trigger registered and when the window will be deleted.
        """
        return self._timers("event-time", key)

    def processing_time_timers(self, key: Any) -> list[int]:
        """The times of a key's processing-time timers, in order; of windows see `event_time_timers`."""
        return self._timers("processing-time", key)

    def _timers(self, domain: str, key: Any) -> list[int]:
        """Times in all queues of a domain; in those of windows an entry is ``(key, window)``."""
        times: set[int] = set()
        for queue_id, queue in self._harness.state.timers():
            if queue_id.name.endswith(domain):
                times.update(
                    time
                    for time, entry in queue.entries()
                    if (entry[0] if queue_id.namespaced else entry) == key
                )
        return sorted(times)

    def snapshot(self) -> OperatorSnapshot:
        """State and timers as they are now, for a new harness."""
        return self._harness.snapshot()

    def __enter__(self) -> FunctionHarness:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _spec_of(function: Any, broadcast_state: Sequence[MapStateDescriptor]) -> specs.OperatorSpec:
    if isinstance(function, kinds.BroadcastProcessFunction | kinds.KeyedBroadcastProcessFunction):
        if not broadcast_state:
            raise WrongArgumentError("a broadcast function needs broadcast_state=[descriptor, ...]")
        return specs.BroadcastProcessSpec(Shipped.of(function, "FunctionHarness"), tuple(broadcast_state))
    spec = spec_of_function(function, "FunctionHarness")
    if spec is None:
        raise WrongArgumentError(
            f"FunctionHarness drives functions such as a KeyedProcessFunction, got {short_repr(function)} "
            f"({type(function).__name__}); FunctionHarness.of(stream) drives the operator of any stream"
        )
    return spec


def _shipped(key: KeyLike) -> Shipped:
    return key_of((key,), None, None, "FunctionHarness()").selector


def _name(descriptor: StateDescriptor | str) -> str:
    return descriptor if isinstance(descriptor, str) else descriptor.get_name()


def _taken(values: list[_Taken]) -> list[_Taken]:
    taken = values.copy()
    values.clear()
    return taken
