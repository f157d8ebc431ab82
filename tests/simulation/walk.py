"""``scripts/walk``: the files and functions that one record passes, and one checkpoint, traced in the simulator.

The job is that of docs/journey_of_a_record.md with a window: a collection, assign_timestamps_and_watermarks, key_by, a
tumbling window with an aggregate, a `FileSink`. A record is followed from the poll of its source to the write of the file
sink, a checkpoint from its trigger to the committed file.

Both can be recognised wherever they are: the record contains a word, and the checkpoint has a number that nothing else has.
A call is on the walk when one of its arguments or its result holds what is followed - as it is, in a list, in a message, in
bytes - and when it leads to such a call. The state that a checkpoint saves and the file that it commits contain the word,
too, and are followed from its trigger on. So whatever runs on the way but handles something else is not on the walk, such as
clocks; nor is what opens and closes tasks, what deletes older checkpoints, functions of users, the simulator, libraries.

A file is passed when the walk goes on from it into another one. It only looks into the others, such as those that frame
blocks or name files, and comes straight back: who wants to follow it can leave them out.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import itertools
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import greenlet

import firesteel
from firesteel.common import Configuration, Encoder, Time, WatermarkStrategy
from firesteel.common.watermark_strategy import TimestampAssigner
from firesteel.datastream import DataStream
from firesteel.datastream.connectors import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy
from firesteel.datastream.functions import AggregateFunction
from firesteel.datastream.window import TumblingEventTimeWindows
from firesteel.jobmaster.checkpoints.coordinator import CheckpointCoordinator
from firesteel.testing import Emit, ScriptedSource, WaitForCheckpoint, simulated_environment

#: What is followed: a word in the record, the number of the checkpoint.
WORD = "traveller"
NUMBER = 1_297_044_043

_PACKAGE = str(Path(firesteel.__file__).parent) + "/"
_SIMULATOR = "testing/"
#: What happens below these calls is beside the way.
_BESIDE = {
    "StageTask.__init__",
    "StageTask.open",
    "StageTask.close",
    "notice",  # looks at the classes of records
    "JobPlan.for_stage",
    "TaskSettings.of",
    "JobMaster._start_attempt",
    "DeletionThread.add",
    "DeletionThread._run",
}
#: Where the greenlet of a task's calls begins; each call was led to by who drives the task then, not by the first one.
_GREENLET = ("Pauses._work", "Pauses._hand_control")
#: Where a record and a checkpoint have arrived.
_WRITE = "FileWriter.write"
_COMMIT = "FileCommitter.commit"
#: How deep inside of a value the record or the number may be: the longest way is instructions, message, order, number.
_DEPTH = 4


# The walk ---------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Call:
    """A call of a function in Firesteel; ``caller`` is the nearest such call that led to it."""

    file: str
    function: str
    thread: str
    caller: Call | None
    handles: bool = False  # what is followed

    def way(self) -> list[Call]:
        """The calls that led here, from the outermost to this one."""
        return [self] if self.caller is None else [*self.caller.way(), self]

    @property
    def is_function(self) -> bool:
        """Whether it is more than a comprehension or a lambda inside of a function."""
        return not self.function.endswith(">")


@dataclass(frozen=True, slots=True)
class Walk:
    """The calls on the walk, in order."""

    name: str
    calls: list[Call]

    @property
    def files(self) -> list[str]:
        """All that are reached, in this order."""
        return list(dict.fromkeys(call.file for call in self.calls))

    @property
    def through(self) -> list[str]:
        """Those that it passes: it goes on from them into another one. The others are ends that it comes back from."""
        callers = [(call.file, call.caller.file) for call in self.calls if call.caller is not None]
        leading = {caller for file, caller in callers if caller != file}
        return [file for file in self.files if file in leading]

    @property
    def functions(self) -> int:
        """How many different ones are passed."""
        return len({(call.file, call.function) for call in self.calls})

    def passes(self, function: str) -> bool:
        """Whether the function is on it."""
        return any(call.function == function for call in self.calls)

    @property
    def changes(self) -> int:
        """How often the next function is in another file."""
        return sum(one.file != other.file for one, other in itertools.pairwise(self.calls))

    def __str__(self) -> str:
        passed, ends = len(self.through), len(self.files) - len(self.through)
        figures = (
            f"passes {passed} files and looks into {ends} that lead to no other: {self.functions} functions, "
            f"{self.changes} changes of file"
        )
        return "\n".join([f"{self.name} {figures}", "", *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        """One line for every stay in a file; what is repeated at once is shown once."""
        width = max(len(file) for file in self.files)
        stays = itertools.groupby(self.calls, key=lambda call: (_thread_name(call.thread), call.file))
        lines = (
            f"  {thread:11} {file:{width}}  {', '.join(dict.fromkeys(call.function for call in calls))}"
            for (thread, file), calls in stays
        )
        for line, same in itertools.groupby(lines):
            times = len(list(same))
            yield line if times == 1 else f"{line}  ({times} times)"


def _thread_name(name: str) -> str:
    names = {"firesteel-job-": "job master", "firesteel-storage-": "storage", "firesteel-simulator-": "task"}
    return next((shown for prefix, shown in names.items() if name.startswith(prefix)), name)


# Tracing ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Trace:
    """Records the calls in all threads that start while it is on."""

    is_followed: Callable[[Any], bool]
    _calls: list[Call] = field(default_factory=list)
    _open: dict[FrameType, Call] = field(default_factory=dict)

    def __enter__(self) -> Trace:
        threading.setprofile(self._observe)
        return self

    def __exit__(self, *_: object) -> None:
        threading.setprofile(None)

    def walk(self, name: str, end: str) -> Walk | None:
        """What was passed until the function ``end`` had handled what is followed; None when it was not reached."""
        handled = (call for call in self._calls if call.handles)
        last = next((each for call in handled for each in call.way() if each.function == end), None)
        if last is None:
            return None
        passed: dict[Call, None] = {}  # in order
        has_reached_end = False
        for call in self._calls:
            way = call.way()
            has_reached_end |= call is last
            if has_reached_end and last not in way:
                if call.thread == last.thread:
                    break
                continue
            if call.handles and not any(each.function in _BESIDE for each in way):
                passed.update(dict.fromkeys(way))
        return Walk(name, [call for call in passed if call.is_function])

    def _observe(self, frame: FrameType, event: str, result: Any) -> None:
        file = _file_of(frame)
        if file is None or frame.f_code.co_qualname in _GREENLET:
            return
        if event == "call":
            thread = threading.current_thread().name
            call = Call(file, frame.f_code.co_qualname, thread, self._caller_of(frame))
            call.handles = any(self._holds(argument) for argument in _arguments(frame))
            self._open[frame] = call
            self._calls.append(call)
        elif event == "return" and (ended := self._open.pop(frame, None)) is not None:
            ended.handles |= self._holds(result)

    def _caller_of(self, frame: FrameType) -> Call | None:
        return next((self._open[below] for below in _frames_below(frame) if below in self._open), None)

    def _holds(self, value: Any, depth: int = _DEPTH) -> bool:
        if self.is_followed(value):
            return True
        return depth > 0 and any(self._holds(part, depth - 1) for part in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, each.name, None) for each in dataclasses.fields(value))


def _frames_below(frame: FrameType) -> Iterator[FrameType]:
    """The frames that led to this one, also where a greenlet begins (`Pauses`)."""
    current = greenlet.getcurrent()
    below = frame.f_back
    while below is not None or current.parent is not None:
        if below is None:
            current = current.parent
            below = current.gr_frame
        else:
            yield below
            below = below.f_back


def _file_of(frame: FrameType) -> str | None:
    """The path below src/firesteel; None for what does not count. A loop that is made at run time names its module."""
    name = frame.f_code.co_filename
    if name.startswith("<firesteel."):
        return name.removeprefix("<firesteel.").removesuffix(">").replace(".", "/") + ".py"
    path = name.removeprefix(_PACKAGE)
    return None if path == name or path.startswith(_SIMULATOR) else path


def _arguments(frame: FrameType) -> Iterator[Any]:
    arguments = inspect.getargvalues(frame)
    for name in (*arguments.args, arguments.varargs, arguments.keywords):
        if name not in (None, "self", "cls") and name in arguments.locals:
            yield arguments.locals[name]


# What is followed -------------------------------------------------------------------------------------


def is_record(value: Any) -> bool:
    """Whether it is text or bytes with the word."""
    if isinstance(value, bytes | bytearray | memoryview):
        return WORD.encode() in bytes(value)
    return isinstance(value, str) and WORD in value


class CheckpointSeen:
    """Whether it is the number or, once that was seen, text or bytes with the number or the word."""

    _BYTES = (NUMBER.to_bytes(4, "little"), NUMBER.to_bytes(4, "big"), str(NUMBER).encode())

    def __init__(self) -> None:
        self._has_begun = False

    def __call__(self, value: Any) -> bool:
        if isinstance(value, int) and value == NUMBER:
            self._has_begun = True
            return True
        return self._has_begun and (is_record(value) or self._contains_number(value))

    def _contains_number(self, value: Any) -> bool:
        if isinstance(value, bytes | bytearray | memoryview):
            return any(form in bytes(value) for form in self._BYTES)
        return isinstance(value, str) and str(NUMBER) in value


# The job ----------------------------------------------------------------------------------------------


class _EventTime(TimestampAssigner):
    def extract_timestamp(self, value: tuple[str, int], record_timestamp: int) -> int:
        return value[1]


class _Words(AggregateFunction):
    """All words of a window, so that the word is in its state and in its result."""

    def create_accumulator(self) -> str:
        return ""

    def add(self, value: tuple[str, int], accumulator: str) -> str:
        return f"{accumulator} {value[0]}"

    def get_result(self, accumulator: str) -> str:
        return accumulator

    def merge(self, acc_a: str, acc_b: str) -> str:
        return f"{acc_a} {acc_b}"


def _build(events: DataStream, directory: str, file_names: OutputFileConfig) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_EventTime())
    sink = (
        FileSink.for_row_format(directory, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(file_names)
        .build()
    )
    (
        events.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda event: event[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .aggregate(_Words())
        .sink_to(sink)
    )


def walk_of_a_record() -> Walk:
    """From the poll of a collection to the write of the file sink; the window fires at the end of the input."""
    with tempfile.TemporaryDirectory() as directory, Trace(is_record) as trace:
        env = simulated_environment(parallelism=1)
        _build(env.from_collection([(WORD, 500)]), directory, OutputFileConfig("part", ""))
        env.execute("one record")
    walk = trace.walk("a record", end=_WRITE)
    assert walk is not None
    return walk


class _NumberedCoordinator(CheckpointCoordinator):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "next_id": NUMBER})


def walk_of_a_checkpoint() -> Walk:
    """From the timer that triggers it to the file that the sink commits.

    It finds one record in an open window, and the result of another window in a file that is being written. Timers of a job
    master run in real time: when the first one comes before the records are there, there is another try.
    """
    for seconds in (1, 5, 25, 125):
        walk = _traced_checkpoint(seconds).walk("a checkpoint", end=_COMMIT)
        if walk is not None and not walk.passes(_WRITE):
            return walk
    raise RuntimeError("no checkpoint found the records where they should be: this machine is too slow")


def _traced_checkpoint(seconds: int) -> Trace:
    with tempfile.TemporaryDirectory() as directory, Trace(CheckpointSeen()) as trace:
        options = {
            "execution.checkpointing.interval": f"{seconds} s",
            "state.checkpoints.dir": f"file://{directory}/checkpoints",
        }
        env = simulated_environment(parallelism=1, configuration=Configuration.from_dict(options))
        source = ScriptedSource([Emit([(WORD, 500), (WORD, 1500)]), WaitForCheckpoint()])
        events = env.from_source(source, WatermarkStrategy.no_watermarks(), "Events")
        _build(events, f"{directory}/results", OutputFileConfig(WORD, ".txt"))
        with mock.patch("firesteel.jobmaster.master_core.CheckpointCoordinator", _NumberedCoordinator):
            env.execute("one checkpoint")
    return trace


def main() -> int:
    """Print both walks, or the one that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    walks = {"record": walk_of_a_record, "checkpoint": walk_of_a_checkpoint}
    parser.add_argument("what", nargs="?", choices=list(walks), help="both when it is not given")
    what = parser.parse_args().what
    for name, walk in walks.items():
        if what in (None, name):
            print(walk())
    return 0


if __name__ == "__main__":
    sys.exit(main())
