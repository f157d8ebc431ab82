"""Operators that users wrote whole (`transform`): the shell that gives them records, time, state and an output.

What such an operator emits is gathered and leaves when its method has returned, or when there is much of it. Then an
error of the operators behind passes through the user's code, which might swallow it: so it is raised again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import private
from firesteel.common.errors import (
    ProgramError,
    UnsupportedOperationError,
    WrongArgumentError,
    describe_function,
    short_repr,
)
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.stream_operators import (
    InputSelection,
    Output,
    StreamOperator,
    StreamOperatorContext,
)
from firesteel.contracts.timers import TimeDomain, TimerService
from firesteel.plan.keys import KeyOf
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.plan.value_key import shown
from firesteel.runtime import operator as protocol
from firesteel.runtime.blame import RAISED_BY_USERS
from firesteel.runtime.elements import LatencyMarker
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import announce_batch
from firesteel.runtime.operators.emission import EMIT_AT
from firesteel.runtime.operators.function_operator import TimerOperator
from firesteel.runtime.timers import ClockOnly, KeyedTimers
from firesteel.runtime.user_function import UserFunction
from firesteel.state.key_context import NoKey
from firesteel.state.keyed_backend import KeyedBackend

Call = Callable[[Any, int | None], None]

NO_RECORD_AT_HAND = NoKey(
    "there is no key here: keyed state and timers belong to the record or timer at hand, so use them in the methods "
    "that are called with a record or a timer, or go through records with self.context.for_each()"
)
_UNKEYED_INPUT = NoKey("records of this input belong to no key: it was connected without key_by()")


class _Records:
    """Results that go to one output."""

    __slots__ = ("stamps", "timed", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.stamps: list[int | None] = []
        self.timed = False

    def add(self, value: Any, timestamp: int | None) -> None:
        self.values.append(value)
        self.stamps.append(timestamp)
        self.timed |= timestamp is not None

    def drained(self) -> tuple[list[Any], Timestamps]:
        drained = self.values, self.stamps if self.timed else None
        self.values, self.stamps, self.timed = [], [], False
        return drained


class GatheringOutput(Output):
    """Keeps what an operator emits until `flush`. ``refusal`` says why nothing can be emitted at the moment."""

    def __init__(self) -> None:
        self.protects = True
        self.on_full: Callable[[], None] = _do_nothing
        self.now_at: int | None = None  # event time of the record or timer at hand
        self.refusal: str | None = None
        self._main = _Records()
        self._sides: dict[str, _Records] = {}
        self._watermark = MIN_TIMESTAMP
        #: What comes before each watermark that was emitted: outputs by tag, the main one under None.
        self._before: list[tuple[list[tuple[str | None, list[Any], Timestamps]], int]] = []

    @override
    def collect(self, value: Any, timestamp: int | None = None) -> None:
        self._add(self._main, value, self._time_of(timestamp))

    @override
    def collect_side(self, output_tag: OutputTag, value: Any, timestamp: int | None = None) -> None:
        """Keep a record of a side output."""
        if not isinstance(output_tag, OutputTag):
            raise WrongArgumentError(
                f"collect_side() needs an OutputTag and a value, got {short_repr(output_tag)} as its tag"
            )
        records = self._sides.setdefault(output_tag.tag_id, _Records())
        self._add(records, value, self._time_of(timestamp))

    def _add(self, records: _Records, value: Any, timestamp: int | None) -> None:
        records.add(private(value) if self.protects else value, timestamp)
        if len(records.values) >= EMIT_AT:
            self.on_full()

    @override
    def emit_watermark(self, timestamp: int) -> None:
        """Keep a watermark, behind what was emitted before; one that tells nothing new is dropped."""
        self._refuse_if_closed()
        _check_time("emit_watermark()", timestamp)
        if timestamp > self._watermark:
            self._watermark = timestamp
            self._before.append((self._drain(), timestamp))

    def flush(self, output: protocol.OperatorOutput) -> None:
        """Hand everything on, in order."""
        before, self._before = self._before, []
        for records, timestamp in before:
            _emit(output, records)
            output.watermark(timestamp)
        if self._main.values or self._sides:
            _emit(output, self._drain())

    def _drain(self) -> list[tuple[str | None, list[Any], Timestamps]]:
        sides, self._sides = self._sides, {}
        return [(None, *self._main.drained()), *((tag, *records.drained()) for tag, records in sides.items())]

    def _time_of(self, timestamp: int | None) -> int | None:
        if self.refusal is not None:
            self._refuse_if_closed()
        if timestamp is None:
            return self.now_at
        _check_time("a record", timestamp)
        return timestamp

    def _refuse_if_closed(self) -> None:
        if self.refusal is not None:
            raise UnsupportedOperationError(self.refusal)


def _emit(
    output: protocol.OperatorOutput, records: Iterable[tuple[str | None, list[Any], Timestamps]]
) -> None:
    for tag, values, timestamps in records:
        if tag is None:
            output.emit(values, timestamps)
        else:
            output.emit_side(tag, values, timestamps)


def _check_time(what: str, timestamp: object) -> None:
    if type(timestamp) is not int:
        raise WrongArgumentError(
            f"{what} needs its time as milliseconds in an int, got {short_repr(timestamp)} ({type(timestamp).__name__})"
        )


class _TimersOfKeys(KeyedTimers):
    """Timers that are refused where there is no key; such an operator is also called without one."""

    @override
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Fire when the machine's time reaches ``timestamp``."""
        self._check_key()
        super().register_processing_time_timer(timestamp)

    @override
    def register_event_time_timer(self, timestamp: int) -> None:
        """Fire when the watermark reaches ``timestamp``."""
        self._check_key()
        super().register_event_time_timer(timestamp)

    @override
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a timer, if it is there."""
        self._check_key()
        super().delete_processing_time_timer(timestamp)

    @override
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget a timer, if it is there."""
        self._check_key()
        super().delete_event_time_timer(timestamp)

    def _check_key(self) -> None:
        key = self._keys.current_key
        if isinstance(key, NoKey):
            key.refuse()


