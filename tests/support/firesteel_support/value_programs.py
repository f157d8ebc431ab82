"""Random programs with values that change, as data: drawn from a seed, built on an environment, printed in a few lines.

A program is a list of steps. A step reads earlier streams and does one thing with one function of `value_functions`. What
nobody reads ends in a sink that keeps the very objects it was given; some streams have a sink although others read them.

Programs are drawn so that Flink defines their results, and every stream knows how far (`Needs`): in total order, in order
per key (after timers and windows, or where a keyed step is parallel), or only which records there are (where two paths from
one source meet). A function is used only where the order it needs is there.

    seed 7
      0 = source [('a', 0, [[0], 0])@0, ...] w5 ...
      1 = 0.map(ChangesArgument(by=3))
      2 = 1.key_by(key_of).process(YieldsItsState(shape='dict'))
      sink of 2 in TOTAL order
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firesteel.common import Time, WatermarkStrategy
from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.errors import UnsupportedOperationError
from firesteel.compiler.compile import compile_job
from firesteel.contracts.sink import SinkFunction
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)
from firesteel.launch import Submission, intercept
from firesteel.plan.job_plan import JobPlan
from firesteel.testing.scripted_source import Emit, EmitWatermark, Pause, ScriptedSource
from firesteel.testing.scripted_source import Step as ScriptStep
from firesteel_support import value_functions as functions
from firesteel_support.local_master import run_plan
from firesteel_support.value_functions import SIDE, Needs
from firesteel_support.value_shapes import KEYS, SHAPES, change, key_of, made, parts_of, shown

__all__ = [
    "Program",
    "Round",
    "Sink",
    "SourceStep",
    "Step",
    "Stream",
    "compile_program",
    "difference",
    "draw",
    "run_program",
]


@dataclass(frozen=True)
class Stream:
    """What a step gives: its main output or its side output."""

    step: int
    side: bool = False

    @override
    def __repr__(self) -> str:
        return f"{self.step}.side" if self.side else f"{self.step}"


@dataclass(frozen=True)
class Round:
    """Records with their timestamps, then perhaps a watermark."""

    records: tuple[tuple[Any, int], ...]
    watermark: int | None

    @override
    def __repr__(self) -> str:
        records = " ".join(f"{shown(value)}@{timestamp}" for value, timestamp in self.records)
        return records if self.watermark is None else f"{records} w{self.watermark}"


@dataclass(frozen=True)
class SourceStep:
    """Rounds, one after the other."""

    rounds: tuple[Round, ...]

    @override
    def __repr__(self) -> str:
        return f"source [{' | '.join(map(repr, self.rounds))}]"


@dataclass(frozen=True)
class Windows:
    """How a keyed stream is cut: ``kind`` and the lengths it needs, and what differs from the defaults."""

    kind: str  # tumbling, sliding, session, count, sliding count
    size: int  # of a session: the gap
    slide: int = 0
    trigger: str = ""  # nothing: the default; count, purging count, remembering count, continuous
    every: int = 0  # of the trigger
    evictor: str = ""  # nothing; count, time
    keeps: int = 0  # of the evictor
    lateness: int = 0
    late_aside: bool = False  # late records go to the side output

    @property
    def merge(self) -> bool:
        """Whether windows become one."""
        return self.kind == "session"

    @property
    def by_count(self) -> bool:
        """Whether they have nothing to do with time."""
        return "count" in self.kind

    @override
    def __repr__(self) -> str:
        words = [self.kind, f"{self.size}/{self.slide}" if self.slide else str(self.size)]
        words += [f"{self.trigger} trigger {self.every}"] if self.trigger else []
        words += [f"{self.evictor} evictor {self.keeps}"] if self.evictor else []
        words += [f"lateness {self.lateness}"] if self.lateness else []
        return f"window({', '.join(words)})"


@dataclass(frozen=True)
class Step:
    """An operation on one or two earlier streams (a union: on several)."""

    operation: str
    inputs: tuple[Stream, ...]
    function: Any = None
    windows: Windows | None = None
    window_function: Any = None  # of reduce and aggregate in windows
    bounds: tuple[int, int] = (0, 0)  # of an interval join
    selectors: tuple[Any, ...] = (key_of, key_of)  # of keyed inputs

    @property
    def has_side(self) -> bool:
        """Whether it has a side output."""
        return getattr(self.function, "has_side", False) or (
            self.windows is not None and self.windows.late_aside
        )

    @property
    def is_keyed(self) -> bool:
        """Whether its inputs are distributed by key."""
        return self.windows is not None or self.operation in KEYED

    @override
    def __repr__(self) -> str:
        first, *others = self.inputs
        word = self.operation if self.operation in ("union", "interval_join", "co_group") else "connect"
        text = f"{first}" + "".join(f".{word}({other})" for other in others)
        if self.operation == "union":
            return text
        names = [
            getattr(each, "__name__", type(each).__name__) for each in self.selectors[: len(self.inputs)]
        ]
        text += f".key_by({', '.join(names)})" if self.is_keyed else ""
        text += f".{self.windows!r}" if self.windows else ""
        text += f".between{self.bounds}" if self.operation == "interval_join" else ""
        given = [
            getattr(f, "__name__", None) or repr(f)
            for f in (self.function, self.window_function)
            if f is not None
        ]
        return f"{text}.{self.method}({', '.join(given)})"

    @property
    def method(self) -> str:
        """The method of the API."""
        method = self.operation.rpartition(":")[2]
        return _METHODS.get(method, method)


@dataclass(frozen=True)
class Sink:
    """Where a stream ends: ``order`` says how far the order of its records is defined."""

    stream: Stream
    order: Needs
    changes: bool  # whether the sink changes what it got, after it has looked at it

    @property
    def name(self) -> str:
        """The sink's own name in its program."""
        return f"{self.stream}{' (changing)' if self.changes else ''}"


