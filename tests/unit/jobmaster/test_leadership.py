"""Who leads a job, and who stands by: the machine, the files, and the drivers around them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from firesteel.checkpoint.storage import MemoryStorage, open_storage
from firesteel.common.configuration import Configuration
from firesteel.common.errors import (
    FileMissingError,
    InvalidOptionError,
    JobCancelledError,
    JobExecutionError,
    JobTakenOverError,
    StorageError,
)
from firesteel.common.job_execution_result import JobExecutionResult
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoints.settings import CheckpointSettings
from firesteel.jobmaster.leaders.campaign import StandbyEnd
from firesteel.jobmaster.leaders.election import (
    Candidate,
    Doubt,
    Follow,
    Lead,
    LeaseEnd,
    LeaseView,
    Leave,
    Outcome,
    still_leads,
)
from firesteel.jobmaster.leaders.leadership import Leadership, await_leadership
from firesteel.jobmaster.leaders.lease import Holder, Lease
from firesteel.jobmaster.leaders.settings import HighAvailability, read_high_availability
from firesteel.testing.manual_clock import ManualClock

TIMEOUT, INTERVAL = 10.0, 2.5
FINISHED, FAILED = LeaseEnd(Outcome.FINISHED), LeaseEnd(Outcome.FAILED, "it broke")

# The machine.


def candidate() -> Candidate:
    return Candidate(TIMEOUT, INTERVAL)


def looks(driver: Candidate, view: LeaseView, *times: float) -> list[Any]:
    return [driver.saw(view, time) for time in times]


def test_first_driver_of_a_job_leads_at_once() -> None:
    assert candidate().saw(LeaseView(), 0.0) == Lead(1)


def test_candidate_takes_over_when_the_lease_has_not_changed_for_the_time_out() -> None:
    dead = LeaseView(3, 7)
    assert looks(candidate(), dead, 0.0, 2.5, 5.0, 7.5, 9.9, 10.0) == [Follow(3)] * 5 + [Lead(4)]


def test_every_sign_of_life_restarts_its_wait() -> None:
    driver = candidate()
    for counter in range(20):
        assert looks(driver, LeaseView(1, counter), 9 * counter, 9 * counter + 4.5) == [Follow(1)] * 2


def test_new_leader_is_given_time_too() -> None:
    driver = candidate()
    looks(driver, LeaseView(1, 5), 0.0, 4.0, 8.0)
    assert driver.saw(LeaseView(2, 0), 11.0) == Follow(2)


def test_time_in_which_nobody_looked_proves_nothing() -> None:
    driver = candidate()
    assert looks(driver, LeaseView(1, 1), 0.0, 3600.0, 3602.5) == [Follow(1)] * 3, "the machine slept"
    assert driver.saw(LeaseView(1, 1), 3605.0) == Lead(2)


def test_storage_that_was_out_of_reach_costs_the_leader_nothing() -> None:
    driver = candidate()
    looks(driver, LeaseView(1, 1), 0.0, 5.0)
    driver.saw_nothing()
    assert looks(driver, LeaseView(1, 1), 10.0, 15.0, 20.0) == [Follow(1), Follow(1), Lead(2)]


def test_standby_leaves_when_the_job_it_stood_by_for_has_ended() -> None:
    for end in (FINISHED, FAILED, LeaseEnd(Outcome.CANCELED)):
        driver = candidate()
        driver.saw(LeaseView(1, 1), 0.0)
        assert driver.saw(LeaseView(1, 2, end), 1.0) == Leave(end)


def test_driver_that_comes_after_the_end_runs_the_job_again() -> None:
    for end in (FINISHED, FAILED, LeaseEnd(Outcome.CANCELED)):
        assert candidate().saw(LeaseView(4, 2, end), 0.0) == Lead(5)


@pytest.mark.parametrize(
    "before",
    [LeaseView(), LeaseView(1, 3), LeaseView(1, 3, LeaseEnd(Outcome.RELEASED)), LeaseView(1, 3, FAILED)],
    ids=["nobody led", "alive", "released", "failed"],
)
def test_job_that_another_driver_took_and_finished_between_two_looks_does_not_run_again(
    before: LeaseView,
) -> None:
    driver = candidate()
    driver.saw(before, 0.0)  # if it wants to lead, the other one is faster
    assert driver.saw(LeaseView(2, 1, FINISHED), 2.5) == Leave(FINISHED)


def test_job_that_could_not_start_elsewhere_is_taken_at_once() -> None:
    driver = candidate()
    driver.saw(LeaseView(1, 1), 0.0)
    assert driver.saw(LeaseView(1, 1, LeaseEnd(Outcome.RELEASED)), 0.1) == Lead(2)


def test_leader_continues_only_while_it_is_written_down_as_the_newest() -> None:
    assert still_leads(LeaseView(2, 9), "me", 2, "me")
    assert not still_leads(LeaseView(3, 0), "me", 2, "me")
    assert not still_leads(LeaseView(2, 9), "other", 2, "me")
    assert still_leads(LeaseView(0, 0), None, 2, "me") is None, (
        "an empty directory says nothing about leaders"
    )
    assert still_leads(LeaseView(2, 9), None, 2, "me") is None


def test_number_of_the_leader_never_goes_back() -> None:
    driver = candidate()
    assert looks(driver, LeaseView(3, 7), 0.0, 5.0) == [Follow(3)] * 2
    assert looks(driver, LeaseView(), 7.5, 100.0, 200.0) == [Doubt(3)] * 3, "a volume is not mounted"
    assert driver.saw(LeaseView(1, 1), 201.0) == Doubt(3)
    assert looks(driver, LeaseView(3, 7), 210.0, 215.0, 220.0) == [Follow(3), Follow(3), Lead(4)]


# The files.


@pytest.fixture(params=["memory", "local"])
def lease(request: pytest.FixtureRequest, tmp_path: Path) -> Lease:
    return Lease(MemoryStorage() if request.param == "memory" else open_storage(str(tmp_path / "lease")))


def test_lease_shows_the_newest_leader_and_its_newest_sign_of_life(lease: Lease) -> None:
    assert lease.look() == LeaseView()
    assert lease.acquire(1, Holder("a", "machine a"))
    assert lease.look() == LeaseView(1, 0)
    for counter in (9, 10):
        lease.renew(1, counter, epoch=4)
    assert lease.look() == LeaseView(1, 10)
    assert lease.claimed_epoch(lease.look()) == 4
    assert lease.acquire(2, Holder("b", "machine b", claimed=4))
    assert (lease.look(), lease.claimed_epoch(lease.look())) == (LeaseView(2, 0), 4)
    lease.renew(2, 1, epoch=5)
    lease.forget_before(2)
    assert (lease.holder(1), lease.holder(2)) == (None, Holder("b", "machine b", 4))
    assert lease.claimed_epoch(lease.look()) == 5
    lease.end(2, FAILED, epoch=3)
    lease.end(2, FINISHED, epoch=0)
    assert (lease.look(), lease.claimed_epoch(lease.look())) == (LeaseView(2, 1, FAILED), 3), (
        "the first last word counts"
    )


def test_of_two_that_want_the_same_number_one_leads(lease: Lease) -> None:
    assert lease.acquire(1, Holder("a", ""))
    assert not lease.acquire(1, Holder("b", ""))


def test_who_comes_too_late_does_not_lead(lease: Lease) -> None:
    lease.acquire(5, Holder("b", ""))
    assert not lease.acquire(4, Holder("a", ""))
    assert lease.look().number == 5


def test_signs_of_life_do_not_pile_up(tmp_path: Path) -> None:
    lease = Lease(open_storage(str(tmp_path)))
    lease.acquire(1, Holder("a", ""))
    for counter in range(1, 50):
        lease.renew(1, counter, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leader-1", "lease-1-49"]


# Drivers.


@dataclass
class Job:
    """What a leader sees of a job master."""

    result: Future[JobExecutionResult] = field(default_factory=Future)
    failed: Future[BaseException] = field(default_factory=Future)

    def fail(self, error: BaseException) -> None:
        self.failed.set_result(error)


@pytest.fixture
def settings() -> Iterator[HighAvailability]:
    yield HighAvailability(JobID("ab" * 16), "memory://leadership/lease", 0.25)
    MemoryStorage.forget("memory://leadership")


def lead(settings: HighAvailability) -> Leadership:
    def impatient(seconds: float) -> None:
        raise AssertionError("it should lead at once")

    return await_leadership(settings, "job", lambda text: None, pause=impatient)


class Standby:
    """A driver that waits, by a clock of its own; ``meanwhile`` happens during its first wait."""

    def __init__(self, settings: HighAvailability, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.settings = settings
        self.meanwhile: list[Callable[[], object]] = [meanwhile]
        self.told: list[str] = []
        self.waits = 0
        self.clock = ManualClock()

    def run(self) -> Leadership:
        return await_leadership(
            self.settings,
            "job",
            self.told.append,
            lambda: self.told.append("(waits)"),
            clock=self.clock.now,
            pause=self.pause,
        )

    def pause(self, seconds: float) -> None:
        self.waits += 1
        self.clock.advance(seconds)
        if self.meanwhile:
            self.meanwhile.pop()()


def kill(leader: Leadership) -> None:
    """End its thread without a word."""
    leader._stopped.set()
    leader._thread.join()


def test_standby_takes_a_dead_leaders_job_over(settings: HighAvailability) -> None:
    leader = lead(settings)
    leader.bind(Job(), epoch=3)
    kill(leader)
    leader._held.renew()
    standby = Standby(settings)
    second = standby.run()
    assert standby.waits == 4
    assert "standing by for job 'job' (abababababababababababababababab): " in standby.told[0]
    assert standby.told[1:] == [
        "(waits)",
        "this driver takes job 'job' (abababababababababababababababab) over, as leader 2",
    ]
    assert second.epoch_before == 3
    kill(second)


def test_leader_that_was_replaced_fails_its_job(settings: HighAvailability) -> None:
    leader, job = lead(settings), Job()
    leader.bind(job, 1)
    other = Lease(open_storage(settings.directory))
    assert other.acquire(2, Holder("other", "somewhere"))
    error = job.failed.result(10)
    assert isinstance(error, JobTakenOverError)
    assert str(error) == (
        "this driver has led job 'job' (abababababababababababababababab) as leader 1 and stops: another driver leads "
        "it now, in memory://leadership/lease"
    )
    job.result.set_exception(error)
    assert other.look() == LeaseView(2, 0), "the job has not ended"
    with pytest.raises(JobTakenOverError):
        leader.bind(Job(), 1)


def test_leader_that_was_replaced_by_a_name_that_storage_overwrote_fails_its_job(
    settings: HighAvailability,
) -> None:
    leader, job = lead(settings), Job()
    leader.bind(job, 1)
    storage = open_storage(settings.directory)
    storage.delete("leader-1")  # an object store: the later of two writers stays
    storage.publish("leader-1", b'{"token": "other", "who": "somewhere"}')
    assert "another driver leads it now" in str(job.failed.result(10))


def test_leader_whose_lease_is_away_for_a_while_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = HighAvailability(JobID("ab" * 16), str(tmp_path / "volume" / "lease"), 0.1)
    leader, job = lead(settings), Job()
    leader.bind(job, 1)
    (tmp_path / "volume").rename(tmp_path / "away")
    (tmp_path / "volume").mkdir()  # what it is mounted on

    def await_trouble() -> None:
        known = caplog.text.count("is not written down any more")
        while caplog.text.count("is not written down any more") == known:
            assert not leader.is_over

    await_trouble()
    on_its_way = sorted(
        (tmp_path / "volume").rglob("*")
    )  # a sign of life may have been, when the volume went
    await_trouble()
    assert sorted((tmp_path / "volume").rglob("*")) == on_its_way, (
        "nothing more is written to where it would be hidden"
    )
    shutil.rmtree(tmp_path / "volume")
    (tmp_path / "away").rename(tmp_path / "volume")
    before = Lease(open_storage(settings.directory)).look()
    while Lease(open_storage(settings.directory)).look() == before:
        assert not leader.is_over
    assert not job.failed.done()
    leader.release()
    kill(leader)


def test_standby_waits_while_the_volume_of_the_lease_is_away(tmp_path: Path) -> None:
    settings = HighAvailability(JobID("ab" * 16), str(tmp_path / "volume" / "lease"), 0.25)
    leader = lead(settings)
    leader.bind(Job(), epoch=3)
    leader._held.renew()
    kill(leader)

    def go_away() -> None:
        (tmp_path / "volume").rename(tmp_path / "away")
        (tmp_path / "volume").mkdir()
        standby.meanwhile = [come_back, *[lambda: None] * 20]

    def come_back() -> None:
        assert list((tmp_path / "volume").iterdir()) == []
        (tmp_path / "volume").rmdir()
        (tmp_path / "away").rename(tmp_path / "volume")

    standby = Standby(settings, go_away)
    second = standby.run()
    assert standby.told[-1].endswith("as leader 2")
    assert second.epoch_before == 3
    assert standby.waits > 20
    kill(second)


def test_last_word_that_cannot_be_read_is_no_release(
    settings: HighAvailability, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has finished; who cannot read that must not run it again."""
    leader, job = lead(settings), Job()
    leader.bind(job, 1)
    read, lost = MemoryStorage.read, []

    def lose_first(self: MemoryStorage, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path.startswith("ended-") and not lost:
            lost.append(path)
            raise FileMissingError("away for a moment")
        return read(self, path, offset, length)

    monkeypatch.setattr(MemoryStorage, "read", lose_first)
    standby = Standby(settings, lambda: leader.status_changed(job, JobStatus.FINISHED))  # type: ignore[arg-type]
    with pytest.raises(StandbyEnd):
        standby.run()
    assert lost


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.CANCELED])
def test_standby_ends_well_when_the_job_has(settings: HighAvailability, status: JobStatus) -> None:
    leader, job = lead(settings), Job()
    leader.bind(job, 1)
    standby = Standby(settings, lambda: leader.status_changed(job, status))  # type: ignore[arg-type]
    with pytest.raises(StandbyEnd) as end:
        standby.run()
    assert end.value.code == 0
    assert standby.told[-1] == (
        f"job 'job' (abababababababababababababababab) is {status.name} in the driver that led it, so this standby "
        "driver ends"
    )


