"""What a job starts from, and what is refused before anything starts."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from numbered_source import SINK_ID, SOURCE_ID, enumerated_plan

from firesteel.checkpoint import trust
from firesteel.checkpoint.local_storage import LocalStorage
from firesteel.checkpoint.matching import ProgramOperator
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common.configuration import Configuration
from firesteel.common.errors import (
    CorruptStateError,
    IncompatibleStateError,
    InvalidOptionError,
    JobTakenOverError,
    NoSuchSnapshotError,
    StateError,
    StorageError,
)
from firesteel.jobmaster import preparation
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings
from firesteel.jobmaster.events import CheckpointNotPublished, CheckpointPublished
from firesteel.jobmaster.instructions import CleanUp, PublishCheckpoint, SubsumeOlder
from firesteel.jobmaster.preparation import Preparation, prepare, standby_settings
from firesteel.jobmaster.restart_policy import ExponentialDelay
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import SnapshotAcknowledged
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder, OperatorHandle, Segment

ID = "ef" * 16
STATE = Segment("", 0, 5, 1, 0, b"bytes")


def program(plan: JobPlan, given: bool = False) -> list[ProgramOperator]:
    return [
        ProgramOperator(
            operator.id,
            operator.name,
            vertex.parallelism,
            vertex.max_parallelism,
            max_parallelism_is_given=given,
        )
        for vertex in plan.vertices
        for operator in vertex.operators
    ]


def prepared(plan: JobPlan | None = None, given: bool = False, **options: str) -> Preparation:
    plan = plan or enumerated_plan()
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return prepare(plan, program(plan, given), Configuration.from_dict(named))


def in_directory(
    directory: Path, plan: JobPlan | None = None, given: bool = False, **options: str
) -> Preparation:
    return prepared(
        plan,
        given,
        execution__checkpointing__interval="1 s",
        execution__checkpointing__dir=str(directory),
        **options,
    )


def published(
    preparation: Preparation, number: int, savepoint: str = ""
) -> CheckpointPublished | CheckpointNotPublished:
    """A checkpoint with keyed state in the sink and an enumerator's state."""
    order = CheckpointOrder(number, 0, root=preparation.start.root, directory=f"chk-{number}")
    if savepoint:
        order = CheckpointOrder(number, 0, CheckpointKind.SAVEPOINT, root=savepoint)
    handle = OperatorHandle(SINK_ID, 0, keyed=(STATE,))
    acknowledgements = (SnapshotAcknowledged(number, 1, 0, (handle,)),)
    assert preparation.store is not None
    event = preparation.store.perform(PublishCheckpoint(order, acknowledgements, {SOURCE_ID: b"splits"}))
    assert isinstance(event, (CheckpointPublished, CheckpointNotPublished))
    return event


# Settings.


def test_job_without_an_interval_takes_savepoints_only() -> None:
    preparation = prepared(execution__checkpointing__dir="/nowhere")
    assert preparation.settings.checkpoints == CheckpointSettings(interval=None)
    assert preparation.start.root == ""
    assert preparation.start.restore is None


def test_batch_job_takes_no_checkpoints(tmp_path: Path) -> None:
    preparation = in_directory(tmp_path, enumerated_plan(mode=RuntimeMode.BATCH))
    assert preparation.settings.checkpoints is None
    assert "BATCH mode" in preparation.settings.why_none