@dataclass(frozen=True)
class Program:
    """All there is to know of a program. ``calm``: a round begins when all that the one before caused is over."""

    seed: int
    calm: bool
    steps: tuple[SourceStep | Step, ...]
    sinks: tuple[Sink, ...]

    @override
    def __str__(self) -> str:
        lines = [f"seed {self.seed}{', calm' if self.calm else ''}"]
        lines += [f"  {index} = {step!r}" for index, step in enumerate(self.steps)]
        lines += [f"  sink of {sink.name} in {sink.order.name} order" for sink in self.sinks]
        return "\n".join(lines)


_METHODS = {
    "interval_join": "process",
    "co_group": "apply",
    "assign": "assign_timestamps_and_watermarks",
    "partition": "partition_custom",
}

#: Operations whose inputs are distributed by key.
KEYED = {
    "keyed:process",
    "reduce",
    "sum",
    "max",
    "min_by",
    "map_with_state",
    "flat_map_with_state",
    "keyed:co:process",
    "interval_join",
    "co_group",
}


# Drawing ------------------------------------------------------------------------------------------------


@dataclass
class _Open:
    """A stream that the next step may read, and what is known of its records."""

    stream: Stream
    order: Needs
    shape: str
    sources: frozenset[int]
    is_big: bool = False
    has_time: bool = True
    is_parallel: bool = False
    readers: int = 0
    is_punctuated: bool = False  # watermarks may come anywhere between its records


def draw(seed: int, parallel: bool = False) -> Program:
    """The program of a seed. ``parallel``: results are the same whatever the parallelism of keyed steps."""
    return _Drawing(seed, parallel).program()