def test_standby_ends_with_the_failure_of_the_job(settings: HighAvailability) -> None:
    leader, job = lead(settings), Job()
    leader.bind(job, 1)
    standby = Standby(settings, lambda: job.result.set_exception(JobExecutionError("too many failures")))
    with pytest.raises(JobExecutionError, match=r"has failed for good .* driver ends: too many failures"):
        standby.run()


def test_cancelled_job_has_not_failed(settings: HighAvailability) -> None:
    leader, job = lead(settings), Job()
    leader.bind(job, 1)
    leader.status_changed(job, JobStatus.CANCELED)  # type: ignore[arg-type]
    job.result.set_exception(JobCancelledError("cancelled"))
    end = Lease(open_storage(settings.directory)).look().end
    assert end == LeaseEnd(Outcome.CANCELED)


def test_leader_that_cannot_start_the_job_lets_another_try_at_once(settings: HighAvailability) -> None:
    leader = lead(settings)
    standby = Standby(settings, leader.release)
    second = standby.run()
    assert standby.waits == 1
    second.release()


def test_driver_does_not_stand_by_for_a_job_of_another_name(settings: HighAvailability) -> None:
    leader = lead(settings)
    with pytest.raises(InvalidOptionError, match=r"job 'other' .* cannot stand by.* runs .*'job'; give each"):
        await_leadership(settings, "other", lambda text: None)
    leader.release()