def test_settings_are_read_from_the_options(tmp_path: Path) -> None:
    preparation = in_directory(
        tmp_path,
        execution__checkpointing__timeout="3 s",
        execution__checkpointing__min_pause="4 s",
        execution__checkpointing__max_concurrent_checkpoints="5",
        execution__checkpointing__tolerable_failed_checkpoints="6",
        execution__checkpointing__num_retained="7",
        execution__checkpointing__incremental="true",
        execution__checkpointing__savepoint_dir="relative",
    ).settings
    checkpoints = preparation.checkpoints
    assert checkpoints is not None
    assert (checkpoints.interval, checkpoints.timeout, checkpoints.min_pause) == (1.0, 3.0, 4.0)
    assert (checkpoints.max_concurrent, checkpoints.concurrent) == (5, 1)
    assert (checkpoints.tolerable_failures, checkpoints.num_retained, checkpoints.incremental) == (6, 7, True)
    assert checkpoints.directory == str(tmp_path)
    assert checkpoints.savepoint_directory == str(Path("relative").absolute())
    assert isinstance(preparation.policy, ExponentialDelay)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.checkpointing.interval", "5 ms"),
        ("execution.checkpointing.timeout", "1 ms"),
        ("execution.checkpointing.max-concurrent-checkpoints", "0"),
        ("execution.checkpointing.num-retained", "0"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "-1"),
        ("execution.checkpointing.storage", "tape"),
        ("pipeline.job-id", "short"),
    ],
)
def test_values_that_make_no_sense_are_refused(key: str, value: str) -> None:
    options = {"execution.checkpointing.interval": "1 s", key: value}
    plan = enumerated_plan()
    with pytest.raises(InvalidOptionError, match=f"option '{key}'"):
        prepare(plan, program(plan), Configuration.from_dict(options))


def test_file_system_storage_needs_a_directory() -> None:
    with pytest.raises(InvalidOptionError, match=r"set 'execution\.checkpointing\.dir'"):
        prepared(execution__checkpointing__interval="1 s", execution__checkpointing__storage="filesystem")


def test_memory_of_the_master_serves_without_a_directory(tmp_path: Path) -> None:
    preparation = prepared(execution__checkpointing__interval="1 s")
    assert preparation.start.root == ""
    assert preparation.store is not None
    explicit = in_directory(tmp_path, execution__checkpointing__storage="jobmanager")
    assert explicit.start.root == ""


def test_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    with pytest.raises(StorageError, match=r"the checkpoint directory .* cannot be written"):
        in_directory(file)


def test_checkpoints_of_a_job_are_in_a_directory_of_its_id(tmp_path: Path) -> None:
    preparation = in_directory(tmp_path, pipeline__job_id=ID)
    assert preparation.start.root == str(tmp_path / ID)


# A savepoint or checkpoint by its path.


def test_job_starts_from_a_savepoint(tmp_path: Path) -> None:
    path = str(tmp_path / "savepoint")
    published(in_directory(tmp_path / "c"), 41, path)
    preparation = in_directory(tmp_path / "other", execution__state_recovery__path=path)
    point = preparation.start.restore
    assert point is not None
    assert (point.checkpoint_id, point.path, point.enumerators) == (41, path, {SOURCE_ID: b"splits"})
    assert preparation.start.next_checkpoint == 42


def test_job_without_checkpoints_starts_from_a_savepoint_too(tmp_path: Path) -> None:
    path = str(tmp_path / "savepoint")
    published(in_directory(tmp_path / "c"), 41, path)
    preparation = prepared(execution__savepoint__path=path)
    assert preparation.start.restore is not None
    assert preparation.start.next_checkpoint == 42
    assert preparation.settings.checkpoints == CheckpointSettings(interval=None)


def test_job_starts_from_a_retained_checkpoint(tmp_path: Path) -> None:
    published(in_directory(tmp_path, pipeline__job_id=ID), 3)
    preparation = in_directory(tmp_path, execution__state_recovery__path=str(tmp_path / ID / "chk-3"))
    assert preparation.start.restore is not None
    assert preparation.start.restore.tasks.root == str(tmp_path / ID)


def test_path_without_a_savepoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSuchSnapshotError, match="there is no checkpoint or savepoint at"):
        prepared(execution__state_recovery__path=str(tmp_path / "nothing"))


def test_damaged_savepoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "savepoint"
    published(in_directory(tmp_path / "c"), 1, str(path))
    (path / "_metadata").write_bytes(b"firesteel manifest 1")
    with pytest.raises(CorruptStateError):
        prepared(execution__state_recovery__path=str(path))


