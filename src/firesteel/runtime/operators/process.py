"""Process functions, plain and keyed, with one input or two: hop 8 of a record's journey.

A process function yields results, and ``tag, value`` pairs for side outputs. Results of a batch are
gathered and sorted into main and side outputs at the end, so the common case - nothing but main output -
costs one look per result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common.errors import UnsupportedOperationError, short_repr
from firesteel.common.time import MAX_TIMESTAMP, to_millis
from firesteel.contracts.functions import KeyedProcessFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.timers import TimeDomain, TimerService
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.blame import RAISED_BY_USERS
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import KeyedBatches, announced_keys
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.operators.side_outputs import Aside, emit_sorted
from firesteel.runtime.operators.stateless import expand_all, map_all
from firesteel.runtime.timers import ClockOnly, KeyedTimers
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend

KeyOf = Callable[[Any], Any]

_EMIT_AT = 1024  # results of timers that leave together


class ElementContext(KeyedProcessFunction.OnTimerContext):
    """The ``ctx`` argument of all process functions; one object per operator, updated per record."""

    def __init__(self, timers: TimerService, state: HashMapBackend | None) -> None:
        self._timers = timers
        self._state = state
        self.now_at: int | None = None
        self.domain: TimeDomain | None = None
        self.results: list[Any] = []
        self.asides: list[Aside] = []

    def timestamp(self) -> int | None:  # type: ignore[override]
        """Event time of the record in milliseconds, None when it has none."""
        return self.now_at

    def timer_service(self) -> TimerService:
        """Both times, and timers."""
        return self._timers

    def get_current_key(self) -> Any:
        """The key of the record."""
        if self._state is None:
            raise UnsupportedOperationError("this stream has no keys: call key_by() before process()")
        return self._state.current_key

    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Send a record to a side output."""
        self.asides.append(Aside(len(self.results), output_tag.tag_id, value, self.now_at))

    def time_domain(self) -> Any:
        """Which clock fired the timer."""
        if self.domain is None:
            raise UnsupportedOperationError("time_domain() is only known inside on_timer()")
        return self.domain


class ProcessOperator(FunctionOperator):
    """``process_element`` over one input, or ``process_element1`` and ``process_element2`` over two."""

    def __init__(
        self,
        function: UserFunction,
        methods: tuple[str, ...],
        keys: tuple[KeyOf | None, ...],
        state: HashMapBackend,
    ) -> None:
        super().__init__(function)
        self._calls = [function.method(name) for name in methods]
        self._keys = [*keys, *[None] * (len(methods) - len(keys))]
        self._state = state

    def open(self, context: OperatorContext) -> None:
        """Make the context object, then open the user's function."""
        keyed = self._keys[0] is not None
        timers = (
            KeyedTimers(self, context.services, self._state) if keyed else ClockOnly(self, context.services)
        )
        self._timers = timers
        self._contexts = self._make_contexts(timers, self._state if keyed else None)
        self._on_timer = getattr(self.function.instance, "on_timer", None)
        self._fires_all_at_end = context.mode is RuntimeMode.BATCH
        super().open(context)

    def _make_contexts(self, timers: TimerService, state: HashMapBackend | None) -> list[ElementContext]:
        """The context object of each input; that of the first is also the timers'."""
        return [ElementContext(timers, state)] * len(self._calls)

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the first input."""
        self._process(0, values, timestamps)

    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input."""
        self._process(1, values, timestamps)

    def _process(self, index: int, values: list[Any], timestamps: Timestamps) -> None:
        call, key_of, context = self._calls[index], self._keys[index], self._contexts[index]
        keys = None
        if key_of is not None and self._state.tracks:
            keys = announced_keys(self, values, key_of, self._state)
        self.cursor = cursor = iter(values)
        context.results, context.asides = [], []
        stamps: Timestamps = None
        if timestamps is None:
            context.now_at = None
            self._without_time(call, key_of, keys, cursor, context)
        else:
            stamps = self._with_time(call, key_of, keys, cursor, timestamps, context)
        emit_sorted(self.output, context.results, stamps, context.asides)

    # Time -----------------------------------------------------------------------------------------------

    def on_watermark(self, timestamp: int) -> None:
        """Fire the timers that are due and let their results go, then pass the watermark on."""
        self.current_watermark = timestamp
        if isinstance(self._timers, KeyedTimers):
            if self._fires_all_at_end and timestamp == MAX_TIMESTAMP:
                self._timers.ignore_new()
            self._fire(self._timers.event_time.due(timestamp), TimeDomain.EVENT_TIME)
        self.output.watermark(timestamp)

    def next_deadline(self) -> float:
        """The time of the next processing-time timer."""
        return self._timers.next_deadline() if isinstance(self._timers, KeyedTimers) else math.inf

    def on_time(self, now: float) -> None:
        """Fire the processing-time timers that are due."""
        assert isinstance(self._timers, KeyedTimers)
        self._fire(self._timers.processing_time.due(to_millis(now)), TimeDomain.PROCESSING_TIME)

    def finish(self) -> None:
        """In BATCH every timer fires at the end; in STREAMING processing-time timers die with the job."""
        if self._fires_all_at_end and isinstance(self._timers, KeyedTimers):
            self._timers.ignore_new()
            self._fire(self._timers.processing_time.due(MAX_TIMESTAMP), TimeDomain.PROCESSING_TIME)

    def _fire(self, due: Iterator[tuple[int, Any]], domain: TimeDomain) -> None:
        """Call ``on_timer`` for each timer, with its key in context; results leave in batches."""
        context, state = self._contexts[0], self._state
        context.results, context.asides = [], []
        stamps: list[int | None] = []
        context.domain = domain
        try:
            for time, key in due:
                if state.tracks:
                    state.touch((key,))
                state.current_key = key
                context.now_at = time
                self._call_timer(time, key)
                stamps += [time] * (len(context.results) - len(stamps))
                if len(stamps) >= _EMIT_AT:
                    self._emit_timed(domain, stamps)
                    stamps = []
        finally:
            context.domain = None
        self._emit_timed(domain, stamps)

    def _call_timer(self, time: int, key: Any) -> None:
        assert self._on_timer is not None
        try:
            found = self._on_timer(time, self._contexts[0])
            if found is not None:
                self._contexts[0].results.extend(found)
        except RAISED_BY_USERS as error:
            error.add_note(f"in on_timer for key {short_repr(key)} at {time}")
            raise

    def _emit_timed(self, domain: TimeDomain, stamps: list[int | None]) -> None:
        context = self._contexts[0]
        # What a processing-time timer emits has no event time.
        emit_sorted(
            self.output, context.results, stamps if domain is TimeDomain.EVENT_TIME else None, context.asides
        )
        context.results, context.asides = [], []

    # Records --------------------------------------------------------------------------------------------

    def _without_time(
        self,
        call: Callable[..., Any],
        key_of: KeyOf | None,
        keys: list[Any] | None,
        values: Iterator[Any],
        context: ElementContext,
    ) -> None:
        """Call the function with each record; ``keys`` are theirs, when they are known already."""
        state = self._state
        extend = context.results.extend
        if key_of is None:
            for value in values:
                found = call(value, context)
                if found is not None:
                    extend(found)
            return
        if keys is not None:
            for state.current_key, value in zip(keys, values, strict=False):
                found = call(value, context)
                if found is not None:
                    extend(found)
            return
        for value in values:
            state.current_key = key_of(value)
            found = call(value, context)
            if found is not None:
                extend(found)

    def _with_time(
        self,
        call: Callable[..., Any],
        key_of: KeyOf | None,
        keys: list[Any] | None,
        values: Iterator[Any],
        timestamps: list[int | None],
        context: ElementContext,
    ) -> Timestamps:
        """The same with event time; returns the timestamps of the results."""
        if keys is not None:
            key_of = _each_of(keys)
        state = self._state
        results = context.results
        extend = results.extend
        stamps: list[int | None] = []
        # The cursor comes last: zip asks its first iterable once more at the end, and the cursor tells
        # which record failed.
        for timestamp, value in zip(timestamps, values, strict=False):
            context.now_at = timestamp
            if key_of is not None:
                state.current_key = key_of(value)
            found = call(value, context)
            if found is not None:
                before = len(results)
                extend(found)
                stamps += [timestamp] * (len(results) - before)
        return stamps


