"""Process functions, plain and keyed, with one input or two: hop 8 of a record's journey.

A process function yields results, and ``tag, value`` pairs for side outputs; `emission` gathers them as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import JobExecutionError, UnsupportedOperationError, short_repr
from firesteel.contracts.functions import KeyedProcessFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.timers import TimeDomain, TimerService
from firesteel.plan.keys import KeyOf
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.value_key import shown
from firesteel.runtime.blame import RAISED_BY_USERS
from firesteel.runtime.few_results import gives_few, never_tags
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import KeyedBatches, batch_keys
from firesteel.runtime.operators.emission import Emission, Watch, protects
from firesteel.runtime.operators.function_operator import FunctionOperator, TimerOperator
from firesteel.runtime.operators.tolerance import Tolerance
from firesteel.runtime.timers import ClockOnly, KeyedTimers
from firesteel.runtime.user_function import UserFunction
from firesteel.state.keyed_backend import KeyedBackend


class ElementContext(KeyedProcessFunction.OnTimerContext):
    """The ``ctx`` argument of all process functions; one object per operator, updated per record."""

    def __init__(self, timers: TimerService, state: KeyedBackend | None, emission: Emission) -> None:
        self._timers = timers
        self._state = state
        self._emission = emission
        self.domain: TimeDomain | None = None

    @override
    def timestamp(self) -> int | None:
        """Event time of the record in milliseconds, None when it has none."""
        return self._emission.now_at

    @override
    def timer_service(self) -> TimerService:
        return self._timers

    @override
    def get_current_key(self) -> Any:
        """The key of the record."""
        if self._state is None:
            raise UnsupportedOperationError("this stream has no keys: call key_by() before process()")
        return shown(self._state.current_key)

    @override
    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Send a record to a side output."""
        self._emission.add_aside(output_tag.tag_id, value)

    @override
    def time_domain(self) -> Any:
        """Which clock fired the timer."""
        if self.domain is None:
            raise UnsupportedOperationError("time_domain() is only known inside on_timer()")
        return self.domain


class ProcessOperator(TimerOperator):
    """``process_element`` over one input, or ``process_element1`` and ``process_element2`` over two."""

    reads_keys_first = True

    def __init__(
        self,
        function: UserFunction,
        methods: tuple[str, ...],
        keys: tuple[KeyOf | None, ...],
        state: KeyedBackend,
        tolerance: Tolerance | None = None,
    ) -> None:
        super().__init__(function)
        self._calls = [function.method(name) for name in methods]
        self._keys = [*keys, *[None] * (len(methods) - len(keys))]
        self._state = state
        self._tolerance = tolerance

    @override
    def open(self, context: OperatorContext) -> None:
        """Make the context object, then open the user's function."""
        keyed = self._keys[0] is not None
        timers = (
            KeyedTimers(self, context.services, self._state) if keyed else ClockOnly(self, context.services)
        )
        self._timers = timers
        self._pace = context.pace
        self._emission = Emission(context)
        self._contexts = self._make_contexts(timers, self._state if keyed else None)
        self._on_timer = getattr(self.function.instance, "on_timer", None)
        self._fires_all_at_end = context.mode is RuntimeMode.BATCH
        super().open(context)
        self._guarded = [protects(context, call) for call in self._calls]
        self._watch = Watch(context)
        self._tagged = [
            guarded or not never_tags(call) for guarded, call in zip(self._guarded, self._calls, strict=True)
        ]
        self._few = [gives_few(call) for call in self._calls]
        if self._tolerance is not None:
            self._tolerance.open(context, self._emission)
            self._calls = [self._tolerance.around(call) for call in self._calls]
            self._few = [False] * len(self._calls)

    def _make_contexts(self, timers: TimerService, state: KeyedBackend | None) -> list[ElementContext]:
        """The context object of each input; that of the first is also the timers'."""
        return [ElementContext(timers, state, self._emission)] * len(self._calls)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the first input."""
        self._process(0, values, timestamps)

    @override
    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input."""
        self._process(1, values, timestamps)

    def _process(self, index: int, values: list[Any], timestamps: Timestamps) -> None:
        if not all(self._guarded) and self._watch.finds():
            self._guarded = self._tagged = [True] * len(self._calls)  # they share the state
        key_of = self._keys[index]
        keys = None if key_of is None else iter(batch_keys(self, values, key_of, self._state))
        self.cursor = cursor = self._pace.begin(values)
        self._emission.call_each(
            cursor,
            timestamps,
            self._calls[index],
            guarded=self._guarded[index],
            tagged=self._tagged[index],
            few=self._few[index],
            context=self._contexts[index],
            keys=keys,
            state=self._state,
        )
        self.left = self._pace.end()

    # Time -----------------------------------------------------------------------------------------------

    @override
    def on_watermark(self, timestamp: int) -> None:
        """Fire the timers that are due and let their results go, then pass the watermark on."""
        self.current_watermark = timestamp
        self._fire_event_time(timestamp)
        self.output.watermark(timestamp)

    @override
    def _fire(self, due: Iterator[tuple[int, Any]], domain: TimeDomain) -> None:
        """Call ``on_timer`` for each timer, with its key in context; results leave in batches."""
        context, emission = self._contexts[0], self._emission
        context.domain = domain
        # What a processing-time timer emits has no event time.
        emission.begin(timed=domain is TimeDomain.EVENT_TIME)
        try:
            emission.add_all(self._timer_calls(due))
        except JobExecutionError:  # of an operator further down
            raise
        except RAISED_BY_USERS as error:
            error.add_note(f"in on_timer for key {short_repr(self._state.current_key)} at {emission.now_at}")
            raise
        finally:
            context.domain = None
        emission.flush()

    def _timer_calls(self, due: Iterator[tuple[int, Any]]) -> Iterator[Any]:
        """What ``on_timer`` returns for each timer."""
        state, emission, context = self._state, self._emission, self._contexts[0]
        for time, key in due:
            state.turn_to(key)
            emission.now_at = time
            if self._on_timer is None:
                raise UnsupportedOperationError(
                    f"a timer fired, but {self.function.description} has no on_timer(); give it one, as a "
                    "KeyedCoProcessFunction has, or register no timers"
                )
            yield self._on_timer(time, context)