class _Drawing:
    def __init__(self, seed: int, parallel: bool) -> None:
        self.rng = random.Random(f"values {seed} {parallel}")
        self.seed = seed
        self.parallel = parallel
        self.sources = self.rng.choice((1, 1, 2))
        self.calm = parallel or self.sources > 1 or self.rng.random() < 0.4
        self.steps: list[SourceStep | Step] = []
        self.open: list[_Open] = []

    def program(self) -> Program:
        for _ in range(self.sources):
            self._add_source()
        for _ in range(self.rng.choice((1, 2, 2, 3, 3, 4, 5))):
            self._add_step()
        return Program(self.seed, self.calm, tuple(self.steps), tuple(self._sinks()))

    def _add_source(self) -> None:
        rng = self.rng
        shape = rng.choice(list(SHAPES))
        rounds: list[Round] = []
        clock, number, watermark = 0, 0, -1
        for _ in range(3 if self.sources > 1 else rng.choice((1, 2, 3, 5))):
            records: list[tuple[Any, int]] = []
            for _ in range(rng.choice((0, 1, 3, 6)) if self.sources > 1 else rng.choice((1, 2, 4, 8))):
                clock += rng.choice((0, 1, 1, 2, 5))
                timestamp = max(0, clock - rng.choice((0, 0, 0, 1, 3, 12)))
                again = records and rng.random() < 0.1  # the very same object
                value = (
                    records[-1][0]
                    if again
                    else made(shape, rng.choice(KEYS[: rng.choice((1, 3, 4))]), number)
                )
                records.append((value, timestamp))
                number += 1
            new = clock - rng.choice((0, 1, 4))
            moves = new > watermark and rng.random() < 0.7
            watermark = new if moves else watermark
            rounds.append(Round(tuple(records), watermark if moves else None))
        self.steps.append(SourceStep(tuple(rounds)))
        index = len(self.steps) - 1
        self.open.append(_Open(Stream(index), Needs.TOTAL, shape, frozenset({index})))

    def _add_step(self) -> None:
        rng = self.rng
        # The newest streams more often: it makes longer lines.
        candidates = self.open[-3:] if rng.random() < 0.7 else self.open
        first = rng.choice(candidates)
        if rng.random() < 0.12 and len(self.open) > 1:
            second = rng.choice([other for other in self.open if other is not first])
            self._add_meeting(first, second)
            return
        if rng.random() < 0.25 and self._can_be_cut(first):
            self._add_window(first)
            return
        operation, function = self._operation(first)
        order = first.order
        if operation in KEYED and self.parallel:
            order = min(order, Needs.PER_KEY)
        if getattr(function, "has_timers", False):
            order = min(order, Needs.PER_KEY)
        self._add(Step(operation, (first.stream,), function), [first], order)

    def _add_meeting(self, first: _Open, second: _Open) -> None:
        """Two streams meet: in a defined order when they have no source in common."""
        rng = self.rng
        apart = not first.sources & second.sources
        order = min(first.order, second.order) if apart else Needs.NONE
        # Who is not parallel deals its records out to those who are, whatever their keys.
        order_if_not_keyed = Needs.NONE if first.is_parallel != second.is_parallel else order
        operations = ["union", "co:map", "co:flat_map"]
        if first.has_time and second.has_time and not first.is_big and not second.is_big:
            if order >= Needs.PER_KEY:
                operations += ["keyed:co:process"] * 3
            punctuated = first.is_punctuated or second.is_punctuated
            if self.calm and (order >= Needs.PER_KEY or not punctuated):
                operations += ["interval_join"] * 2 + ["co_group"]
        operation = rng.choice(operations)
        function: Any = None
        bounds, windows = (0, 0), None
        if operation == "co:map":
            function = functions.ChangesBothSides()
        elif operation == "co:flat_map":
            function = functions.YieldsBothSides()
        elif operation == "keyed:co:process":
            function = functions.SharesState(rng.choice(_STATE_SHAPES))
        elif operation == "interval_join":
            function = functions.PairsShareLists()
            if order >= Needs.PER_KEY and rng.random() < 0.7:
                function = functions.ChangesPairs()
            order = Needs.NONE  # nobody says in which order a record meets its partners
            bounds = (-rng.randint(0, 4), rng.randint(0, 4))
        elif operation == "co_group":
            function = functions.GroupsAndChanges()
            order = Needs.PER_KEY  # whatever the order of the records: it sorts them
            windows = Windows("tumbling", rng.randint(2, 8))
        if operation == "keyed:co:process":
            order = Needs.PER_KEY  # of timers
        elif operation not in KEYED:
            order = order_if_not_keyed
        step = Step(operation, (first.stream, second.stream), function, windows, bounds=bounds)
        self._add(step, [first, second], order)

    def _can_be_cut(self, read: _Open) -> bool:
        if read.order is Needs.NONE and (not self.calm or read.is_punctuated):
            return False  # which records are late would depend on which path is faster
        return read.has_time and not read.is_big

    def _add_window(self, read: _Open) -> None:
        windows = self._windows(read)
        order_matters = read.order >= Needs.PER_KEY and not windows.merge
        folds, processes = ["aggregate"], ["process"]
        if order_matters:
            folds += ["reduce"] * 3 + (["sum", "max", "min_by"] if read.shape in _FIELDS else [])
        operation = self.rng.choice(folds + processes)
        function, window_function = self._window_functions(operation, read, windows, order_matters)
        step = Step(operation, (read.stream,), function, windows, window_function)
        self._add(step, [read], min(read.order, Needs.PER_KEY))

    def _windows(self, read: _Open) -> Windows:
        rng = self.rng
        if read.order is Needs.NONE:  # each record for itself: no results between, nothing late that counts
            return Windows("tumbling", rng.randint(2, 8))
        lateness, aside = rng.choice((0, 0, 2, 9)), rng.random() < 0.5
        match rng.choice(("tumbling", "tumbling", "sliding", "sliding", "session", "count", "sliding count")):
            case "tumbling":
                size = rng.randint(2, 10)
                trigger = rng.choice(
                    ("", "", "count", "purging count", "continuous", "remembering count", "remembering count")
                )
                every = rng.randint(1, 4)
                if not trigger and not lateness and rng.random() < 0.4:
                    return Windows(
                        "tumbling", size, evictor=rng.choice(("count", "time")), keeps=rng.randint(1, 4)
                    )
                return Windows("tumbling", size, 0, trigger, every, "", 0, lateness, aside)
            case "sliding":
                slide = rng.randint(1, 5)
                size = rng.choice((slide * 2, slide * 3, slide + 1, slide * 2 + 1))
                trigger = rng.choice(("", "", "", "count", "remembering count"))
                return Windows("sliding", size, slide, trigger, rng.randint(1, 4), "", 0, lateness, aside)
            case "session":
                return Windows("session", rng.randint(1, 5), lateness=lateness, late_aside=aside)
            case "count":
                return Windows("count", rng.randint(1, 4))
            case _:
                size = rng.randint(2, 4)
                return Windows("sliding count", size, rng.randint(1, size))

    def _window_functions(
        self, operation: str, read: _Open, windows: Windows, order_matters: bool
    ) -> tuple[Any, Any]:
        rng = self.rng
        processing: list[Any] = [functions.ReusesOneList(order_matters), functions.ChangesElements()]
        if not windows.merge:  # those that merge have no state of their own
            processing += [functions.CountsFirings()]
        process = rng.choice(processing)
        match operation:
            case "process":
                return process, None
            case "aggregate":
                gathers = functions.GathersInOrder() if order_matters else functions.GathersTheSmallest()
                return gathers, rng.choice((None, process))
            case "reduce":
                reducing: list[Any] = [
                    functions.AddsToTheFirst(),
                    functions.CountsOn(),
                    functions.TakesTheLast(),
                ]
                if read.shape == "list":
                    reducing += [functions.StartsToChange(rng.randint(0, 9))]
                    reducing += [functions.add_lists, functions.cross_lists, functions.add_in_place]
                return rng.choice(reducing), rng.choice((None, process))
        return _FIELDS[read.shape], None

    def _add(self, step: Step, inputs: list[_Open], order: Needs) -> None:
        if step.is_keyed:
            kinds = (key_of, *functions.SELECTORS)
            step = replace(step, selectors=tuple(self.rng.choices(kinds, (4, 1, 1), k=2)))
        self.steps.append(step)
        index = len(self.steps) - 1
        for read in inputs:
            read.readers += 1
        shapes = {read.shape for read in inputs}
        own_shape = _shape_of(step)
        shape = own_shape or (shapes.pop() if len(shapes) == 1 else "mixed")
        sources = frozenset().union(*(read.sources for read in inputs))
        is_big = any(read.is_big for read in inputs) or isinstance(step.function, functions.Bursts)
        has_time = all(read.has_time for read in inputs)
        main_has_time = has_time and not (step.windows is not None and step.windows.by_count)
        is_parallel = self.parallel and (step.is_keyed or any(read.is_parallel for read in inputs))
        main = _Open(Stream(index), order, shape, sources, is_big, main_has_time, is_parallel)
        main.is_punctuated = any(read.is_punctuated for read in inputs)
        if isinstance(step.function, functions.TellsTimeAgain):
            main.is_punctuated = step.function.generator == "punctuates"
        self.open.append(main)
        if step.has_side:
            self.open.append(replace(main, stream=Stream(index, side=True), shape="mixed", has_time=has_time))

    def _operation(self, read: _Open) -> tuple[str, Any]:
        rng = self.rng
        while True:
            operation, make = rng.choice(_CATALOGUE)
            function = make(rng)
            needs = getattr(function, "needs", Needs.PER_KEY)
            if needs > read.order or (needs is Needs.TOTAL and self.parallel and read.order < Needs.TOTAL):
                continue
            if getattr(function, "uses_time", False) and not read.has_time:
                continue
            if getattr(function, "reads", ()) and read.shape not in function.reads:
                continue
            if isinstance(function, functions.TellsTimeAgain):
                if read.shape == "list" and rng.random() < 0.6:
                    function.assigner = functions.tell_the_time_plainly
                if self.parallel and function.generator == "punctuates":
                    continue
            if isinstance(function, functions.Partitions) and (
                self.parallel or read.shape not in getattr(function.selector, "reads", SHAPES)
            ):
                continue
            if isinstance(function, functions.StartsToChange) and read.shape != "list":
                continue
            if operation in _BY_FIELD:
                if read.shape not in _FIELDS:
                    continue
                function = _FIELDS[read.shape]
            if isinstance(function, functions.Bursts) and (
                rng.random() < 0.8 or any(s.is_big for s in self.open)
            ):
                continue
            if read.is_big and (
                isinstance(function, functions.ListOfRecords) or getattr(function, "uses_time", False)
            ):
                continue
            return operation, function

    def _sinks(self) -> list[Sink]:
        rng = self.rng
        found = []
        for read in self.open:
            if not read.readers or rng.random() < 0.2:
                found.append(Sink(read.stream, read.order, False))
            if rng.random() < 0.15:
                found.append(Sink(read.stream, read.order, True))
        return found