def test_job_that_is_still_being_cancelled_is_not_left_to_others(settings: HighAvailability) -> None:
    leader, job = lead(settings), Job()
    leader.bind(job, 1)
    leader.release()  # a second Ctrl-C, while the first one is being followed
    lease = Lease(open_storage(settings.directory))
    assert (lease.look().end, leader.is_over) == (None, False)
    leader.status_changed(job, JobStatus.CANCELED)  # type: ignore[arg-type]
    assert (lease.look().end, leader.is_over) == (LeaseEnd(Outcome.CANCELED), True)


def test_job_can_be_run_again_after_its_end(settings: HighAvailability) -> None:
    first, job = lead(settings), Job()
    first.bind(job, 7)
    first.status_changed(job, JobStatus.FINISHED)  # type: ignore[arg-type]
    second = lead(settings)
    assert second.epoch_before == 0, "its checkpoints are deleted, and that is right"
    assert (first.finished_before, second.finished_before) == (False, True)
    second.release()


def test_driver_that_could_not_start_the_job_passes_on_what_it_should_have_found(
    settings: HighAvailability,
) -> None:
    first = lead(settings)
    first.bind(Job(), 7)
    kill(first)
    first._held.renew()
    second = Standby(settings).run()
    second.release()
    third = lead(settings)
    assert (second.epoch_before, third.epoch_before) == (7, 7)
    third.release()