class CoMapOperator(FunctionOperator):
    """``map1`` and ``map2``; a result of None is dropped, as in Flink's Python API."""

    def __init__(self, function: UserFunction, keys: tuple[KeyOf | None, ...], state: HashMapBackend) -> None:
        super().__init__(function)
        self._calls = co_calls(function, ("map1", "map2"), keys, state)
        self._batches = co_batches(function, keys, state)

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the first input."""
        self._process(0, values, timestamps)

    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input."""
        self._process(1, values, timestamps)

    def _process(self, index: int, values: list[Any], timestamps: Timestamps) -> None:
        batches = self._batches[index]
        if batches is not None:
            batches.announce(self, values)
        self.cursor = cursor = iter(values)
        results = map_all(self._calls[index], cursor, len(values))
        # By type, because comparing with None calls the __eq__ of the user's values.
        if type(None) in set(map(type, results)):
            kept = [i for i, result in enumerate(results) if result is not None]
            results = [results[i] for i in kept]
            timestamps = None if timestamps is None else [timestamps[i] for i in kept]
        self.output.emit(results, timestamps)


class CoFlatMapOperator(FunctionOperator):
    """``flat_map1`` and ``flat_map2``."""

    def __init__(self, function: UserFunction, keys: tuple[KeyOf | None, ...], state: HashMapBackend) -> None:
        super().__init__(function)
        self._calls = co_calls(function, ("flat_map1", "flat_map2"), keys, state)
        self._batches = co_batches(function, keys, state)

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the first input."""
        self._process(0, values, timestamps)

    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input."""
        self._process(1, values, timestamps)

    def _process(self, index: int, values: list[Any], timestamps: Timestamps) -> None:
        batches = self._batches[index]
        if batches is not None:
            batches.announce(self, values)
        self.cursor = cursor = iter(values)
        self.output.emit(*expand_all(self._calls[index], cursor, timestamps))


def co_calls(
    function: UserFunction, methods: tuple[str, ...], keys: tuple[KeyOf | None, ...], state: HashMapBackend
) -> list[Callable[[Any], Any]]:
    """The two methods, in key context when the inputs are keyed and the function can hold state."""
    calls = [function.method(name) for name in methods]
    if not keys or not function.is_rich:
        return calls
    return [
        call if key is None else keyed_call(call, key, state) for call, key in zip(calls, keys, strict=True)
    ]


def co_batches(
    function: UserFunction, keys: tuple[KeyOf | None, ...], state: HashMapBackend
) -> list[KeyedBatches | None]:
    """Who announces the keys of each input."""
    if not keys or not function.is_rich:
        return [None, None]
    return [None if key is None else KeyedBatches(key, state) for key in keys]


def _each_of(keys: list[Any]) -> KeyOf:
    """Hands out keys that are known already, one for each record."""
    take = iter(keys).__next__
    return lambda value: take()


def keyed_call(function: Callable[[Any], Any], key_of: KeyOf, state: HashMapBackend) -> Callable[[Any], Any]:
    """``function`` called with the state's current key set to the key of its argument."""

    def call(value: Any) -> Any:
        state.current_key = key_of(value)
        return function(value)

    return call