_STATE_SHAPES = (
    "list",
    "dict",
    "shared",
    "row",
    "plain",
    "slotted",
    "own",
    "set",
    "tuple",
    "named",
    "frozen",
    "buffer",
    "deque",
)
_BY_FIELD = {"sum", "max", "min_by"}
#: The field of the number in records of each shape that has fields.
_FIELDS: dict[str, int | str] = {
    "pair": 1,
    "tuple": 1,
    "list": 1,
    "row": "number",
    "dict": "number",
    "plain": "number",
    "named": "number",
}


def _shape_of(step: Step) -> str | None:
    if step.operation in ("union", "filter", "assign", "partition"):
        return None
    return getattr(step.window_function, "shape", None) or getattr(step.function, "shape", None)


_CATALOGUE: list[tuple[str, Callable[[random.Random], Any]]] = [
    ("map", lambda rng: functions.Pass()),
    ("map", lambda rng: functions.ChangesArgument(rng.randint(1, 5))),
    ("map", lambda rng: functions.ChangesArgument(rng.randint(1, 5))),
    ("map", lambda rng: functions.Reshapes(rng.choice(list(SHAPES)))),
    ("map", lambda rng: functions.Reshapes(rng.choice(list(SHAPES)))),
    ("map", lambda rng: functions.Reshapes("list")),
    ("map", lambda rng: functions.ReusesOneObject()),
    ("map", lambda rng: functions.ReusesOneRow()),
    ("map", lambda rng: functions.ReturnsItsOwnList(rng.choice(_STATE_SHAPES))),
    ("map", lambda rng: functions.RemembersArguments()),
    *[("filter", lambda rng: functions.RemembersWhileFiltering())] * 2,
    ("partition", lambda rng: functions.Partitions(rng.choice((parts_of, functions.third, functions.third)))),
    *[
        (
            "assign",
            lambda rng: functions.TellsTimeAgain(
                rng.choice(
                    (
                        functions.change_and_tell_the_time,
                        functions.RemembersWhileTellingTheTime(),
                        functions.RemembersWhileTellingTheTime(),
                    )
                ),
                rng.choice(("", "", "remembers", "punctuates")),
            ),
        )
    ]
    * 2,
    ("filter", lambda rng: functions.KeepsSome(rng.randint(2, 4))),
    ("filter", lambda rng: functions.ChangesWhileFiltering(rng.randint(1, 4))),
    ("flat_map", lambda rng: functions.Repeats(rng.randint(2, 3))),
    ("flat_map", lambda rng: functions.YieldsChangesYields()),
    (
        "flat_map",
        lambda rng: functions.BuffersAndClears(rng.randint(1, 4), rng.choice(("list", "dict", "row"))),
    ),
    ("flat_map", lambda rng: functions.ReturnsOneListAgain()),
    ("flat_map", lambda rng: functions.Bursts(rng.choice((1023, 1024, 1025, 2100)))),
    *[("map", lambda rng: functions.same_record)] * 2,
    *[("map", lambda rng: functions.new_list_around)] * 2,
    ("map", lambda rng: functions.one_part_twice),
    ("map", lambda rng: functions.change_plainly),
    ("map", lambda rng: functions.gathering()),
    ("filter", lambda rng: functions.is_even),
    ("filter", lambda rng: functions.is_even_then_changed),
    ("flat_map", lambda rng: functions.record_twice),
    ("flat_map", lambda rng: functions.lists_around_one_part),
    ("reduce", lambda rng: functions.add_lists),
    ("reduce", lambda rng: functions.cross_lists),
    ("reduce", lambda rng: functions.add_in_place),
    ("reduce", lambda rng: functions.first_one),
    ("process", lambda rng: functions.GivesOneObjectToBoth()),
    ("process", lambda rng: functions.YieldsATag()),
    ("process", lambda rng: functions.TellsTheTime()),
    ("keyed:process", lambda rng: functions.YieldsItsState(rng.choice(_STATE_SHAPES))),
    ("keyed:process", lambda rng: functions.YieldsItsState(rng.choice(_STATE_SHAPES))),
    ("keyed:process", lambda rng: functions.KeepsTheLast()),
    ("keyed:process", lambda rng: functions.ListOfRecords()),
    ("keyed:process", lambda rng: functions.MapOfLists()),
    ("keyed:process", lambda rng: functions.ReducingAndAggregating()),
    ("keyed:process", lambda rng: functions.KeepsUntilATimer(rng.choice((1, 4, 9)))),
    ("keyed:process", lambda rng: functions.KeepsUntilATimer(rng.choice((1, 4, 9)))),
    ("map_with_state", lambda rng: functions.list_with_state),
    ("flat_map_with_state", lambda rng: functions.lists_with_state),
    ("reduce", lambda rng: functions.StartsToChange(rng.randint(0, 20))),
    ("reduce", lambda rng: functions.StartsToChange(rng.choice((64, 65, 100)))),
    ("reduce", lambda rng: functions.ChangesTheSecond()),
    ("reduce", lambda rng: functions.ChoosesOne()),
    ("sum", lambda rng: None),
    ("max", lambda rng: None),
    ("min_by", lambda rng: None),
]


