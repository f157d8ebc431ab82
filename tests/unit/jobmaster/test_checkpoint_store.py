"""What a job master wants of storage, done on a real directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from numbered_source import SINK_ID, SOURCE_ID, enumerated_plan

from firesteel.checkpoint import restore_point
from firesteel.checkpoint.blocks import StateFileWriter
from firesteel.checkpoint.memory_storage import MemoryStorage
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.checkpoint.restore_point import load
from firesteel.checkpoint.storage import open_storage
from firesteel.common.errors import CheckpointError, JobTakenOverError, StorageError
from firesteel.jobmaster.checkpoint_store import CheckpointStore
from firesteel.jobmaster.events import (
    CheckpointNotPublished,
    CheckpointPublished,
    RestoreFound,
    RestoreNotFound,
)
from firesteel.jobmaster.instructions import (
    CleanUp,
    DiscardSnapshots,
    FindRestore,
    PublishCheckpoint,
    SubsumeOlder,
)
from firesteel.plan.messages import SnapshotAcknowledged
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder, OperatorHandle, Segment

JOB = "cd" * 16


class Driver:
    """One driver's store of the job below a directory."""

    def __init__(self, directory: Path, retained: int = 1) -> None:
        self.checkpoints = JobCheckpoints(open_storage(str(directory)), JOB, "job", retained)
        self.warnings: list[str] = []
        self.store = CheckpointStore(
            self.checkpoints, enumerated_plan(), JOB, {SINK_ID: "my sink"}, warn=self.warnings.append
        )
        self.root = Path(self.checkpoints.root)

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
        segment_writer = StateFileWriter(output.write, path, False).segment()
        segment_writer.add(payload)
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
        return None if event.point is None else event.point.checkpoint_id


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
    first.store.take_up()
    return first


def test_published_checkpoint_is_found_with_everything_in_it(driver: Driver) -> None:
    assert driver.publish(1) == CheckpointPublished(1, str(driver.root / "chk-1"))
    event = driver.store.perform(FindRestore(2))
    assert isinstance(event, RestoreFound)
    assert event.attempt == 2
    point = event.point
    assert point is not None
    assert point.path == str(driver.root / "chk-1")
    assert point.restore.root == str(driver.root)
    assert point.enumerators == {SOURCE_ID: b"splits"}
    sink = point.restore.operators[SINK_ID]
    assert (sink.parallelism, sink.max_parallelism) == (1, 128)
    assert [len(handle.keyed) for handle in sink.subtasks] == [1]


def test_manifest_names_operators_as_people_do(driver: Driver) -> None:
    driver.publish(1)
    operators = load(str(driver.root / "chk-1")).manifest.operators
    assert [(o.name, o.uid) for o in operators] == [("Numbers", None), ("Print", "my sink")]


def test_new_job_has_nothing_to_start_from(tmp_path: Path) -> None:
    beginning = Driver(tmp_path).store.take_up()
    assert (beginning.point, beginning.next_checkpoint, beginning.first_attempt) == (None, 1, 1)


def test_next_driver_goes_on_with_higher_numbers(driver: Driver, tmp_path: Path) -> None:
    driver.publish(1)
    driver.written(driver.order(2))  # given up by the crash
    beginning = Driver(tmp_path).store.take_up()
    assert beginning.point is not None
    assert beginning.point.checkpoint_id == 1
    assert beginning.next_checkpoint == 1001, "also beyond those that left no trace"
    assert Driver(tmp_path).store.take_up().next_checkpoint == 2001
    assert beginning.completed == (1,)
    assert beginning.first_attempt == 1001


def test_replaced_driver_can_neither_publish_nor_look_nor_delete(driver: Driver, tmp_path: Path) -> None:
    driver.publish(1)
    second = Driver(tmp_path)
    second.store.take_up()
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
    driver.store.take_up()
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
    assert "it builds on chk-4/1-0-1-4" in str(event.error)


def test_files_of_a_given_up_checkpoint_go(driver: Driver) -> None:
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
    second = Driver(tmp_path).store.take_up()
    assert second.point is not None
    assert second.point.path == directory
    assert second.next_checkpoint == 1001


def test_given_up_savepoint_leaves_nothing_behind(driver: Driver, tmp_path: Path) -> None:
    directory = str(tmp_path / "mine" / "savepoint-x")
    order = driver.order(2, CheckpointKind.SAVEPOINT, directory)
    driver.store.perform(DiscardSnapshots(order, driver.written(order)))
    assert not os.path.exists(directory)


def test_job_does_not_go_on_from_a_savepoint_that_was_published_after_it_was_given_up(
    driver: Driver, tmp_path: Path
) -> None:
    driver.publish(1)
    directory = str(tmp_path / "mine" / "savepoint-x")
    order = driver.order(2, CheckpointKind.FINAL_SAVEPOINT, directory)
    acknowledgements = driver.written(order)
    driver.store.perform(PublishCheckpoint(order, acknowledgements))
    driver.store.perform(DiscardSnapshots(order, acknowledgements))
    assert driver.found() == 1
    assert restore_point.load(directory).manifest.checkpoint_id == 2, "whoever wants it can have it"


def test_torn_manifest_makes_the_checkpoint_before_it_the_newest(tmp_path: Path) -> None:
    driver = Driver(tmp_path, retained=2)
    driver.store.take_up()
    driver.publish(1)
    driver.publish(2)
    manifest = driver.root / "chk-2" / "_metadata"
    manifest.write_bytes(manifest.read_bytes()[:50])
    assert driver.found() == 1
    assert "checkpoint 2 cannot be used" in driver.warnings[0]


def test_damage_inside_a_file_shows_when_tasks_could_not_read_it(tmp_path: Path) -> None:
    driver = Driver(tmp_path, retained=2)
    driver.store.take_up()
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
    store = CheckpointStore(checkpoints, enumerated_plan(), JOB)
    assert store.take_up().root == ""
    order = CheckpointOrder(1, 0)
    inline = acknowledged(order, Segment("", 0, 5, 1, 0, b"bytes"))
    assert isinstance(store.perform(PublishCheckpoint(order, inline)), CheckpointPublished)
    event = store.perform(FindRestore(2))
    assert isinstance(event, RestoreFound)
    assert event.point is not None
    assert event.point.restore.operators[SINK_ID].subtasks[0].keyed[0].inline == b"bytes"