class CoOperator(FunctionOperator):
    """What ``CoMapFunction`` and ``CoFlatMapFunction`` share: a call for each of two inputs."""

    #: The method for each of them.
    methods: tuple[str, str]

    def __init__(
        self,
        function: UserFunction,
        keys: tuple[KeyOf | None, ...],
        state: KeyedBackend,
        tolerance: Tolerance | None = None,
    ) -> None:
        super().__init__(function)
        self._calls = [self._expanding(call) for call in co_calls(function, self.methods, keys, state)]
        self._batches = co_batches(function, keys, state)
        self._tolerance = tolerance

    forgets_keys = True

    @override
    def open(self, context: OperatorContext) -> None:
        """Make the emission, then open the user's function."""
        self._pace = context.pace
        self._emission = Emission(context)
        super().open(context)
        if self._tolerance is not None:
            self._tolerance.open(context, self._emission)
            self._calls = [self._tolerance.around(call) for call in self._calls]

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the first input."""
        self._process(0, values, timestamps)

    @override
    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the second input."""
        self._process(1, values, timestamps)

    def _process(self, index: int, values: list[Any], timestamps: Timestamps) -> None:
        batches = self._batches[index]
        if batches is not None:
            batches.announce(self, values)
        self.cursor = cursor = self._pace.begin(values)
        self._emission.call_each(cursor, timestamps, self._calls[index], guarded=True)
        self.left = self._pace.end()

    def _expanding(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function that gives any number of results."""
        return call


class CoMapOperator(CoOperator):
    """``map1`` and ``map2``; a result of None is dropped, as in Flink's Python API."""

    methods = ("map1", "map2")

    @override
    def _expanding(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def expand(value: Any) -> tuple[Any, ...]:
            result = call(value)
            return () if result is None else (result,)

        return expand


class CoFlatMapOperator(CoOperator):
    """``flat_map1`` and ``flat_map2``."""

    methods = ("flat_map1", "flat_map2")


def co_calls(
    function: UserFunction, methods: tuple[str, ...], keys: tuple[KeyOf | None, ...], state: KeyedBackend
) -> list[Callable[[Any], Any]]:
    """The two methods, in key context when the inputs are keyed and the function can hold state."""
    calls = [function.method(name) for name in methods]
    if not keys or not function.is_rich:
        return calls
    return [
        call if key is None else keyed_call(call, key, state) for call, key in zip(calls, keys, strict=True)
    ]


def co_batches(
    function: UserFunction, keys: tuple[KeyOf | None, ...], state: KeyedBackend
) -> list[KeyedBatches | None]:
    """Who announces the keys of each input."""
    if not keys or not function.is_rich:
        return [None, None]
    return [None if key is None else KeyedBatches(key, state) for key in keys]


def keyed_call(function: Callable[[Any], Any], key_of: KeyOf, state: KeyedBackend) -> Callable[[Any], Any]:
    """``function`` called with the state's current key set to the key of its argument."""

    def call(value: Any) -> Any:
        state.current_key = key_of(
            value
        )  # announced with its batch; a call would be one more for every record
        return function(value)

    return call