# Running ------------------------------------------------------------------------------------------------


class _KeepingSink(SinkFunction):
    """Keeps the very objects that it gets, until the job is over; or looks at them at once, and then changes them."""

    kept: dict[
        str, list[Any]
    ] = {}  # of the run that is on: programs run one after the other, in this process

    def __init__(self, name: str, changes: bool) -> None:
        self._name = name
        self._changes = changes

    @override
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        if self._changes:
            self.kept[self._name].append((key_of(value), shown(value)))
            change(value, 1000)
        else:
            self.kept[self._name].append(value)


def compile_program(
    program: Program, parallelism: int = 1, chained: bool = True, tolerant: bool = False
) -> JobPlan:
    """The program as a plan; ``parallelism`` is that of keyed steps and of all behind them.

    ``tolerant``: functions may raise, wherever that is possible; they never do.
    """
    caught: list[Submission] = []

    def catch(submission: Submission) -> None:
        caught.append(submission)
        raise _Caught

    options = {"pipeline.operator-chaining.enabled": str(chained).lower()}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(1)
    _build(env, program, parallelism, tolerant)
    with intercept(catch), contextlib.suppress(_Caught):
        env.execute("values")
    return compile_job(caught[0].graph, caught[0].configuration, caught[0].job_name)


def run_program(
    program: Program, plan: JobPlan, options: Mapping[str, Any], seed: int
) -> dict[str, list[tuple[str, str]]]:
    """What the sinks got in the simulator: for each its records, as pairs of key and text."""
    kept = _KeepingSink.kept
    kept.clear()
    kept.update({sink.name: [] for sink in program.sinks})
    texts = {name: str(value) for name, value in options.items()}
    run_plan(replace(plan, options={**plan.options, **texts}), seed)
    return {
        sink.name: kept[sink.name] if sink.changes else [(key_of(v), shown(v)) for v in kept[sink.name]]
        for sink in program.sinks
    }


