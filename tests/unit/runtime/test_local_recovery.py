"""Local recovery: state is read from copies on this machine, and nothing that happens to them ever matters."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from firesteel.checkpoint import blocks
from firesteel.checkpoint.local_copies import LocalCopies, copy_name
from firesteel.checkpoint.local_storage import LocalStorage
from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.storage import OutputFile, Storage
from firesteel.common.errors import CorruptStateError, FileMissingError, StorageError
from firesteel.plan.messages import CheckpointAborted, CheckpointCompleted, TaskMessage
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder, OperatorHandle, Segment
from firesteel.runtime.subtask_snapshot import (
    AS_IT_IS,
    OperatorSection,
    SnapshotFile,
    SubtaskSnapshot,
    segment_reader,
)
from firesteel.spark.snapshot_thread import SnapshotThread
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel_support.faulty_storage import FaultyStorage

ROOT = "memory://job"


@dataclass
class Services:
    """A task's: storage that counts what is read from it, and copies."""

    durable: MemoryStorage
    local_copies: LocalCopies | None
    attempt: int = 1
    reads: int = 0

    def now(self) -> float:
        return 0.0

    def storage(self, root: str) -> Storage:
        self.reads += 1
        return self.durable


class Machine:
    """Durable storage and one disk; `task` is a task that runs there."""

    def __init__(self, disks: int = 1) -> None:
        self.durable = MemoryStorage()
        self.disks = [MemoryStorage() for _ in range(disks)]

    def task(
        self, attempt: int = 1, fault: Callable[[str, str], bool] = lambda step, when: False
    ) -> Services:
        copies = LocalCopies([FaultyStorage(disk, fault) for disk in self.disks], attempt)
        return Services(self.durable, copies, attempt)

    @property
    def names(self) -> list[str]:
        """The copies that are there: vertex-subtask-attempt-checkpoint."""
        return sorted(name.split(".")[1] for disk in self.disks for name in disk.files)


def order(number: int, kind: CheckpointKind = CheckpointKind.CHECKPOINT, root: str = ROOT) -> CheckpointOrder:
    return CheckpointOrder(number, 0, kind, root, "shared" if root else "")


def snapshot_of(
    state: dict[str, int], order: CheckpointOrder, subtask: int = 0, base: tuple[Segment, ...] = ()
) -> SubtaskSnapshot:
    """Keyed state of one operator, and a list, serialised."""
    backend = HashMapBackend()
    table = backend.table("sums")
    for key, value in state.items():
        backend.touch([key])
        table[key] = value
    section = OperatorSection("sum", [b"a list"], backend.begin_snapshot(order.id), base)
    snapshot = SubtaskSnapshot(order, 3, subtask, [section], began=0.0, alignment_ms=0, pause_ms=0)
    while not snapshot.is_serialised:
        snapshot.step(100)
    return snapshot


def write(
    services: Services,
    number: int,
    state: dict[str, int],
    *,
    subtask: int = 0,
    base: tuple[Segment, ...] = (),
    kind: CheckpointKind = CheckpointKind.CHECKPOINT,
    root: str = ROOT,
) -> OperatorHandle:
    """Take a checkpoint of one subtask."""
    snapshot = snapshot_of(state, order(number, kind, root), subtask, base)
    file = SnapshotFile(snapshot, services)
    file.write(snapshot.drain())
    file.finish()
    assert snapshot.handles is not None
    return snapshot.handles[0]


def restored(services: Services, handle: OperatorHandle, root: str = ROOT) -> dict[str, int]:
    backend = HashMapBackend()
    read = segment_reader(root, services)
    for segment in handle.keyed:
        for block in read(segment):
            backend.restore_block(block, is_newest=segment is handle.keyed[-1])
    return dict(backend.table("sums"))


def test_a_snapshot_without_state_makes_no_file() -> None:
    machine = Machine()
    section = OperatorSection("sum", [], None)
    snapshot = SubtaskSnapshot(order(1), 3, 0, [section], began=0.0, alignment_ms=0, pause_ms=0)
    file = SnapshotFile(snapshot, machine.task())
    file.write(snapshot.drain())
    assert file.finish().operators == ()
    assert machine.durable.files == {}


# Reading ------------------------------------------------------------------------------------------------


def test_state_is_read_from_its_copy_without_asking_storage() -> None:
    machine = Machine()
    handle = write(machine.task(), 1, {"a": 1, "b": 2})
    machine.durable.files.clear()
    task = machine.task(attempt=2)
    assert restored(task, handle) == {"a": 1, "b": 2}
    assert task.reads == 0
    assert task.local_copies is not None
    assert task.local_copies.segments_read == 1
    assert task.local_copies.bytes_read == handle.keyed[0].length