def test_savepoint_of_another_program_is_refused_unless_state_may_be_dropped(tmp_path: Path) -> None:
    path = str(tmp_path / "savepoint")
    published(in_directory(tmp_path / "c"), 1, path)
    plan = enumerated_plan()
    other_sink = replace(plan.vertices[1].operators[0], id="another")
    other = replace(plan, vertices=(plan.vertices[0], replace(plan.vertices[1], operators=(other_sink,))))
    with pytest.raises(IncompatibleStateError, match="operator 'Print'"):
        prepared(other, execution__state_recovery__path=path)
    preparation = prepared(
        other, execution__state_recovery__path=path, execution__state_recovery__ignore_unclaimed_state="true"
    )
    assert preparation.start.restore is not None
    assert set(preparation.start.restore.tasks.operators) == {SOURCE_ID}


def with_key_groups(number: int) -> JobPlan:
    plan = enumerated_plan()
    return replace(plan, vertices=(plan.vertices[0], replace(plan.vertices[1], max_parallelism=number)))


def test_number_of_key_groups_is_taken_over_unless_the_program_names_one(tmp_path: Path) -> None:
    path = str(tmp_path / "savepoint")
    published(in_directory(tmp_path / "c", with_key_groups(64)), 1, path)
    preparation = prepared(execution__state_recovery__path=path)
    assert [vertex.max_parallelism for vertex in preparation.plan.vertices] == [128, 64]
    with pytest.raises(IncompatibleStateError, match=r"set_max_parallelism\(64\)"):
        prepared(given=True, execution__state_recovery__path=path)


def test_batch_job_cannot_start_from_a_savepoint() -> None:
    with pytest.raises(InvalidOptionError, match="BATCH mode"):
        prepared(enumerated_plan(mode=RuntimeMode.BATCH), execution__state_recovery__path="/x")


# Going on after the death of a driver.


def resumed(directory: Path, **options: str) -> Preparation:
    return in_directory(directory, execution__checkpointing__resume="true", **options)


def test_driver_resumes_where_the_one_with_the_same_job_name_was(tmp_path: Path) -> None:
    first = in_directory(tmp_path)
    published(first, 1)
    second = resumed(tmp_path)
    assert second.start.job_id == first.start.job_id
    assert second.start.root == first.start.root
    assert second.start.restore is not None
    assert second.start.restore.checkpoint_id == 1
    assert second.start.first_attempt > first.start.first_attempt


def test_living_driver_that_was_replaced_completes_nothing(tmp_path: Path) -> None:
    first = in_directory(tmp_path)
    resumed(tmp_path)
    event = published(first, 1)
    assert isinstance(event, CheckpointNotPublished)
    assert isinstance(event.error, JobTakenOverError)


def test_driver_of_whose_checkpoints_none_can_be_read_does_not_start_over(tmp_path: Path) -> None:
    first = in_directory(tmp_path)
    published(first, 1)
    metadata = Path(first.start.root, "chk-1", "_metadata")
    metadata.write_bytes(metadata.read_bytes()[:-1])
    with pytest.raises(
        NoSuchSnapshotError, match=r"nothing of what it has saved below .*checkpoint 1 .*checksum"
    ):
        resumed(tmp_path)


def test_driver_whose_only_savepoint_is_gone_does_not_start_over(tmp_path: Path) -> None:
    first = in_directory(tmp_path / "checkpoints")
    published(first, 1, str(tmp_path / "savepoint"))
    Path(tmp_path / "savepoint" / "_metadata").unlink()
    with pytest.raises(NoSuchSnapshotError, match=r"nothing of what it has saved below .*savepoint"):
        resumed(tmp_path / "checkpoints")


def test_newest_checkpoint_that_cannot_be_read_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = in_directory(tmp_path, execution__checkpointing__num_retained="2")
    published(first, 1)
    published(first, 2)
    metadata = Path(first.start.root, "chk-2", "_metadata")
    metadata.write_bytes(metadata.read_bytes()[:-1])
    second = resumed(tmp_path)
    assert second.start.restore is not None
    assert second.start.restore.checkpoint_id == 1
    assert caplog.text.count("checkpoint 2") == 1


def test_driver_without_predecessor_starts_from_the_beginning(tmp_path: Path) -> None:
    assert resumed(tmp_path).start.restore is None