class _Caught(Exception):
    """The program has been handed over; nothing runs here."""


def _build(env: StreamExecutionEnvironment, program: Program, parallelism: int, tolerant: bool) -> None:
    streams: dict[Stream, DataStream] = {}
    parallel: set[int] = set()  # steps that are as parallel as keyed steps
    number_of_sources = sum(isinstance(step, SourceStep) for step in program.steps)
    for index, step in enumerate(program.steps):
        if isinstance(step, SourceStep):
            script = _script(step, index, number_of_sources, program.calm)
            source = ScriptedSource(script)
            streams[Stream(index)] = env.from_source(
                source, WatermarkStrategy.no_watermarks(), f"source {index}"
            )
            continue
        inputs = [streams[read] for read in step.inputs]
        result = _apply(step, inputs)
        if tolerant:
            with contextlib.suppress(UnsupportedOperationError):
                result.on_error("drop")
        if step.is_keyed or any(read.step in parallel for read in step.inputs):
            parallel.add(index)
        if step.operation != "union":
            result.set_parallelism(parallelism if index in parallel else 1)
        streams[Stream(index)] = result
        if step.has_side:
            streams[Stream(index, side=True)] = result.get_side_output(SIDE)
    for sink in program.sinks:
        ended = streams[sink.stream].add_sink(_KeepingSink(sink.name, sink.changes))
        ended.set_parallelism(parallelism if sink.stream.step in parallel else 1)