def test_lists_are_not_copied() -> None:
    machine = Machine()
    handle = write(machine.task(), 1, {"a": 1})
    assert handle.lists is not None
    assert b"a list" not in b"".join(machine.disks[0].files.values())
    task = machine.task(attempt=2)
    assert list(segment_reader(ROOT, task)(handle.lists)) == [b"a list"]
    assert task.reads == 1


def test_damage_is_reported_with_the_whole_path_of_the_file() -> None:
    machine = Machine()
    handle = write(machine.task(), 1, {"a": 1})
    assert handle.lists is not None
    (file,) = machine.durable.files
    damaged = bytearray(machine.durable.files[file])
    damaged[handle.lists.offset + handle.lists.length - 1] ^= 1
    machine.durable.files[file] = bytes(damaged)
    with pytest.raises(CorruptStateError, match=re.escape(f"damaged state: {ROOT}/{file}, at byte")):
        segment_reader(ROOT, machine.task(attempt=2))(handle.lists)


def test_full_state_and_deltas_may_come_from_different_places() -> None:
    machine = Machine()
    task = machine.task()
    first = write(task, 1, {"a": 1, "b": 1})
    second = write(task, 2, {"b": 2}, base=first.keyed)
    third = write(task, 3, {"c": 3}, base=second.keyed)
    assert len(third.keyed) == 3
    del machine.disks[0].files[copy_name(ROOT, second.keyed[1].file, second.keyed[1].offset)]
    after = machine.task(attempt=2)
    assert restored(after, third) == {"a": 1, "b": 2, "c": 3}
    assert after.reads == 1


def test_any_damage_to_a_copy_is_found_before_its_first_block_is_handed_out() -> None:
    machine = Machine()
    handle = write(machine.task(), 1, {f"key {n}": n for n in range(50)})
    disk = machine.disks[0]
    (name,) = disk.files
    good = disk.files[name]
    draw = random.Random(0)
    for _ in range(200):
        position = draw.randrange(len(good))
        torn = good[:position]
        changed = good[:position] + bytes([good[position] ^ (1 << draw.randrange(8))]) + good[position + 1 :]
        for bad in (torn, changed):
            disk.files[name] = bad
            task = machine.task(attempt=2)
            assert restored(task, handle) == {f"key {n}": n for n in range(50)}
            assert task.reads == 1
            assert name not in disk.files, "a damaged copy is of no use to anybody"


def test_a_copy_of_another_job_with_the_same_names_is_not_mistaken() -> None:
    machine = Machine()
    write(machine.task(), 1, {"a": 1})
    other = Machine()
    handle = write(other.task(), 1, {"a": 100})  # same vertex, subtask, attempt, checkpoint, directory
    task = Services(other.durable, LocalCopies(machine.disks, 2), 2)
    assert restored(task, handle) == {"a": 100}


def test_copies_of_another_checkpoint_directory_have_other_names() -> None:
    names = {
        copy_name(root, file, 12) for root in ("/a", "/b") for file in ("shared/1-0-1-1", "chk-1/1-0-1-1")
    }
    assert len(names) == 4