def test_driver_begins_with_the_savepoint_if_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    path = str(tmp_path / "savepoint")
    published(in_directory(tmp_path / "c"), 9, path)
    first = resumed(tmp_path / "new", execution__state_recovery__path=path)
    assert first.start.restore is not None
    assert first.start.restore.path == path
    published(first, 10)
    second = resumed(tmp_path / "new", execution__state_recovery__path=path)
    assert second.start.restore is not None
    assert second.start.restore.checkpoint_id == 10


def test_savepoint_that_a_job_has_started_from_may_be_deleted_once_it_has_checkpoints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "savepoint"
    published(in_directory(tmp_path / "c"), 9, str(path))
    options = {"execution__state_recovery__path": str(path)}
    first = resumed(tmp_path / "new", **options)
    assert caplog.text == ""
    published(first, 10)
    shutil.rmtree(path)
    second = resumed(tmp_path / "new", **options)
    assert second.start.restore is not None
    assert second.start.restore.checkpoint_id == 10
    assert f"resumes from {tmp_path}/new/{first.start.job_id}/chk-10, where it was, and not from {path}" in (
        caplog.text
    )


def replace_checkpoint(driver: Preparation, number: int) -> None:
    """Complete a checkpoint, and delete the one before, unless another driver has the job."""
    assert driver.store is not None
    if isinstance(published(driver, number), CheckpointPublished):
        driver.store.perform(SubsumeOlder(None))
        driver.store.perform(CleanUp(keep=True))  # returns when the one before is gone


class BusyDriver(LocalStorage):
    """A living driver replaces the newest checkpoint whenever somebody has listed what there is to look at."""

    replacements: ClassVar[list[Callable[[], object]]] = []

    def at(self, directory: str) -> LocalStorage:
        return BusyDriver(self._full(directory))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path.endswith("_metadata") and self.replacements:
            self.replacements.pop(0)()
        return super().read(path, offset, length)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_checkpoint_that_a_living_driver_replaces_meanwhile_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    first = in_directory(tmp_path)
    published(first, 1)

    replacements = [partial(replace_checkpoint, first, number + 2) for number in range(times)]
    monkeypatch.setattr(BusyDriver, "replacements", replacements)
    monkeypatch.setattr(preparation, "open_storage", BusyDriver)
    second = resumed(tmp_path)
    assert second.start.restore is not None
    assert second.start.restore.checkpoint_id == times + 1
    assert isinstance(published(first, 9), CheckpointNotPublished)


class StorageWatchedAt(LocalStorage):
    """A living driver replaces its checkpoint right before one step of who looks at it; ``step`` counts down to it."""

    step: ClassVar[int] = 0
    replacements: ClassVar[list[Callable[[], object]]] = []

    @classmethod
    def take_step(cls) -> None:
        cls.step -= 1
        if cls.step == 0:
            cls.replacements[-1]()

    def at(self, directory: str) -> LocalStorage:
        return StorageWatchedAt(self._full(directory))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.take_step()
        return super().read(path, offset, length)

    def size(self, path: str) -> int | None:
        self.take_step()
        return super().size(path)

    def exists(self, path: str) -> bool:
        self.take_step()
        return super().exists(path)

    def list(self, directory: str = "") -> list[str]:
        self.take_step()
        return super().list(directory)

    def sync(self, directory: str = "") -> None:
        self.take_step()
        super().sync(directory)


def test_checkpoint_may_be_replaced_before_any_step_of_who_takes_the_job_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_untrusted(stored: StoredCheckpoint) -> None:
        StorageWatchedAt.take_step()
        trust.refuse_untrusted(stored)

    monkeypatch.setattr(preparation, "open_storage", StorageWatchedAt)
    monkeypatch.setattr(preparation, "refuse_untrusted", refuse_untrusted)
    ids = set()
    for step in itertools.count(1):
        directory = tmp_path / str(step)
        monkeypatch.setattr(StorageWatchedAt, "step", 0)
        first = in_directory(directory)
        published(first, 1)
        monkeypatch.setattr(StorageWatchedAt, "replacements", [partial(replace_checkpoint, first, 2)])
        monkeypatch.setattr(StorageWatchedAt, "step", step)
        second = resumed(directory)
        assert second.start.restore is not None, f"replaced before step {step}"
        ids.add(second.start.restore.checkpoint_id)
        if StorageWatchedAt.step > 0:  # it was over before
            break
    assert ids == {1, 2}, "before the claim and after it"