def _script(step: SourceStep, index: int, sources: int, calm: bool) -> list[ScriptStep]:
    """Calm sources take turns, one second each, and what a turn causes is over before the next one."""
    script: list[ScriptStep] = [Pause(index + 1.0)] if calm else []
    for each in step.rounds:
        values, timestamps = [value for value, _ in each.records], [time for _, time in each.records]
        script.append(Emit(values, timestamps))
        if each.watermark is not None:
            script.append(EmitWatermark(each.watermark))
        if calm:
            script.append(Pause(float(sources)))
    return script


def _apply(step: Step, inputs: Sequence[DataStream]) -> DataStream:
    first = inputs[0]
    if step.operation == "union":
        return first.union(*inputs[1:])
    if isinstance(step.function, functions.TellsTimeAgain):
        return first.assign_timestamps_and_watermarks(step.function.strategy())
    if isinstance(step.function, functions.Partitions):
        parted = first.partition_custom(step.function.partitioner, step.function.selector)
        return parted.map(functions.Pass())
    stream: Any = first if len(inputs) == 1 else first.connect(inputs[1])
    if step.operation == "interval_join":
        left, right = (each.key_by(select) for each, select in zip(inputs, step.selectors, strict=True))
        stream = left.interval_join(right).between(*map(Time.milliseconds, step.bounds))
    elif step.operation == "co_group":
        stream = first.co_group(inputs[1]).where(step.selectors[0]).equal_to(step.selectors[1])
    elif step.is_keyed:
        stream = stream.key_by(*step.selectors[: len(inputs)])
    if step.windows is not None:
        stream = _cut(stream, step.windows)
    given = [step.function] if step.window_function is None else [step.function, step.window_function]
    result: DataStream = getattr(stream, step.method)(*given)
    return result