def test_standby_waits_while_storage_is_out_of_reach(
    settings: HighAvailability, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = lead(settings)
    kill(leader)
    broken = threading.Event()

    def listing(self: MemoryStorage, directory: str = "") -> list[str]:
        if broken.is_set():
            broken.clear()
            raise StorageError("out of reach")
        return original(self, directory)

    original = MemoryStorage.list
    monkeypatch.setattr(MemoryStorage, "list", listing)
    standby = Standby(settings, broken.set)
    second = standby.run()
    assert standby.waits == 6, "one look, one that failed, and then the time-out from the beginning"
    kill(second)


def test_waiting_can_be_interrupted(settings: HighAvailability) -> None:
    leader = lead(settings)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Standby(settings, interrupt).run()
    leader.release()


# Settings.

CHECKPOINTS = CheckpointSettings(1.0, directory="/checkpoints")


def read(
    checkpoints: CheckpointSettings | None = CHECKPOINTS, name: str = "job", **given: str
) -> HighAvailability | None:
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in given.items()}
    configuration = Configuration.from_dict({"high-availability.type": "filesystem", **keys})
    return read_high_availability(configuration, name, checkpoints)


def test_job_has_one_driver_unless_it_asks_for_more() -> None:
    assert read_high_availability(Configuration(), "job", CHECKPOINTS) is None
    assert read_high_availability(Configuration(), "job", None) is None


