"""What a job master wants of storage, done on a real directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from numbered_source import SINK_ID, SOURCE_ID, enumerated_plan

from firesteel.checkpoint import stored_checkpoint
from firesteel.checkpoint.blocks import StateFileWriter, file_header
from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.checkpoint.storage import open_storage
from firesteel.checkpoint.stored_checkpoint import load
from firesteel.common.errors import CheckpointError, JobTakenOverError, StorageError
from firesteel.jobmaster.checkpoints.deletions import Deletions
from firesteel.jobmaster.checkpoints.store import CheckpointStore, job_restore_of
from firesteel.jobmaster.checkpoints.takeover import Takeover, master_start
from firesteel.jobmaster.events import (
    CheckpointNotPublished,
    CheckpointPublished,
    RestoreFound,
    RestoreNotFound,
)
from firesteel.jobmaster.instructions import (
    CleanUp,
    Deletion,
    DiscardSnapshots,
    FindRestore,
    PublishCheckpoint,
    SubsumeOlder,
)
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.jobmaster.master_core import MasterStart
from firesteel.plan.messages import SnapshotAcknowledged
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder, OperatorHandle, Segment

JOB = "cd" * 16


class Driver:
    """One driver's store of the job below a directory."""

    def __init__(
        self,
        directory: Path,
        retained: int = 1,
        aside: Callable[[Callable[[Deletion], object]], Deletions] | None = None,
    ) -> None:
        self.checkpoints = JobCheckpoints(open_storage(str(directory)), JOB, "job", retained)
        self.warnings: list[str] = []
        self.store = CheckpointStore(
            self.checkpoints,
            enumerated_plan(),
            JOB,
            {SINK_ID: "my sink"},
            warn=self.warnings.append,
            aside=aside,
        )
        self.root = Path(self.checkpoints.root)

    def take_over(self, given: JobRestore | None = None) -> MasterStart:
        plan = enumerated_plan()
        takeover = Takeover(
            self.checkpoints,
            plan,
            JOB,
            fit=lambda found: (job_restore_of(found), plan),
            given=lambda: (given, plan),
            open_store=lambda chosen: self.store,
        )
        return takeover.take_over().start

    def order(
        self, number: int, kind: CheckpointKind = CheckpointKind.CHECKPOINT, root: str = ""
    ) -> CheckpointOrder:
        if root:
            return CheckpointOrder(number, 0, kind, root=root)
        return CheckpointOrder(number, 0, kind, root=str(self.root), directory=f"chk-{number}")

    def written(self, order: CheckpointOrder, payload: bytes = b"state") -> tuple[SnapshotAcknowledged, ...]:
        """What the only subtask with state has written for a checkpoint, with its acknowledgement."""
        name = f"1-0-1-{order.id}"
        path = f"{order.directory}/{name}" if order.directory else name
        output = open_storage(order.root).create(path)
        segment_writer = StateFileWriter(path).segment()
        output.write(file_header() + segment_writer.add(payload))
        segment = segment_writer.finish()
        output.close()
        return acknowledged(order, segment)

    def publish(self, number: int) -> CheckpointPublished | CheckpointNotPublished:
        order = self.order(number)
        event = self.store.perform(PublishCheckpoint(order, self.written(order), {SOURCE_ID: b"splits"}))
        assert isinstance(event, (CheckpointPublished, CheckpointNotPublished))
        return event

    def found(self, deep: bool = False) -> int | None:
        event = self.store.perform(FindRestore(2, frozenset({0}) if deep else frozenset()))
        assert isinstance(event, RestoreFound)
        return None if event.restore is None else event.restore.checkpoint_id


class Waiting:
    """Deletions that wait until somebody wants them to be done."""

    def __init__(self) -> None:
        self.delete: Callable[[Deletion], object] = lambda deletion: None
        self.waiting: list[Deletion] = []

    def calling(self, delete: Callable[[Deletion], object]) -> Waiting:
        self.delete = delete
        return self

    def add(self, deletion: Deletion) -> None:
        self.waiting.append(deletion)

    def finish(self, *, drop: bool) -> None:
        for deletion in self.waiting:
            self.delete(deletion)


def acknowledged(order: CheckpointOrder, segment: Segment) -> tuple[SnapshotAcknowledged, ...]:
    handle = OperatorHandle(SINK_ID, 0, keyed=(segment,))
    return (
        SnapshotAcknowledged(order.id, 0, 0, ()),
        SnapshotAcknowledged(order.id, 0, 1, ()),
        SnapshotAcknowledged(order.id, 1, 0, (handle,)),
    )


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    first = Driver(tmp_path)
    first.take_over()
    return first


