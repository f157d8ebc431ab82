"""What a program of `value_programs` must give: a naive interpreter, one record at a time, depth first.

It is written for comparison and shares nothing with the engine: every record is pickled at every hop, every value of a
state is pickled when it is written and when it is read, state is a dictionary, timers are a list that is searched. What a
function emits is handed on at once, before the function goes on. Everything runs at parallelism 1.

PyFlink 2.3 gives the same for programs that it can run, with one exception: there the windows that a record falls into
share the object, so a reduce function that changes its first argument in place sees what it did to another window, as long
as both are in the cache of the Python process. Here, as with RocksDB in Java, every window has its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import cloudpickle

from firesteel.common._override import override
from firesteel_support.naive_windows import NaiveWindows, OpenWindow
from firesteel_support.value_functions import SIDE
from firesteel_support.value_programs import Program, Sink, SourceStep, Step
from firesteel_support.value_shapes import key_of, number_of, shown

__all__ = ["interpret"]

_BEGINNING = -(2**63)
_END = 2**63 - 1

Results = dict[str, list[tuple[str, str]]]


def interpret(program: Program) -> Results:
    """For each sink its records, as pairs of key and text."""
    nodes: list[_Node] = []
    for step in program.steps:
        node = _Node() if isinstance(step, SourceStep) else _node_of(step)(step)
        nodes.append(node)
        if isinstance(step, Step):
            for index, stream in enumerate(step.inputs):
                nodes[stream.step].readers[stream.side].append((node, index))
    sinks = {sink.name: _Sink(sink) for sink in program.sinks}
    for end in sinks.values():
        nodes[end.sink.stream.step].readers[end.sink.stream.side].append((end, 0))
    _play([(n, s) for n, s in zip(nodes, program.steps, strict=True) if isinstance(s, SourceStep)])
    return {name: end.records for name, end in sinks.items()}


def _play(sources: list[tuple[_Node, SourceStep]]) -> None:
    """All sources in turn, a round each; then they end, in turn."""
    for number in range(max(len(step.rounds) for _, step in sources)):
        for node, step in sources:
            if number < len(step.rounds):
                each = step.rounds[number]
                for value, timestamp in each.records:
                    node.emit(value, timestamp)
                if each.watermark is not None:
                    node.emit_watermark(each.watermark)
    for node, _ in sources:
        node.emit_watermark(_END)


class _Node:
    """A step at work: it hands copies of what it emits to those who read it."""

    def __init__(self) -> None:
        self.readers: dict[bool, list[tuple[_Node, int]]] = {
            False: [],
            True: [],
        }  # by: is it the side output?
        self.clocks: dict[int, int] = {}  # of each input
        self.clock = _BEGINNING

    def emit(self, value: Any, timestamp: int | None, side: bool = False) -> None:
        blob = pickle.dumps(value)
        for reader, index in self.readers[side]:
            reader.receive(index, pickle.loads(blob), timestamp)

    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        raise NotImplementedError

    def emit_watermark(self, clock: int) -> None:
        for reader, index in self.readers[False] + self.readers[True]:
            reader.receive_watermark((self, index), clock)

    def receive_watermark(self, channel: Any, clock: int) -> None:
        self.clocks[channel] = max(clock, self.clocks.get(channel, _BEGINNING))
        if len(self.clocks) == self.channels and min(self.clocks.values()) > self.clock:
            self.clock = min(self.clocks.values())
            self.on_watermark()
            self.emit_watermark(self.clock)

    channels = 1

    def on_watermark(self) -> None:
        """Event time has come to ``self.clock``."""


class _Sink(_Node):
    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self.sink = sink
        self.records: list[tuple[str, str]] = []

    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        self.records.append((key_of(value), shown(value)))


class _Operator(_Node):
    """A step with a function, of which it has a copy of its own."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.channels = len(step.inputs)
        self.function = cloudpickle.loads(cloudpickle.dumps(step.function))
        self.key: Any = None
        self.timestamp: int | None = None
        self.states: dict[tuple[str, Any], bytes] = {}
        if hasattr(self.function, "open"):
            self.function.open(_RuntimeContext(self))

    def call(self, method: str, *arguments: Any) -> Any:
        """Call the function, which may be one without a class."""
        return getattr(self.function, method, self.function)(*arguments)

    def emit_all(self, results: Iterable[Any] | None, timestamp: int | None) -> None:
        for result in results or ():
            if type(result) is tuple and type(result[0]) is type(SIDE):
                self.emit(result[1], timestamp, side=True)
            else:
                self.emit(result, timestamp)


# Without state ------------------------------------------------------------------------------------------


class _Union(_Operator):
    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        self.emit(value, timestamp)


class _Map(_Operator):
    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        self.emit(self.call("map", value), timestamp)


class _Filter(_Operator):
    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        if self.call("filter", value):
            self.emit(value, timestamp)