def test_driver_resumes_by_job_id(tmp_path: Path) -> None:
    published(in_directory(tmp_path, pipeline__job_id=ID), 1)
    published(in_directory(tmp_path), 7)  # another one of the same name
    preparation = resumed(tmp_path, pipeline__job_id=ID)
    assert preparation.start.restore is not None
    assert preparation.start.restore.checkpoint_id == 1


def test_several_jobs_of_one_name_are_not_guessed_between(tmp_path: Path) -> None:
    published(in_directory(tmp_path), 1)
    published(in_directory(tmp_path), 2)
    with pytest.raises(StateError, match="several jobs named 'job'"):
        resumed(tmp_path)


def test_directory_of_a_finished_job_is_no_predecessor(tmp_path: Path) -> None:
    first = in_directory(tmp_path)
    published(first, 1)
    assert first.store is not None
    first.store.perform(CleanUp(keep=False))
    assert resumed(tmp_path).start.restore is None


def test_job_id_that_was_used_is_refused_without_resuming(tmp_path: Path) -> None:
    published(in_directory(tmp_path, pipeline__job_id=ID), 1)
    with pytest.raises(StateError, match=f"job {ID} has checkpoints below"):
        in_directory(tmp_path, pipeline__job_id=ID)


def test_program_that_does_not_fit_leaves_the_job_alone(tmp_path: Path) -> None:
    first = in_directory(tmp_path, with_key_groups(64))
    published(first, 1)
    plan = enumerated_plan()
    with pytest.raises(IncompatibleStateError):
        prepare(
            plan,
            program(plan, given=True),
            Configuration.from_dict(
                {
                    "execution.checkpointing.interval": "1 s",
                    "execution.checkpointing.dir": str(tmp_path),
                    "execution.checkpointing.resume": "true",
                }
            ),
        )
    assert isinstance(published(first, 2), CheckpointPublished), "the old driver is still in office"


# Standby drivers.


def led(directory: Path, epoch_before: int = 0, finished_before: bool = False, **options: str) -> Preparation:
    plan = enumerated_plan()
    configuration = {
        "high-availability.type": "filesystem",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(directory),
        "firesteel.storage.patience": "10 ms",
        **options,
    }
    return prepare(plan, program(plan), Configuration.from_dict(configuration), epoch_before, finished_before)


def test_drivers_that_lead_one_after_the_other_go_on_with_the_same_job(tmp_path: Path) -> None:
    first = led(tmp_path)
    published(first, 1)
    second = led(tmp_path, first.epoch)
    assert second.start.job_id == first.start.job_id
    assert second.start.restore is not None
    assert second.start.restore.checkpoint_id == 1
    assert (first.epoch, second.epoch) == (1, 2)
    event = published(first, 2)
    assert isinstance(event, CheckpointNotPublished)
    assert isinstance(event.error, JobTakenOverError)


def test_driver_that_does_not_find_the_checkpoints_of_the_leader_before_does_not_start_over(
    tmp_path: Path,
) -> None:
    first = led(tmp_path)
    with pytest.raises(StateError, match=r"was driver 1 of job 'job', but .* knows of none only"):
        led(tmp_path / "another directory", first.epoch)
    assert first.store is not None
    first.store.perform(CleanUp(keep=False))
    lease = f"{tmp_path}/leaders/{first.start.job_id}"
    with pytest.raises(StateError, match=f"its checkpoints were deleted; .* delete its lease, .* {lease}$"):
        led(tmp_path, first.epoch)