def test_a_copy_that_breaks_while_it_is_read_is_continued_from_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large segments are read twice, to check them and to hand them out; a disk may die in between."""
    monkeypatch.setattr(blocks, "_BUFFER_SIZE", 64)
    storage = MemoryStorage()
    writer = blocks.StateFileWriter("shared/1-0-1-1")
    written = [blocks.file_header()]
    segment_writer = writer.segment()
    copies = LocalCopies([storage], 1)
    copy = copies.begin(ROOT, "shared/1-0-1-1", writer.length)
    payloads = [bytes([n]) * 30 for n in range(20)]
    written += [segment_writer.add(payload) for payload in payloads]
    segment = segment_writer.finish()
    durable = b"".join(written)
    copy.write(durable[segment.offset :])
    copy.close()
    (name,) = storage.files
    read = copies.read(ROOT, segment, lambda: blocks.read_segment(durable, segment))
    begun = [next(read) for _ in range(7)]
    del storage.files[name]
    assert begun + list(read) == payloads


def test_what_storage_cannot_give_either_fails_the_restart() -> None:
    machine = Machine()
    handle = write(machine.task(), 1, {"a": 1})
    machine.disks[0].files.clear()
    machine.durable.files.clear()
    with pytest.raises(FileMissingError):
        restored(machine.task(attempt=2), handle)


def test_a_damaged_durable_file_is_noticed_when_there_is_no_copy() -> None:
    machine = Machine()
    handle = write(machine.task(), 1, {"a": 1})
    machine.disks[0].files.clear()
    (name,) = machine.durable.files
    machine.durable.files[name] = machine.durable.files[name][:-1] + b"?"
    with pytest.raises(CorruptStateError):
        restored(machine.task(attempt=2), handle)


def test_whoever_needs_a_segment_finds_it_whatever_its_own_number() -> None:
    """After rescaling a subtask reads segments of several old ones, on whichever disk they are."""
    machine = Machine(disks=2)
    task = machine.task()
    handles = [write(task, 1, {f"of {n}": n}, subtask=n) for n in range(3)]
    assert [len(disk.files) for disk in machine.disks] == [2, 1]
    one = machine.task(attempt=2)
    assert [restored(one, handle) for handle in handles] == [{"of 0": 0}, {"of 1": 1}, {"of 2": 2}]
    assert one.reads == 0


# Writing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["create", "close", "delete"])
@pytest.mark.parametrize("when", ["before", "torn", "after"])
def test_a_copy_that_cannot_be_written_fails_nothing_and_warns_once(
    step: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    task = machine.task(fault=lambda at, how: (at, how) == (step, when))
    with caplog.at_level(logging.WARNING):
        first, second = write(task, 1, {"a": 1}), write(task, 2, {"a": 2})
    possible = {("create", "before"), ("close", "before"), ("close", "torn"), ("close", "after")}
    possible |= {("delete", "before"), ("delete", "after")}
    assert len(caplog.records) == ((step, when) in possible)
    assert restored(machine.task(attempt=2), first) == {"a": 1}
    assert restored(machine.task(attempt=2), second) == {"a": 2}


class _FullDisk(MemoryStorage):
    """Takes a few bytes and no more."""

    def create(self, path: str) -> OutputFile:  # type: ignore[override]
        return _FullOutput(self, path)


class _FullOutput:
    def __init__(self, storage: _FullDisk, path: str) -> None:
        self._storage, self._path, self._room = storage, path, 20
        self._storage.files[path] = b""

    def write(self, data: bytes) -> None:
        if len(data) > self._room:
            raise StorageError("no space left on device")
        self._room -= len(data)
        self._storage.files[self._path] += data

    def close(self) -> None:
        """Nothing to do."""

    def abort(self) -> None:
        del self._storage.files[self._path]


def test_a_full_disk_leaves_no_half_copy() -> None:
    disk, durable = _FullDisk(), MemoryStorage()
    said: list[str] = []
    task = Services(durable, LocalCopies([disk], 1, warn=said.append))
    handle = write(task, 1, {f"key {n}": n for n in range(10)})
    assert disk.files == {}
    assert len(said) == 1
    assert "no space left on device" in said[0]
    assert len(restored(task, handle)) == 10


@pytest.mark.parametrize("kind", [kind for kind in CheckpointKind if kind is not CheckpointKind.CHECKPOINT])
def test_savepoints_and_what_ends_a_job_are_not_copied(kind: CheckpointKind) -> None:
    machine = Machine()
    write(machine.task(), 1, {"a": 1}, kind=kind)
    assert machine.names == []


def test_state_in_the_master_is_not_copied() -> None:
    machine = Machine()
    task = machine.task()
    handle = write(task, 1, {"a": 1}, root="")
    assert machine.names == []
    assert restored(task, handle, root="") == {"a": 1}


def test_a_snapshot_that_fails_leaves_no_copy() -> None:
    machine = Machine()
    task = machine.task()
    snapshot = snapshot_of({"a": 1}, order(1))
    file = SnapshotFile(snapshot, task)
    file.write(snapshot.drain())
    file.abort()
    assert machine.names == []


def test_a_leftover_of_the_same_name_is_replaced() -> None:
    machine = Machine()
    write(machine.task(), 1, {"a": 1})
    machine.durable.files.clear()  # somebody deleted the checkpoints and started the job from the beginning
    handle = write(machine.task(), 1, {"a": 2})
    machine.durable.files.clear()
    assert restored(machine.task(attempt=2), handle) == {"a": 2}


# Removing -----------------------------------------------------------------------------------------------


def test_a_complete_checkpoint_makes_earlier_ones_obsolete_and_no_later_ones() -> None:
    machine = Machine()
    task = machine.task()
    for number in (1, 2, 3):
        write(task, number, {"a": number})
    assert task.local_copies is not None
    task.local_copies.checkpoint_completed(2)
    assert machine.names == ["3-0-1-2", "3-0-1-3"]
    task.local_copies.checkpoint_completed(1)  # news that comes late
    assert machine.names == ["3-0-1-2", "3-0-1-3"]


def test_what_deltas_build_on_stays() -> None:
    machine = Machine()
    task = machine.task()
    first = write(task, 1, {"a": 1})
    write(task, 2, {"a": 2})  # was never completed
    third = write(task, 3, {"a": 3}, base=first.keyed)
    assert task.local_copies is not None
    task.local_copies.checkpoint_completed(3)
    assert machine.names == ["3-0-1-1", "3-0-1-3"]
    write(task, 4, {"a": 4})  # a full one again
    task.local_copies.checkpoint_completed(4)
    assert machine.names == ["3-0-1-4"]
    assert len(third.keyed) == 2


def test_copies_of_other_subtasks_of_the_attempt_stay_and_those_of_earlier_attempts_go() -> None:
    machine = Machine()
    before = machine.task(attempt=1)
    for subtask in range(3):
        write(before, 1, {"a": 1}, subtask=subtask)
    mine, neighbour = machine.task(attempt=2), machine.task(attempt=2)
    write(mine, 2, {"a": 2}, subtask=0)
    write(neighbour, 2, {"a": 2}, subtask=1)
    assert mine.local_copies is not None
    mine.local_copies.checkpoint_completed(2)
    assert machine.names == ["3-0-2-2", "3-1-2-2"]


def test_a_task_of_an_earlier_attempt_removes_nothing_of_a_later_one() -> None:
    machine = Machine()
    zombie, successor = machine.task(attempt=1), machine.task(attempt=2)
    write(zombie, 5, {"a": 1})
    write(successor, 6, {"a": 2})
    assert zombie.local_copies is not None
    zombie.local_copies.checkpoint_completed(5)
    zombie.local_copies.checkpoint_aborted(6)
    assert "3-0-2-6" in machine.names


def test_an_aborted_checkpoint_leaves_no_copies() -> None:
    machine = Machine()
    task = machine.task()
    write(task, 1, {"a": 1})
    write(task, 2, {"a": 2})
    assert task.local_copies is not None
    task.local_copies.checkpoint_aborted(2)
    assert machine.names == ["3-0-1-1"]


def test_the_end_of_the_job_removes_everything(tmp_path: Path) -> None:
    released: list[bool] = []
    directories = [LocalStorage(str(tmp_path / disk), forced=False) for disk in "ab"]
    copies = LocalCopies(directories, 1, release=lambda: released.append(True))
    task = Services(MemoryStorage(), copies)
    for subtask in (0, 1):
        write(task, 1, {"a": 1}, subtask=subtask)
    assert len(list(tmp_path.rglob("*.3-*"))) == 2
    copies.end_job()
    assert list(tmp_path.iterdir()) == []
    assert released == [True]


def test_files_that_are_no_copies_are_left_alone() -> None:
    machine = Machine()
    task = machine.task()
    machine.disks[0].files["lock"] = b""
    write(task, 1, {"a": 1})
    assert task.local_copies is not None
    task.local_copies.checkpoint_completed(1)
    assert "lock" in machine.disks[0].files


@pytest.mark.parametrize("method", ["checkpoint_completed", "checkpoint_aborted", "end_job"])
def test_a_disk_that_fails_while_copies_are_removed_matters_to_nobody(method: str) -> None:
    machine = Machine()
    task = machine.task(fault=lambda step, when: step == "delete" and bool(machine.names))
    handle = write(task, 1, {"a": 1})
    assert task.local_copies is not None
    if method == "end_job":
        task.local_copies.end_job()
    else:
        getattr(task.local_copies, method)(1)
    assert restored(machine.task(attempt=2), handle) == {"a": 1}


# The thread that writes ---------------------------------------------------------------------------------


@pytest.fixture
def thread_of() -> Iterator[Callable[[Services], tuple[SnapshotThread, list[TaskMessage]]]]:
    threads: list[SnapshotThread] = []

    def start(services: Services) -> tuple[SnapshotThread, list[TaskMessage]]:
        sent: list[TaskMessage] = []
        threads.append(SnapshotThread(services, AS_IT_IS, sent.append))
        return threads[-1], sent

    yield start
    for thread in threads:
        thread.close()


def test_the_writing_thread_hears_how_checkpoints_end(
    thread_of: Callable[[Services], tuple[SnapshotThread, list[TaskMessage]]],
) -> None:
    machine = Machine()
    thread, sent = thread_of(machine.task())
    for number in (1, 2, 3):
        thread.add(snapshot_of({"a": number}, order(number)))
    thread.checkpoint_ended(CheckpointCompleted(2))
    thread.checkpoint_ended(CheckpointAborted(3))
    thread.close()
    assert len(sent) == 3
    assert machine.names == ["3-0-1-2"]


def test_the_writing_thread_works_without_copies(
    thread_of: Callable[[Services], tuple[SnapshotThread, list[TaskMessage]]],
) -> None:
    thread, sent = thread_of(Services(MemoryStorage(), None))
    thread.add(snapshot_of({"a": 1}, order(1)))
    thread.checkpoint_ended(CheckpointCompleted(1))
    thread.checkpoint_ended(CheckpointAborted(2))
    thread.close()
    assert len(sent) == 1