def test_published_checkpoint_is_found_with_everything_in_it(driver: Driver) -> None:
    assert driver.publish(1) == CheckpointPublished(1, str(driver.root / "chk-1"))
    event = driver.store.perform(FindRestore(2))
    assert isinstance(event, RestoreFound)
    assert event.attempt == 2
    point = event.restore
    assert point is not None
    assert point.path == str(driver.root / "chk-1")
    assert point.tasks.root == str(driver.root)
    assert point.enumerators == {SOURCE_ID: b"splits"}
    sink = point.tasks.operators[SINK_ID]
    assert (sink.parallelism, sink.max_parallelism) == (1, 128)
    assert [len(handle.keyed) for handle in sink.subtasks] == [1]


def test_manifest_names_operators_as_people_do(driver: Driver) -> None:
    driver.publish(1)
    operators = load(str(driver.root / "chk-1")).manifest.operators
    assert [(o.name, o.uid) for o in operators] == [("Numbers", None), ("Print", "my sink")]


def test_new_job_has_nothing_to_start_from(tmp_path: Path) -> None:
    start = Driver(tmp_path).take_over()
    assert (start.restore, start.next_checkpoint, start.first_attempt) == (None, 1, 1)


def test_next_driver_goes_on_with_higher_numbers(driver: Driver, tmp_path: Path) -> None:
    driver.publish(1)
    driver.written(driver.order(2))  # aborted by the crash
    start = Driver(tmp_path).take_over()
    assert start.restore is not None
    assert start.restore.checkpoint_id == 1
    assert start.next_checkpoint == 1001, "also beyond those that left no trace"
    assert Driver(tmp_path).take_over().next_checkpoint == 2001
    assert start.completed == (1,)
    assert start.first_attempt == 1001


def test_replaced_driver_can_neither_publish_nor_look_nor_delete(driver: Driver, tmp_path: Path) -> None:
    driver.publish(1)
    second = Driver(tmp_path)
    second.take_over()
    event = driver.publish(2)
    assert isinstance(event, CheckpointNotPublished)
    assert event.fenced
    assert isinstance(event.error, JobTakenOverError)
    lost = driver.store.perform(FindRestore(2))
    assert isinstance(lost, RestoreNotFound)
    assert isinstance(lost.error, JobTakenOverError)
    second.publish(3)
    files = sorted(os.listdir(second.root / "chk-3"))
    for instruction in (
        DiscardSnapshots(driver.order(3), ()),
        SubsumeOlder(),
        CleanUp(keep=False),
    ):
        assert driver.store.perform(instruction) is None
    assert sorted(os.listdir(second.root / "chk-3")) == files
    assert "could not be deleted: another driver runs job" in driver.warnings[0]


def test_older_checkpoints_go_when_a_newer_one_is_complete(driver: Driver) -> None:
    for number in (1, 2, 3):
        driver.publish(number)
        driver.store.perform(SubsumeOlder())
    assert driver.checkpoints.completed() == [3]


def test_as_many_checkpoints_stay_as_are_retained(tmp_path: Path) -> None:
    driver = Driver(tmp_path, retained=2)
    driver.take_over()
    for number in (1, 2, 3):
        driver.publish(number)
        driver.store.perform(SubsumeOlder())
    assert driver.checkpoints.completed() == [3, 2]


def test_checkpoints_that_others_may_build_on_stay(driver: Driver) -> None:
    for number in (1, 2, 3):
        driver.publish(number)
        driver.store.perform(SubsumeOlder(needed_from=max(1, number - 1)))
    assert driver.checkpoints.completed() == [3, 2]


def test_delta_on_files_that_are_gone_is_not_published(driver: Driver) -> None:
    order = driver.order(5)
    gone = Segment("chk-4/1-0-1-4", 12, 10, 1, 0)
    event = driver.store.perform(PublishCheckpoint(order, acknowledged(order, gone)))
    assert isinstance(event, CheckpointNotPublished)
    assert isinstance(event.error, CheckpointError)
    assert "it refers to chk-4/1-0-1-4" in str(event.error)


def test_files_of_an_aborted_checkpoint_go(driver: Driver) -> None:
    order = driver.order(1)
    acknowledgements = driver.written(order)
    driver.store.perform(DiscardSnapshots(order, acknowledgements))
    assert not (driver.root / "chk-1").exists()


def test_files_of_a_complete_checkpoint_stay_whatever_the_master_believes(driver: Driver) -> None:
    driver.publish(1)
    driver.store.perform(DiscardSnapshots(driver.order(1), ()))
    assert driver.found() == 1


def test_savepoint_is_complete_in_its_own_directory_and_part_of_the_chain(
    driver: Driver, tmp_path: Path
) -> None:
    driver.publish(1)
    directory = str(tmp_path / "mine" / "savepoint-x")
    order = driver.order(2, CheckpointKind.SAVEPOINT, directory)
    event = driver.store.perform(PublishCheckpoint(order, driver.written(order)))
    assert event == CheckpointPublished(2, directory)
    assert driver.found() == 2, "sinks have committed what is in it"
    second = Driver(tmp_path).take_over()
    assert second.restore is not None
    assert second.restore.path == directory
    assert second.next_checkpoint == 1001


