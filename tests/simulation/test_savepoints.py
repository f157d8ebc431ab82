"""Jobs that stop with a savepoint and go on changed: parallelism, code, state. In the simulator, without a JVM."""

from __future__ import annotations

import math
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import CheckpointError, FiresteelError, IncompatibleStateError
from firesteel.common.job_status import JobStatus
from firesteel.common.typeinfo import Types
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.contracts.checkpointing import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import (
    DiscardingSink,
    FileCheckpointCommitter,
    GenericWriteAheadSink,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from firesteel.datastream.state import ListStateDescriptor, ValueStateDescriptor
from firesteel.testing import simulated_environment
from firesteel_support.ledger import Ledger, LedgerSink

KEYS = 10


@dataclass(frozen=True)
class Split:
    number: int
    position: int


class Numbers(Source):
    """Every split gives its numbers up to ``end`` and then waits for ever, or ends when it is ``bounded``."""

    def __init__(self, end: int, bounded: bool = False, first: int = 0) -> None:
        self._end = end
        self._bounded = bounded
        self._first = first

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def splits_of(self, subtask: int, parallelism: int) -> Sequence[Split]:
        return [Split(n, self._first) for n in range(subtask, 4, parallelism)]

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _NumbersReader(self._end, self._bounded)


class _NumbersReader(SourceReader):
    def __init__(self, end: int, bounded: bool) -> None:
        self._end = end
        self._bounded = bounded
        self._splits: list[Split] = []

    def add_splits(self, splits: Sequence[Split]) -> None:
        self._splits += splits

    def snapshot_state(self, checkpoint_id: int) -> list[Split]:
        return list(self._splits)

    def poll(self, limit: int) -> Polled:
        for index, split in enumerate(self._splits):
            if split.position < self._end:
                self._splits[index] = replace(split, position=split.position + 1)
                return Polled([split.position * 4 + split.number])
        return Polled([], retry_at=math.inf, ended=self._bounded)


class Count(KeyedProcessFunction):
    """Number -> (key, number, count of the key)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield ctx.get_current_key(), value, count


class RenamedCount(Count):
    """The same state under another name."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("how many", Types.LONG())
        descriptor.renamed_from("count")
        self._count = runtime_context.get_state(descriptor)


class Forgetful(KeyedProcessFunction):
    """Asks for none of the state."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield ctx.get_current_key(), value, 1


class OtherKind(Count):
    """A list where a value was."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._list = runtime_context.get_list_state(ListStateDescriptor("count", Types.LONG()))


class LateCount(Count):
    """Asks for the state with every record, not in open()."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._context = runtime_context

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self._count = self._context.get_state(ValueStateDescriptor("count", Types.LONG()))
        return super().process_element(value, ctx)


class UnreadableCount(Count):
    """Wants to convert what was saved, and cannot."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.STRING())
        descriptor.set_version(1, lambda value, version: value["text"])
        self._count = runtime_context.get_state(descriptor)


@dataclass(frozen=True)
class Visit:
    number: int


class LastVisit(KeyedProcessFunction):
    """Keeps objects of a class of the program."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self._last.update(Visit(value))
        yield ctx.get_current_key(), value, 1


class SeenBySubtask(MapFunction, CheckpointedFunction):
    """Passes records on and remembers them in a list state, split or union, of the subtask."""

    restored: dict[str, list[list[int]]] = {}

    def __init__(self, name: str, union: bool) -> None:
        self._name = name
        self._union = union
        self._seen: list[int] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        descriptor = ListStateDescriptor("seen", Types.LONG())
        self._state = (
            store.get_union_list_state(descriptor) if self._union else store.get_list_state(descriptor)
        )
        if context.is_restored():
            SeenBySubtask.restored.setdefault(self._name, []).append(sorted(self._state.get()))

    def map(self, value: int) -> int:
        self._seen.append(value)
        return value

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._seen)


@pytest.fixture
def ledger() -> Iterator[str]:
    name = f"test {uuid.uuid4()}"
    yield name
    Ledger.forget(name)


def environment(
    parallelism: int, directory: Path, interval: bool = True, **options: str
) -> StreamExecutionEnvironment:
    keys = {"execution.checkpointing.dir": str(directory / "checkpoints")}
    if interval:
        keys["execution.checkpointing.interval"] = "1 h"
    env = simulated_environment(configuration=Configuration.from_dict({**keys, **options}))
    env.set_parallelism(parallelism)
    env.set_max_parallelism(16)
    return env


def build(env: StreamExecutionEnvironment, source: Source, function: Any, ledger: str) -> None:
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted = numbers.key_by(lambda number: number % KEYS).process(function).uid("count")
    counted.add_sink(LedgerSink(ledger)).uid("ledger")


def stopped_at_the_middle(
    directory: Path, ledger: str, parallelism: int = 2, function: KeyedProcessFunction | None = None
) -> str:
    """Four splits of ten numbers, counted; then a savepoint."""
    env = environment(parallelism, directory)
    build(env, Numbers(10), function or Count(), ledger)
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(40)
    path: str = client.stop_with_savepoint(False, str(directory / "savepoints")).result()
    return path


def go_on(
    directory: Path, path: str, ledger: str, parallelism: int, function: Any = None, **options: str
) -> list[Any]:
    env = environment(parallelism, directory, **{"execution.state-recovery.path": path, **options})
    build(env, Numbers(20, bounded=True), function or Count(), ledger)
    env.execute()
    return Ledger.named(ledger).committed


def assert_counted_once(committed: list[Any], numbers: range) -> None:
    assert sorted(number for _, number, _ in committed) == list(numbers)
    for key in range(KEYS):
        counts = [count for k, _, count in committed if k == key]
        assert sorted(counts) == list(range(1, len(counts) + 1))


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_l24_a_job_goes_on_with_another_parallelism(tmp_path: Path, ledger: str, parallelism: int) -> None:
    path = stopped_at_the_middle(tmp_path, ledger)
    assert_counted_once(go_on(tmp_path, path, ledger, parallelism), range(80))


@pytest.mark.parametrize("backend", ["hashmap", "disk"])
def test_each_backend_reads_savepoints_of_the_other(tmp_path: Path, ledger: str, backend: str) -> None:
    path = stopped_at_the_middle(tmp_path, ledger)
    options = {"state.backend.type": backend}
    assert_counted_once(go_on(tmp_path, path, ledger, 3, **options), range(80))


def test_l23_a_savepoint_commits_what_sinks_have_written_before_it(tmp_path: Path, ledger: str) -> None:
    stopped_at_the_middle(tmp_path, ledger)
    assert_counted_once(Ledger.named(ledger).committed, range(40))


def test_l23_a_job_goes_on_after_a_savepoint_and_commits_it_once(tmp_path: Path, ledger: str) -> None:
    env = environment(2, tmp_path)
    build(env, Numbers(10), Count(), ledger)
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(40)
    client.trigger_savepoint(str(tmp_path / "savepoints")).result()
    last = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert_counted_once(Ledger.named(ledger).committed, range(40))
    assert_counted_once(go_on(tmp_path, last, ledger, 2), range(80))


class SendingSink(GenericWriteAheadSink):
    """Sends to a ledger; its notes are beside the savepoints."""

    def __init__(self, ledger: str, directory: Path) -> None:
        super().__init__(FileCheckpointCommitter(directory / "notes"))
        self._ledger = ledger

    def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
        for value in values:
            Ledger.named(self._ledger).add(value)
        return True


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_write_ahead_sink_sends_once_what_a_job_had_before_and_after_it_was_stopped(
    tmp_path: Path, ledger: str, parallelism: int
) -> None:
    def build_with(env: StreamExecutionEnvironment, source: Source) -> None:
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        numbers.add_sink(SendingSink(ledger, tmp_path)).uid("sent")
        numbers.add_sink(LedgerSink(f"{ledger}-written")).uid("written")

    env = environment(2, tmp_path)
    build_with(env, Numbers(10))
    client = env.execute_async()
    Ledger.named(f"{ledger}-written").wait_until_written(40)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert sorted(Ledger.named(ledger).committed) == list(range(40))
    env = environment(parallelism, tmp_path, **{"execution.state-recovery.path": path})
    build_with(env, Numbers(20, bounded=True))
    env.execute()
    assert sorted(Ledger.named(ledger).committed) == list(range(80))


def test_l25_restored_positions_override_the_configured_start(tmp_path: Path, ledger: str) -> None:
    path = stopped_at_the_middle(tmp_path, ledger)
    env = environment(2, tmp_path, **{"execution.state-recovery.path": path})
    build(env, Numbers(20, bounded=True, first=15), Count(), ledger)
    env.execute()
    assert_counted_once(Ledger.named(ledger).committed, range(80))


def test_a_savepoint_may_be_moved(tmp_path: Path, ledger: str) -> None:
    path = Path(stopped_at_the_middle(tmp_path, ledger))
    moved = tmp_path / "elsewhere"
    path.rename(moved)
    assert_counted_once(go_on(tmp_path, str(moved), ledger, 2), range(80))


def test_a_renamed_state_keeps_its_values(tmp_path: Path, ledger: str) -> None:
    path = stopped_at_the_middle(tmp_path, ledger)
    assert_counted_once(go_on(tmp_path, path, ledger, 2, RenamedCount()), range(80))


def test_l24_state_that_nobody_asks_for_is_refused_unless_allowed(tmp_path: Path, ledger: str) -> None:
    path = stopped_at_the_middle(tmp_path, ledger)
    with pytest.raises(FiresteelError, match=r"'count'.*allowNonRestoredState"):
        go_on(tmp_path, path, ledger, 2, Forgetful())
    committed = go_on(
        tmp_path, path, ledger, 2, Forgetful(), **{"execution.state-recovery.ignore-unclaimed-state": "true"}
    )
    assert len(committed) == 80


def test_l24_an_operator_that_is_gone_is_refused_unless_allowed(tmp_path: Path, ledger: str) -> None:
    path = stopped_at_the_middle(tmp_path, ledger)

    def other_program(**options: str) -> None:
        env = environment(2, tmp_path, **{"execution.state-recovery.path": path, **options})
        numbers = env.from_source(Numbers(20, True), WatermarkStrategy.no_watermarks(), "numbers").uid(
            "numbers"
        )
        numbers.map(lambda number: (number, number, 0)).add_sink(LedgerSink(ledger)).uid("ledger")
        env.execute()

    with pytest.raises(IncompatibleStateError, match="count"):
        other_program()
    other_program(**{"execution.state-recovery.ignore-unclaimed-state": "true"})
    assert sorted(n for _, n, _ in Ledger.named(ledger).committed) == list(range(80))


def test_a_state_of_another_kind_is_refused_with_both_kinds(tmp_path: Path, ledger: str) -> None:
    path = stopped_at_the_middle(tmp_path, ledger)
    with pytest.raises(FiresteelError, match=r"(?s)count.*value.*list|count.*list.*value"):
        go_on(tmp_path, path, ledger, 2, OtherKind())


@pytest.mark.parametrize("backend", ["hashmap", "disk"])
@pytest.mark.parametrize("drops", ["false", "true"])
def test_state_that_is_asked_for_with_a_record_waits_for_it(
    tmp_path: Path, ledger: str, backend: str, drops: str
) -> None:
    path = stopped_at_the_middle(tmp_path, ledger, function=LateCount())
    options = {"state.backend.type": backend, "execution.state-recovery.ignore-unclaimed-state": drops}
    assert_counted_once(go_on(tmp_path, path, ledger, 3, LateCount(), **options), range(80))


def test_state_that_was_asked_for_with_a_record_may_be_asked_for_in_open(tmp_path: Path, ledger: str) -> None:
    path = stopped_at_the_middle(tmp_path, ledger, function=LateCount())
    assert_counted_once(go_on(tmp_path, path, ledger, 3, Count()), range(80))


def test_a_value_that_cannot_be_converted_ends_the_job_at_once(tmp_path: Path, ledger: str) -> None:
    path = stopped_at_the_middle(tmp_path, ledger)
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 h"}
    with pytest.raises(IncompatibleStateError, match=r"'count' of operator 'Keyed Process'.* saved value \d"):
        go_on(tmp_path, path, ledger, 2, UnreadableCount(), **restarts)


def test_objects_that_cannot_be_read_any_more_are_named_with_their_operator(
    tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stopped_at_the_middle(tmp_path, ledger, function=LastVisit())
    monkeypatch.delattr(sys.modules[__name__], "Visit")
    with pytest.raises(IncompatibleStateError, match=r"operator 'Keyed Process': .* objects of 'Visit'"):
        go_on(tmp_path, path, ledger, 2, LastVisit())


def test_list_state_that_shall_be_dealt_out_in_another_way_is_refused(tmp_path: Path, ledger: str) -> None:
    def build_with(env: StreamExecutionEnvironment, union: bool) -> None:
        numbers = env.from_source(Numbers(10), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        seen = numbers.map(SeenBySubtask(ledger, union)).uid("seen").name("Seen")
        seen.add_sink(LedgerSink(ledger)).uid("ledger")

    env = environment(2, tmp_path)
    build_with(env, union=False)
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(40)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    env = environment(2, tmp_path, **{"execution.state-recovery.path": path})
    build_with(env, union=True)
    with pytest.raises(
        IncompatibleStateError, match=r"'seen' of operator 'Seen'.*expected a union list state"
    ):
        env.execute()


@pytest.mark.parametrize("union", [False, True])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_l24_list_state_is_dealt_out_and_union_state_goes_to_everybody(
    tmp_path: Path, ledger: str, union: bool, parallelism: int
) -> None:
    def run(parallelism: int, path: str | None) -> str | None:
        options = {} if path is None else {"execution.state-recovery.path": path}
        env = environment(parallelism, tmp_path, **options)
        numbers = env.from_source(Numbers(10, path is not None), WatermarkStrategy.no_watermarks(), "numbers")
        seen = numbers.uid("numbers").map(SeenBySubtask(ledger, union)).uid("seen")
        seen.map(lambda number: (0, number, 0)).add_sink(LedgerSink(ledger)).uid("ledger")
        if path is not None:
            env.execute()
            return None
        client = env.execute_async()
        Ledger.named(ledger).wait_until_written(40)
        stopped: str = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        return stopped

    path = run(2, None)
    SeenBySubtask.restored.pop(ledger, None)
    run(parallelism, path)
    shares = SeenBySubtask.restored.pop(ledger)
    assert len(shares) == parallelism
    if union:
        assert all(share == list(range(40)) for share in shares)
    else:
        assert sorted(number for share in shares for number in share) == list(range(40))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


# Jobs without checkpoints


def without_checkpoints(
    directory: Path, source: Source, ledger: str, parallelism: int = 2, **options: str
) -> Any:
    env = environment(parallelism, directory, interval=False, **options)
    build(env, source, Count(), ledger)
    return env.execute_async()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_without_checkpoints_stops_with_a_savepoint_and_goes_on(
    tmp_path: Path, ledger: str, parallelism: int
) -> None:
    client = without_checkpoints(tmp_path, Numbers(10), ledger)
    Ledger.named(ledger).wait_until_written(40)
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert_counted_once(Ledger.named(ledger).committed, range(40))
    start = {"execution.state-recovery.path": path}
    client = without_checkpoints(tmp_path, Numbers(20, bounded=True), ledger, parallelism, **start)
    client.get_job_execution_result().result()
    assert_counted_once(Ledger.named(ledger).committed, range(80))
    assert not (tmp_path / "checkpoints").exists()


def test_a_job_without_checkpoints_goes_on_after_each_savepoint(tmp_path: Path, ledger: str) -> None:
    client = without_checkpoints(
        tmp_path,
        Numbers(10),
        ledger,
        **{"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")},
    )
    Ledger.named(ledger).wait_until_written(40)
    both = [client.trigger_savepoint(), client.trigger_savepoint()]
    paths = {wish.result() for wish in both} | {client.trigger_savepoint().result()}
    assert len(paths) == 3
    last = client.stop_with_savepoint(False).result()
    assert_counted_once(Ledger.named(ledger).committed, range(40))
    assert_counted_once(go_on(tmp_path, last, ledger, 2), range(80))


def test_a_job_without_checkpoints_drains(tmp_path: Path, ledger: str) -> None:
    client = without_checkpoints(tmp_path, Numbers(10), ledger)
    Ledger.named(ledger).wait_until_written(40)
    path = client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result()
    assert_counted_once(Ledger.named(ledger).committed, range(40))
    assert Path(path, "_metadata").exists()


def test_a_job_without_checkpoints_ends_by_itself_after_a_savepoint(tmp_path: Path, ledger: str) -> None:
    """Also when everything was processed before the savepoint was over."""
    for number in range(10):
        name = f"{ledger} {number}"
        client = without_checkpoints(tmp_path, Numbers(10, bounded=True), name)
        wish = client.trigger_savepoint(str(tmp_path / "savepoints"))
        client.get_job_execution_result().result()
        error = wish.exception()
        if error is None:
            assert Path(wish.result(), "_metadata").exists()
        else:
            assert re.search("are running|has processed everything|is over", str(error))
        assert_counted_once(Ledger.named(name).committed, range(40))
        Ledger.forget(name)


class FailsOnceAfterSavepoint(MapFunction):
    """Fails when a file is there, and removes it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def map(self, value: Any) -> Any:
        if self._file.exists():
            self._file.unlink()
            raise RuntimeError("as asked")
        return value


def test_a_job_without_checkpoints_restarts_from_its_savepoint(tmp_path: Path, ledger: str) -> None:
    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    env = environment(2, tmp_path, interval=False, **restarts)
    gate = tmp_path / "more"
    numbers = env.from_source(GatedNumbers(10, gate), WatermarkStrategy.no_watermarks(), "numbers")
    failing = numbers.map(FailsOnceAfterSavepoint(tmp_path / "fail"))
    failing.key_by(lambda number: number % KEYS).process(Count()).add_sink(LedgerSink(ledger))
    client = env.execute_async()
    Ledger.named(ledger).wait_until_written(40)
    client.trigger_savepoint(str(tmp_path / "savepoints")).result()
    (tmp_path / "fail").touch()
    gate.touch()
    client.get_job_execution_result().result()
    assert_counted_once(Ledger.named(ledger).committed, range(80))


class GatedNumbers(Numbers):
    """Ten numbers more of each split when a file is there; then it ends."""

    def __init__(self, end: int, gate: Path) -> None:
        super().__init__(end, bounded=True)
        self._gate = gate

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _GatedReader(self._end, self._gate, context)


class _GatedReader(_NumbersReader):
    def __init__(self, end: int, gate: Path, context: SourceReaderContext) -> None:
        super().__init__(end, True)
        self._gate = gate
        self._context = context

    def poll(self, limit: int) -> Polled:
        polled = super().poll(limit)
        if polled.ended and not self._gate.exists():
            return Polled([], retry_at=self._context.now() + 0.01)
        if polled.ended and self._end == 10:
            self._end = 20
            return Polled([], retry_at=0.0)
        return polled


def test_no_savepoint_when_a_task_has_ended_without_checkpoints(tmp_path: Path, ledger: str) -> None:
    env = environment(1, tmp_path, interval=False)
    short = env.from_source(
        Numbers(10, bounded=True), WatermarkStrategy.no_watermarks(), "short"
    ).slot_sharing_group("a")
    short.map(lambda number: (0, number, 0)).add_sink(LedgerSink(ledger)).name("ended")
    env.from_source(Numbers(10), WatermarkStrategy.no_watermarks(), "long").add_sink(DiscardingSink())
    client = env.execute_async()
    error: str | None = None
    while error is None or "are running" in error:  # it takes a while until the task has ended
        try:
            client.trigger_savepoint(str(tmp_path / "savepoints")).result()
        except CheckpointError as refused:
            error = str(refused)
    assert re.search(
        r"Source: short .*\(1/1\) has processed everything and ended.*enable_checkpointing", error
    )
    client.cancel().result()