class _Context(StreamOperatorContext):
    """What the user's operator sees of its shell."""

    def __init__(
        self, shell: RawOperator, runtime: RuntimeContext, timers: TimerService, state: KeyedBackend | None
    ) -> None:
        self._shell = shell
        self._runtime = runtime
        self._timers = timers
        self._state = state

    @property
    @override
    def output(self) -> Output:
        return self._shell.gathered

    @property
    @override
    def runtime_context(self) -> RuntimeContext:
        return self._runtime

    @property
    @override
    def timer_service(self) -> TimerService:
        return self._timers

    @property
    @override
    def current_key(self) -> Any:
        if self._state is None:
            raise UnsupportedOperationError("this stream has no keys: call key_by() before transform()")
        key = self._state.current_key
        return key.refuse() if isinstance(key, NoKey) else shown(key)

    @override
    def for_each(self, values: list[Any], timestamps: Timestamps, function: Call) -> None:
        self._shell.for_each(values, timestamps, function)


class RawOperator(TimerOperator):
    """``process_batch`` over one input, or ``process_batch1`` and ``process_batch2`` over two."""

    def __init__(
        self,
        function: UserFunction,
        methods: tuple[str, ...],
        keys: tuple[KeyOf | None, ...],
        state: KeyedBackend,
    ) -> None:
        super().__init__(function)
        self.gathered = GatheringOutput()
        self._user: StreamOperator = function.instance
        self._calls = [function.method(name) for name in methods]
        self._keys = [*keys, *[None] * (len(methods) - len(keys))]
        self._keyed = any(key is not None for key in keys)
        self._state = state
        self._batch: list[Any] | None = None
        self._input = 0
        self._failure: BaseException | None = None

    @override
    def open(self, context: OperatorContext) -> None:
        """Set the user's operator up, give it its states, then open it."""
        self.output = context.output
        self.gathered.protects = context.protects
        self.gathered.on_full = self._flush_within_call
        self._pace = context.pace
        self._timers = (
            _TimersOfKeys(self, context.services, self._state)
            if self._keyed
            else ClockOnly(self, context.services)
        )
        self._fires_all_at_end = context.mode is RuntimeMode.BATCH
        state = self._state if self._keyed else None
        self._user.setup(_Context(self, context.runtime, self._timers, state))
        self.gathered.refusal = "initialize_state() cannot emit: the operator is not open yet; emit in open()"
        self.initialize_functions(context)
        self.gathered.refusal = None
        self.function.open(context.runtime)
        self._flush()

    def _flush(self) -> None:
        if self._failure is not None:
            raise self._failure
        self.gathered.flush(self.output)
        if self._pace.late:
            self._pace.breathe()

    def _flush_within_call(self) -> None:
        try:
            self._flush()
        except BaseException as error:
            self._failure = error
            raise

    @override
    def on_latency_marker(self, marker: LatencyMarker) -> None:
        """Tell the user's operator."""
        self._no_record_at_hand()
        self._user.process_latency_marker(marker.marked_at_ms, marker.source_id, marker.source_subtask)
        self._flush()

    # Records ------------------------------------------------------------------------------------------

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the first input."""
        self._process(0, values, timestamps)

    @override
    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input."""
        self._process(1, values, timestamps)

    def _process(self, index: int, values: list[Any], timestamps: Timestamps) -> None:
        self._input, self._batch, self.cursor = index, values, None
        self._no_record_at_hand()
        self._calls[index](values, timestamps)
        self._batch = None
        self._flush()

    def for_each(self, values: list[Any], timestamps: Timestamps, function: Call) -> None:
        """Call ``function`` with each record, in the context of its key and time."""
        self._check_for_each(values, timestamps)
        try:
            if self._keyed:
                self._each_of_keys(values, timestamps, function)
            else:
                self._each(values, timestamps, function)
        except RAISED_BY_USERS as error:
            if values is not self._batch:  # the cursor tells nothing about the batch then
                self._note_record(error, values)
            raise
        self._no_record_at_hand()
        self.cursor = None

    def _check_for_each(self, values: list[Any], timestamps: Timestamps) -> None:
        if timestamps is not None and len(timestamps) != len(values):
            raise WrongArgumentError(
                f"for_each() needs a timestamp for each record, or None instead of all, got {len(values)} records and "
                f"{len(timestamps)} timestamps"
            )
        if self._batch is None and self._keyed and len(self._calls) > 1:
            raise UnsupportedOperationError(
                "for_each() takes the keys of the input whose batch is being processed, and there is none now: call it "
                "in process_batch1() or process_batch2()"
            )

    def _each(self, values: list[Any], timestamps: Timestamps, function: Call) -> None:
        gathered = self.gathered
        self.cursor = cursor = iter(values)
        for value, timestamp in zip(cursor, _times(timestamps), strict=False):
            gathered.now_at = timestamp
            function(value, timestamp)

    def _each_of_keys(self, values: list[Any], timestamps: Timestamps, function: Call) -> None:
        gathered, state = self.gathered, self._state
        keys = self._keys_of(values)
        self.cursor = cursor = iter(values)
        for value, timestamp in zip(cursor, _times(timestamps), strict=False):
            # Here, and not in the zip: the cursor has passed the record when its key cannot be computed. Announced with
            # the batch; a call would be one more for every record.
            state.current_key = next(keys)
            gathered.now_at = timestamp
            function(value, timestamp)

    def _keys_of(self, values: list[Any]) -> Iterator[Any]:
        """The keys, computed one by one unless they have to be announced."""
        key_of = self._keys[self._input]
        if key_of is None:
            return repeat(_UNKEYED_INPUT)
        announced = announce_batch(self, values, key_of, self._state)
        return map(key_of, values) if announced is None else iter(announced)

    def _note_record(self, error: Exception | SystemExit, values: list[Any]) -> None:
        if self.cursor is not None:
            left = self.cursor.__length_hint__()  # type: ignore[attr-defined]
            if left < len(values):
                error.add_note(f"in for_each() at the record {short_repr(values[len(values) - left - 1])}")
        self.cursor = None

    def _no_record_at_hand(self) -> None:
        self.gathered.now_at = None
        self._state.turn_to_no_key(NO_RECORD_AT_HAND)

    def next_selection(self) -> InputSelection:
        """Which input the user's operator wants to read next; only for one that is `InputSelectable`."""
        user: Any = self._user
        selection = user.next_selection()
        if not isinstance(selection, InputSelection):
            raise ProgramError(
                f"next_selection() of {describe_function(user)} must return InputSelection.FIRST, SECOND or ALL, got "
                f"{short_repr(selection)} ({type(selection).__name__})"
            )
        return selection

    # Time ---------------------------------------------------------------------------------------------

    @override
    def on_watermark(self, timestamp: int) -> None:
        """Fire the timers that are due, then let the user's operator decide about the watermark."""
        self.current_watermark = timestamp
        self._fire_event_time(timestamp)
        self._user.process_watermark(timestamp)
        self._flush()

    @override
    def _fire(self, due: Iterator[tuple[int, Any]], domain: TimeDomain) -> None:
        """Call back for each timer, with its key; what a processing-time timer emits has no event time."""
        state, gathered = self._state, self.gathered
        timed = domain is TimeDomain.EVENT_TIME
        callback = self._user.on_event_time if timed else self._user.on_processing_time
        for time, key in due:
            state.turn_to(key)
            gathered.now_at = time if timed else None
            try:
                callback(time)
            except RAISED_BY_USERS as error:
                error.add_note(f"in {callback.__name__} for key {short_repr(key)} at {time}")
                raise
        self._no_record_at_hand()
        self._flush()

    @override
    def finish(self) -> None:
        """In BATCH all timers fire first; then the user's operator emits its last results."""
        super().finish()
        self._no_record_at_hand()
        self._user.finish()
        self._flush()
        self.gathered.refusal = "nothing can be emitted any more: the operator has finished; emit in finish()"

    # Checkpoints --------------------------------------------------------------------------------------

    @override
    def prepare_barrier(self, order: CheckpointOrder) -> None:
        """The user's operator emits what has to be before the barrier."""
        self._no_record_at_hand()
        self._user.prepare_snapshot_pre_barrier(order.id)
        self._flush()

    @override
    def snapshot(self, order: CheckpointOrder) -> None:
        """The user's operator brings its states up to date; what it emitted now would be behind the barrier."""
        before = self.gathered.refusal
        self.gathered.refusal = (
            "snapshot_state() cannot emit: the barrier has been sent on, so the records would not belong to the "
            "checkpoint; emit in prepare_snapshot_pre_barrier()"
        )
        super().snapshot(order)
        self.gathered.refusal = before

    @override
    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell the user's operator, which may emit."""
        super().notify_complete(checkpoint_id)
        self._flush()

    @override
    def notify_aborted(self, checkpoint_id: int) -> None:
        """Tell the user's operator, which may emit."""
        super().notify_aborted(checkpoint_id)
        self._flush()

    @override
    def close(self) -> None:
        self.gathered.refusal = "close() cannot emit: it is also called after a failure; emit in finish()"
        super().close()


def _do_nothing() -> None:
    """What a full output does before its operator is open."""


def _times(timestamps: Timestamps) -> Iterable[int | None]:
    return repeat(None) if timestamps is None else timestamps