def _cut(keyed: Any, windows: Windows) -> Any:
    size, slide = Time.milliseconds(windows.size), Time.milliseconds(windows.slide)
    match windows.kind:
        case "count":
            return keyed.count_window(windows.size)
        case "sliding count":
            return keyed.count_window(windows.size, windows.slide)
        case "tumbling":
            cut = keyed.window(TumblingEventTimeWindows.of(size))
        case "sliding":
            cut = keyed.window(SlidingEventTimeWindows.of(size, slide))
        case _:
            cut = keyed.window(EventTimeSessionWindows.with_gap(size))
    if windows.trigger:
        cut = cut.trigger(
            ContinuousEventTimeTrigger.of(Time.milliseconds(windows.every))
            if windows.trigger == "continuous"
            else CountTrigger.of(windows.every)
            if windows.trigger == "count"
            else functions.RemembersElements(windows.every)
            if windows.trigger == "remembering count"
            else PurgingTrigger.of(CountTrigger.of(windows.every))
        )
    if windows.evictor:
        by_count = windows.evictor == "count"
        cut = cut.evictor(
            CountEvictor.of(windows.keeps) if by_count else TimeEvictor.of(Time.milliseconds(windows.keeps))
        )
    if windows.lateness:
        cut = cut.allowed_lateness(windows.lateness)
    return cut.side_output_late_data(SIDE) if windows.late_aside else cut


# Comparing ----------------------------------------------------------------------------------------------


def difference(program: Program, expected: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """What is not as expected, for somebody who has to find out why; nothing when all is."""
    lines = []
    for sink in program.sinks:
        wanted, found = (_in_order(sink.order, results[sink.name]) for results in (expected, got))
        if wanted != found:
            lines.append(f"  sink of {sink.name}, {sink.order.name} order")
            for group in sorted({*wanted, *found}):
                lines += _unequal(group, wanted.get(group, []), found.get(group, []))
    return "\n".join(lines)


def _in_order(order: Needs, records: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Lists that have to be equal."""
    if order is Needs.TOTAL:
        return {"all": [text for _, text in records]}
    if order is Needs.NONE:
        return {"all, sorted": sorted(text for _, text in records)}
    found: dict[str, list[str]] = {}
    for key, text in records:
        found.setdefault(key, []).append(text)
    return found


def _unequal(group: str, wanted: list[str], found: list[str]) -> list[str]:
    if wanted == found:
        return []
    same = next(
        (n for n, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b),
        min(len(wanted), len(found)),
    )
    shown_part = slice(max(0, same - 2), same + 8)
    return [
        f"    {group}: the first {same} are right; from number {shown_part.start} on",
        f"      expected ({len(wanted)}) {' '.join(wanted[shown_part])}",
        f"      got      ({len(found)}) {' '.join(found[shown_part])}",
    ]