def test_drivers_of_one_job_find_each_other_by_its_name() -> None:
    first, second, other = read(), read(), read(name="other")
    assert first == second
    assert first is not None
    assert other is not None
    assert first.job_id != other.job_id
    assert first.directory == f"/checkpoints/leaders/{first.job_id}"
    assert (first.lease_timeout, first.interval) == (10.0, 2.5)


def test_cluster_ids_keep_jobs_of_one_name_apart() -> None:
    one = read(**{"high-availability.cluster-id": "/cluster-1"})
    two = read(**{"high-availability.cluster-id": "cluster-2"})
    assert one is not None
    assert two is not None
    assert one.job_id != two.job_id
    assert one.directory == f"/checkpoints/leaders/cluster-1/{one.job_id}"


def test_job_id_and_directory_can_be_given() -> None:
    found = read(**{"high-availability.storageDir": "s3://bucket/ha", "pipeline.job-id": "ef" * 16})
    assert found is not None
    assert found.directory == f"s3://bucket/ha/leaders/{'ef' * 16}"


@pytest.mark.parametrize("checkpoints", [None, CheckpointSettings(1.0)], ids=["none", "in memory"])
def test_standby_drivers_need_checkpoints_in_a_directory(checkpoints: CheckpointSettings | None) -> None:
    with pytest.raises(
        InvalidOptionError, match=r"option 'high-availability\.type'.*checkpoints in a directory"
    ):
        read(checkpoints)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("high-availability.cluster-id", "../elsewhere"),
        ("high-availability.cluster-id", "a b"),
        ("high-availability.filesystem.lease-timeout", "10 ms"),
    ],
)
def test_values_that_make_no_sense_are_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"option '{key}'"):
        read(**{key: value})


@pytest.mark.parametrize("key", ["high-availability.type", "high-availability"])
@pytest.mark.parametrize(
    "value",
    [
        "zookeeper",
        "kubernetes",
        "org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory",
    ],
)
def test_other_ways_to_choose_a_leader_are_refused_with_the_one_there_is(key: str, value: str) -> None:
    configuration = Configuration.from_dict({key: value})
    with pytest.raises(InvalidOptionError, match="use filesystem"):
        read_high_availability(configuration, "job", CHECKPOINTS)