def test_aborted_savepoint_leaves_nothing_behind(driver: Driver, tmp_path: Path) -> None:
    directory = str(tmp_path / "mine" / "savepoint-x")
    order = driver.order(2, CheckpointKind.SAVEPOINT, directory)
    driver.store.perform(DiscardSnapshots(order, driver.written(order)))
    assert not os.path.exists(directory)


def test_savepoint_that_was_published_after_it_was_aborted_counts_for_good(tmp_path: Path) -> None:
    """Found by the crash simulation: it was forgotten when the job had gone on from it."""
    deletions = Waiting()
    driver = Driver(tmp_path, aside=deletions.calling)
    driver.take_over()
    driver.publish(1)
    directory = str(tmp_path / "mine" / "savepoint-x")
    order = driver.order(2, CheckpointKind.STOP, directory)
    acknowledgements = driver.written(order)
    driver.store.perform(PublishCheckpoint(order, acknowledgements))
    assert driver.found() == 2
    driver.store.perform(DiscardSnapshots(order, acknowledgements))
    deletions.finish(drop=False)
    assert driver.found() == 2
    assert stored_checkpoint.load(directory).manifest.checkpoint_id == 2


def test_torn_manifest_makes_the_checkpoint_before_it_the_newest(tmp_path: Path) -> None:
    driver = Driver(tmp_path, retained=2)
    driver.take_over()
    driver.publish(1)
    driver.publish(2)
    manifest = driver.root / "chk-2" / "_metadata"
    manifest.write_bytes(manifest.read_bytes()[:50])
    assert driver.found() == 1
    assert "checkpoint 2 cannot be used" in driver.warnings[0]


def test_damage_inside_a_file_shows_when_tasks_could_not_read_it(tmp_path: Path) -> None:
    driver = Driver(tmp_path, retained=2)
    driver.take_over()
    driver.publish(1)
    driver.publish(2)
    file = driver.root / "chk-2" / "1-0-1-2"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert driver.found() == 2, "a quick look does not read everything"
    assert driver.found(deep=True) == 1


class Unreachable(MemoryStorage):
    """A storage that has gone away."""

    def at(self, directory: str) -> Unreachable:
        return Unreachable(self.files, f"{directory}/")

    def list(self, directory: str = "") -> list[str]:
        raise StorageError("unreachable")


def test_unreachable_storage_is_reported_not_taken_for_an_empty_one() -> None:
    store = CheckpointStore(JobCheckpoints(Unreachable(), JOB, "job"), enumerated_plan(), JOB)
    event = store.perform(FindRestore(2))
    assert isinstance(event, RestoreNotFound)
    assert str(event.error) == "unreachable"


@pytest.mark.parametrize("keep", [True, False])
def test_checkpoints_stay_or_go_with_the_job(driver: Driver, keep: bool) -> None:
    driver.publish(1)
    driver.store.perform(CleanUp(keep))
    assert driver.root.exists() == keep


def test_jobs_without_a_directory_keep_everything_in_memory() -> None:
    checkpoints = JobCheckpoints(MemoryStorage(), JOB, "job")
    checkpoints.claim()
    store = CheckpointStore(checkpoints, enumerated_plan(), JOB)
    assert master_start(checkpoints, JOB, None).root == ""
    order = CheckpointOrder(1, 0)
    inline = acknowledged(order, Segment("", 0, 5, 1, 0, b"bytes"))
    assert isinstance(store.perform(PublishCheckpoint(order, inline)), CheckpointPublished)
    event = store.perform(FindRestore(2))
    assert isinstance(event, RestoreFound)
    assert event.restore is not None
    assert event.restore.tasks.operators[SINK_ID].subtasks[0].keyed[0].inline == b"bytes"


def test_savepoint_to_begin_with_that_was_away_for_a_moment_is_still_good(tmp_path: Path) -> None:
    writer = Driver(tmp_path / "checkpoints")
    writer.take_over()
    volume = tmp_path / "volume"
    order = writer.order(7, CheckpointKind.SAVEPOINT, str(volume / "savepoints" / "savepoint-1"))
    event = writer.store.perform(PublishCheckpoint(order, writer.written(order), {SOURCE_ID: b"splits"}))
    assert isinstance(event, CheckpointPublished)
    point = job_restore_of(load(event.path))
    other = Driver(tmp_path / "others")
    other.take_over(point)
    unusable = FindRestore(2, frozenset({7}))  # as tasks have said that could not read it

    volume.rename(tmp_path / "away")
    lost = other.store.perform(unusable)
    assert isinstance(lost, RestoreNotFound)
    assert isinstance(lost.error, StorageError), "which may come back"
    (tmp_path / "away").rename(volume)
    assert other.store.perform(unusable) == RestoreFound(2, point)
    os.unlink(volume / "savepoints" / "savepoint-1" / "1-0-1-7")
    assert other.store.perform(unusable) == RestoreFound(2, None), "it is damaged"