class _FlatMap(_Operator):
    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        self.emit_all(self.call("flat_map", value), timestamp)


class _Assign(_Operator):
    """Event time begins anew: the assigner, then the record leaves, then the generator sees it."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        strategy = self.function.strategy()
        self.assign = strategy.timestamp_function()
        self.generator = strategy.create_generator() if self.function.generator else None

    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        stamp = self.assign(value, timestamp)
        self.emit(value, stamp)
        if self.generator is not None:
            self.generator.on_event(value, stamp, self)

    @override
    def emit_watermark(self, clock: Any) -> None:
        """From the generator, or from before: of that only the end counts."""
        new = clock if isinstance(clock, int) else clock.timestamp
        if isinstance(clock, int) and clock < _END:
            return
        if new > self.sent:
            self.sent = new
            super().emit_watermark(new)

    sent = _BEGINNING


class _CoMap(_Operator):
    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        call = self.function.map1 if index == 0 else self.function.map2
        self.emit(call(value), timestamp)


class _CoFlatMap(_Operator):
    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        call = self.function.flat_map1 if index == 0 else self.function.flat_map2
        self.emit_all(call(value), timestamp)


# With keys, state and timers ----------------------------------------------------------------------------


class _Process(_Operator):
    def __init__(self, step: Step) -> None:
        self.timers: list[tuple[int, Any]] = []
        super().__init__(step)

    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        self.key = key_of(value)
        self.timestamp = timestamp
        name = "process_element" if self.channels == 1 else f"process_element{index + 1}"
        self.emit_all(getattr(self.function, name)(value, _Context(self)), timestamp)

    @override
    def on_watermark(self) -> None:
        while due := [timer for timer in self.timers if timer[0] <= self.clock]:
            timer = min(due)
            self.timers.remove(timer)
            self.timestamp, self.key = timer
            self.emit_all(self.function.on_timer(self.timestamp, _Context(self)), self.timestamp)


class _Reduce(_Operator):
    """The value of each key so far, with each record."""

    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        self.key = key_of(value)
        state = _Value(self, "reduced")
        kept = state.value()
        state.update(value if kept is None else self.reduced(kept, value))
        self.emit(state.value(), timestamp)

    def reduced(self, kept: Any, value: Any) -> Any:
        return self.call("reduce", kept, value)


class _Rolling(_Reduce):
    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.combined = _ROLLING[step.operation]

    @override
    def reduced(self, kept: Any, value: Any) -> Any:
        return self.combined(kept, value)


def _sum(kept: Any, value: Any) -> Any:
    return _with_number(kept, number_of(kept) + number_of(value))


def _max(kept: Any, value: Any) -> Any:
    return _with_number(kept, max(number_of(kept), number_of(value)))


def _min_by(kept: Any, value: Any) -> Any:
    return value if number_of(value) < number_of(kept) else kept


def _with_number(record: Any, number: int) -> Any:
    if isinstance(record, tuple):
        fields = [record[0], number, *record[2:]]
        return tuple(fields) if type(record) is tuple else type(record)(*fields)
    if hasattr(record, "number") and not hasattr(record, "as_dict"):
        record.number = number
    else:
        record["number" if isinstance(record, dict) else 1] = number
    return record


class _MapWithState(_Operator):
    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        self.key = key_of(value)
        state = _Value(self, "state")
        blob = pickle.dumps(self.function(value, state.value()))
        output = pickle.loads(blob)[0]
        new = pickle.loads(blob)[1]
        if new is None:
            state.clear()
        else:
            state.update(new)
        self.emit_output(output, timestamp)

    def emit_output(self, output: Any, timestamp: int | None) -> None:
        self.emit(output, timestamp)


class _FlatMapWithState(_MapWithState):
    @override
    def emit_output(self, output: Any, timestamp: int | None) -> None:
        self.emit_all(output, timestamp)


# Windows and joins --------------------------------------------------------------------------------------


class _Windowed(_Operator):
    """Folds records into windows as they come; with an evictor, or without a fold, it keeps them as a list."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        assert step.windows is not None
        self.step = step
        self.settings = step.windows
        self.windows = NaiveWindows(step.windows, self.add, self.merge, self.fire, self.gone, self.late)
        self.window_function = pickle.loads(pickle.dumps(step.window_function))
        if self.window_function is not None:
            self.window_function.open(_RuntimeContext(self))
        self.keeps_all = step.operation == "process" or bool(step.windows.evictor)

    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        assert timestamp is not None
        self.key = key_of(value)
        self.windows.receive(self.key, value, timestamp)

    @override
    def on_watermark(self) -> None:
        self.windows.advance(self.clock)

    def add(self, contents: Any, value: Any, timestamp: int) -> Any:
        if self.keeps_all:
            return [*(contents or []), (pickle.dumps(value), timestamp)]
        return pickle.dumps(self.folded(None if contents is None else pickle.loads(contents), _copy(value)))

    def folded(self, kept: Any, value: Any) -> Any:
        match self.step.operation:
            case "aggregate":
                return self.function.add(value, self.function.create_accumulator() if kept is None else kept)
            case "reduce":
                return value if kept is None else self.call("reduce", kept, value)
        return value if kept is None else _ROLLING[self.step.operation](kept, value)

    def merge(self, contents: Any, others: Any) -> Any:
        if self.keeps_all:
            return contents + others
        return pickle.dumps(self.function.merge(pickle.loads(contents), pickle.loads(others)))

    def late(self, value: Any, timestamp: int) -> None:
        if self.settings.late_aside:
            self.emit(value, timestamp, side=True)

    def gone(self, window: OpenWindow) -> None:
        function = self.function if self.step.operation == "process" else self.window_function
        if function is not None:
            self.key = window.key
            function.clear(_WindowContext(self, window))

    def fire(self, window: OpenWindow) -> None:
        self.key = window.key
        timestamp = _END if self.settings.by_count else window.end - 1
        elements = self.elements(window)
        if self.step.operation == "process":
            results = self.function.process(window.key, _WindowContext(self, window), elements)
        elif self.window_function is not None:
            results = self.window_function.process(window.key, _WindowContext(self, window), elements)
        else:
            results = elements
        self.emit_all(results, timestamp)

    def elements(self, window: OpenWindow) -> list[Any]:
        """What a window function gets: all records, or the one result of the fold."""
        if self.keeps_all:
            window.contents = self.evicted(window.contents)
            elements = [pickle.loads(blob) for blob, _ in window.contents]
            if self.step.operation == "process":
                return elements
            result = None
            for element in elements:
                result = self.folded(result, element)
        else:
            result = pickle.loads(window.contents)
        return [self.function.get_result(result) if self.step.operation == "aggregate" else result]

    def evicted(self, contents: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
        keeps = self.settings.keeps
        if self.settings.evictor == "count":
            return contents[-keeps:]
        if self.settings.evictor == "time":
            newest = max(timestamp for _, timestamp in contents)
            return [each for each in contents if each[1] > newest - keeps]
        return contents


class _CoGroup(_Operator):
    """The records of both sides in a window, when it is over."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        assert step.windows is not None
        # Tumbling windows: nothing merges; late records and old windows are forgotten.
        ignore = lambda *_: None  # noqa: E731
        self.windows = NaiveWindows(step.windows, self.add, ignore, self.fire, ignore, ignore)

    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        assert timestamp is not None
        self.windows.receive(key_of(value), (index, value), timestamp)

    def add(self, contents: Any, value: Any, timestamp: int) -> Any:
        return [*(contents or []), pickle.dumps(value)]

    @override
    def on_watermark(self) -> None:
        self.windows.advance(self.clock)

    def fire(self, window: OpenWindow) -> None:
        records = [pickle.loads(blob) for blob in window.contents]
        sides = ([value for side, value in records if side == index] for index in (0, 1))
        self.emit_all(self.function.co_group(*sides), window.end - 1)


class _IntervalJoin(_Operator):
    """Every record of one side, kept until no partner can come; a record that comes late has none."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.bounds = step.bounds
        self.kept: tuple[list[tuple[str, int, bytes]], ...] = ([], [])

    @override
    def receive(self, index: int, value: Any, timestamp: int | None) -> None:
        assert timestamp is not None
        if timestamp < self.clock:
            return
        lower, upper = self.bounds
        self.kept[index].append((key_of(value), timestamp, pickle.dumps(value)))
        mine = _copy(value)  # one object for all partners, which come in the order of their time
        for key, other_time, blob in sorted(self.kept[1 - index], key=lambda each: each[1]):
            left, right = (timestamp, other_time) if index == 0 else (other_time, timestamp)
            if key == key_of(value) and left + lower <= right <= left + upper:
                pair = (mine, pickle.loads(blob))
                self.timestamp = max(left, right)
                results = self.function.process_element(*(pair if index == 0 else pair[::-1]), _Context(self))
                self.emit_all(results, self.timestamp)

    @override
    def on_watermark(self) -> None:
        lower, upper = self.bounds
        for kept, reach in zip(self.kept, (upper, -lower), strict=True):
            kept[:] = [each for each in kept if each[1] + max(0, reach) > self.clock]


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


# What functions are given -------------------------------------------------------------------------------


class _Context:
    """The context of a process function, the runtime's timer service included."""

    def __init__(self, node: _Operator) -> None:
        self._node = node
        self._key, self._timestamp = node.key, node.timestamp

    def timestamp(self) -> int | None:
        return self._timestamp

    def get_current_key(self) -> Any:
        return self._key

    def output(self, tag: Any, value: Any) -> None:
        self._node.emit(value, self._timestamp, side=True)

    def timer_service(self) -> Any:
        return self

    def current_watermark(self) -> int:
        return self._node.clock

    def register_event_time_timer(self, timestamp: int) -> None:
        timers: list[Any] = self._node.timers  # type: ignore[attr-defined]
        if (timestamp, self._key) not in timers:
            timers.append((timestamp, self._key))

    def delete_event_time_timer(self, timestamp: int) -> None:
        timers: list[Any] = self._node.timers  # type: ignore[attr-defined]
        if (timestamp, self._key) in timers:
            timers.remove((timestamp, self._key))


class _WindowContext:
    """The context of a window function."""

    def __init__(self, node: _Operator, window: OpenWindow) -> None:
        self._node = node
        self._window = window

    def window(self) -> Any:
        window = self._window
        return window if window.start != window.end else SimpleNamespace(id=window.start)

    def global_state(self) -> Any:
        return _RuntimeContext(self._node)

    def window_state(self) -> Any:
        return _RuntimeContext(self._node, f"{self._window.start} {self._window.end} ")


class _RuntimeContext:
    """Gives states to the functions of one step."""

    def __init__(self, node: _Operator, prefix: str = "") -> None:
        self._node = node
        self._prefix = prefix

    def get_state(self, descriptor: Any) -> Any:
        return _Value(self._node, self._prefix + descriptor.name)

    def get_list_state(self, descriptor: Any) -> Any:
        return _List(self._node, descriptor.name)

    def get_map_state(self, descriptor: Any) -> Any:
        return _Mapping(self._node, descriptor.name)

    def get_reducing_state(self, descriptor: Any) -> Any:
        return _Reducing(self._node, descriptor.name, descriptor.get_reduce_function())

    def get_aggregating_state(self, descriptor: Any) -> Any:
        return _Aggregating(self._node, descriptor.name, descriptor.get_agg_function())


class _Value:
    """One pickled value per key."""

    def __init__(self, node: _Operator, name: str) -> None:
        self._node = node
        self._name = name

    def value(self) -> Any:
        blob = self._node.states.get((self._name, self._node.key))
        return None if blob is None else pickle.loads(blob)

    def update(self, value: Any) -> None:
        self._node.states[self._name, self._node.key] = pickle.dumps(value)

    def clear(self) -> None:
        self._node.states.pop((self._name, self._node.key), None)


class _List(_Value):
    def get(self) -> Any:
        return [pickle.loads(blob) for blob in self.value() or []]

    def add(self, value: Any) -> None:
        super().update([*(self.value() or []), pickle.dumps(value)])

    @override
    def update(self, values: Any) -> None:
        super().update([pickle.dumps(value) for value in values])


class _Mapping(_Value):
    def get(self, key: Any) -> Any:
        return (self.value() or {}).get(key)

    def put(self, key: Any, value: Any) -> None:
        self.update({**(self.value() or {}), key: value})

    def remove(self, key: Any) -> None:
        self.update({k: v for k, v in (self.value() or {}).items() if k != key})

    def items(self) -> Any:
        return [(key, self.get(key)) for key in self.value() or {}]


class _Reducing(_Value):
    def __init__(self, node: _Operator, name: str, function: Any) -> None:
        super().__init__(node, name)
        self._function = function

    def get(self) -> Any:
        return self.value()

    def add(self, value: Any) -> None:
        kept = self.value()
        self.update(value if kept is None else self._function.reduce(kept, value))


class _Aggregating(_Reducing):
    @override
    def get(self) -> Any:
        kept = self.value()
        return None if kept is None else self._function.get_result(kept)

    @override
    def add(self, value: Any) -> None:
        kept = self.value()
        start = self._function.create_accumulator() if kept is None else kept
        self.update(self._function.add(value, start))


def _node_of(step: Step) -> type[_Operator]:
    return _Windowed if step.windows is not None and step.operation != "co_group" else _NODES[step.operation]


_ROLLING: dict[str, Callable[[Any, Any], Any]] = {"sum": _sum, "max": _max, "min_by": _min_by}
_NODES: dict[str, type[_Operator]] = {
    "union": _Union,
    "map": _Map,
    "assign": _Assign,
    "partition": _Union,
    "filter": _Filter,
    "flat_map": _FlatMap,
    "co:map": _CoMap,
    "co:flat_map": _CoFlatMap,
    "process": _Process,
    "keyed:process": _Process,
    "keyed:co:process": _Process,
    "reduce": _Reduce,
    "sum": _Rolling,
    "max": _Rolling,
    "min_by": _Rolling,
    "interval_join": _IntervalJoin,
    "co_group": _CoGroup,
    "map_with_state": _MapWithState,
    "flat_map_with_state": _FlatMapWithState,
}