def test_job_that_has_finished_runs_from_the_beginning_even_if_its_checkpoints_were_not_deleted(
    tmp_path: Path,
) -> None:
    first = led(tmp_path / "c")
    published(first, 1)
    published(first, 2, str(tmp_path / "savepoint"))
    second = led(tmp_path / "c", finished_before=True)
    assert (second.start.restore, second.epoch) == (None, 2)
    assert isinstance(published(second, 1), CheckpointPublished)
    assert Path(tmp_path, "savepoint", "_metadata").exists()
    path = {"execution.state-recovery.path": str(tmp_path / "savepoint")}
    third = led(tmp_path / "c", finished_before=True, **path)
    assert third.start.restore is not None
    assert third.start.restore.checkpoint_id == 2
    own = str(published(third, 3).path)  # type: ignore[union-attr]
    fourth = led(tmp_path / "c", finished_before=True, **{"execution.state-recovery.path": own})
    assert fourth.start.restore is not None, "what somebody asks for is not deleted"
    assert Path(own, "_metadata").exists()


def test_resuming_with_standby_drivers_does_not_leave_a_run_without_them_behind(tmp_path: Path) -> None:
    alone = in_directory(tmp_path)
    published(alone, 1)
    resume = {"execution.checkpointing.resume": "true"}
    with pytest.raises(StateError, match=f"as {alone.start.job_id}.*set 'pipeline.job-id'"):
        led(tmp_path, **resume)
    preparation = led(tmp_path, **resume, **{"pipeline.job-id": alone.start.job_id})
    assert preparation.start.restore is not None
    published(led(tmp_path), 1)
    assert led(tmp_path, **resume).start.restore is not None, "the job of the standby drivers is there"


@pytest.mark.parametrize(
    "options", [{}, {"execution__checkpointing__interval": "1 s"}], ids=["no interval", "no directory"]
)
def test_resuming_needs_checkpoints_that_outlive_the_driver(options: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match=r"option 'execution\.checkpointing\.resume'"):
        prepared(execution__checkpointing__resume="true", **options)


# Standby drivers.


def test_batch_jobs_run_without_standby_drivers_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration.from_dict({"high-availability.type": "filesystem"})
    plan = replace(enumerated_plan(), mode=RuntimeMode.BATCH)
    assert standby_settings(plan, configuration) is None
    assert "runs in BATCH mode" in caplog.text
    with pytest.raises(InvalidOptionError, match="from checkpoints in a directory"):
        standby_settings(enumerated_plan(), configuration)


# Storage that does not answer.


def test_job_does_not_start_over_because_its_directory_is_out_of_reach(tmp_path: Path) -> None:
    volume, away = tmp_path / "volume", tmp_path / "away"
    published(in_directory(volume), 1)
    volume.rename(away)
    volume.symlink_to(volume)  # a look fails, even for root
    with pytest.raises(StorageError, match=r"the checkpoint directory .*volume cannot be written: .*"):
        resumed(volume, firesteel__storage__patience="0 ms")
    volume.unlink()
    away.rename(volume)
    second = resumed(volume)
    assert second.start.restore is not None
    assert second.start.restore.checkpoint_id == 1


class Flaky(LocalStorage):
    """Looks fail, some times."""

    failures: ClassVar[list[str]] = []

    def at(self, directory: str) -> LocalStorage:
        return Flaky(self._full(directory))

    def list(self, directory: str = "") -> list[str]:
        if self.failures:
            raise StorageError(self.failures.pop())
        return super().list(directory)


def test_job_waits_for_a_directory_that_is_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    published(in_directory(tmp_path), 1)
    monkeypatch.setattr(Flaky, "failures", ["stale file handle"] * 3)
    monkeypatch.setattr(preparation, "open_storage", Flaky)
    second = resumed(tmp_path, firesteel__storage__patience="10 min")
    assert second.start.restore is not None
    assert second.start.restore.checkpoint_id == 1
    assert "cannot be resumed yet, trying again for 600 s: stale file handle" in caplog.text


def test_new_job_says_at_once_that_its_directory_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "volume").symlink_to(tmp_path / "volume")
    with pytest.raises(StorageError, match="cannot be written"):
        in_directory(tmp_path / "volume", firesteel__storage__patience="1000 h")


def test_directory_that_no_waiting_makes_right_is_refused_at_once() -> None:
    with pytest.raises(StorageError, match="unknown scheme"):
        prepared(
            execution__checkpointing__interval="1 s",
            execution__checkpointing__dir="ftp://host/a",
            execution__checkpointing__resume="true",
            firesteel__storage__patience="1000 h",
        )
