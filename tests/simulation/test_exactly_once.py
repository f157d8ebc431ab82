"""Exactly once, whatever dies: the crash simulation on some seeds. `scripts/simulate` runs thousands more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.common.errors import JobTakenOverError, StorageError
from firesteel.jobmaster.checkpoints.store import CheckpointStore
from firesteel.jobmaster.checkpoints.takeover import TakenOver, Takeover
from firesteel.jobmaster.events import Event
from firesteel.jobmaster.heartbeat_monitor import HeartbeatMonitor
from firesteel.jobmaster.instructions import ChangePlan, StorageInstruction
from firesteel.jobmaster.job_lifecycle import JobLifecycle
from firesteel.runtime import stage_task
from firesteel.runtime.inputs import gate, payload_queue
from firesteel.runtime.task_clock import TaskClock
from firesteel_support.crash_programs import CrashProgram
from firesteel_support.crash_simulation import CrashSimulation, simulate
from firesteel_support.faulty_storage import FaultyStorage, SimulatedVolume


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_every_record_counts_exactly_once_whatever_crashes(first: int) -> None:
    outcomes = [simulate(seed) for seed in range(first, first + 25)]
    assert any(outcome.faults for outcome in outcomes)
    assert any(outcome.attempts > 1 for outcome in outcomes)
    assert all(outcome.checkpoints for outcome in outcomes)
    assert any(outcome.rescales for outcome in outcomes)
    assert any(outcome.refused_rescales for outcome in outcomes)


@pytest.mark.parametrize(
    "seed",
    [
        260,  # time stood still while tasks waited for their master to answer
        1533,  # a savepoint of a driver that woke up too late counted, for the third driver
        3362,  # a savepoint was forgotten after the job had gone on from it
    ],
)
def test_seeds_that_found_something(seed: int) -> None:
    simulate(seed)


def test_the_same_seed_gives_the_same_run() -> None:
    assert simulate(7) == simulate(7)


def test_l21_without_alignment_records_behind_the_barrier_would_count_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The simulation would notice: with barriers that block nothing some seed fails."""
    whole = gate.BarrierAlignment.__init__
    monkeypatch.setattr(
        gate.BarrierAlignment,
        "__init__",
        lambda self, channels, exactly_once: whole(self, channels, False),
    )

    with pytest.raises(AssertionError):
        run_seeds(1000)


def test_a_storage_that_has_not_heard_of_a_rescale_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints would say that their state was cut into the shares of the plan before."""
    perform = CheckpointStore.perform

    def deaf(store: CheckpointStore, instruction: StorageInstruction) -> Event | None:
        return None if isinstance(instruction, ChangePlan) else perform(store, instruction)

    monkeypatch.setattr(CheckpointStore, "perform", deaf)
    with pytest.raises(AssertionError):
        run_seeds(100)


@pytest.mark.parametrize("kind", ["last in, first out", "overtaken"])
def test_payloads_of_a_channel_in_the_wrong_order_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """So much waits at alignments, and so often, that few seeds are enough."""
    take = payload_queue.PayloadQueue.take

    def take_last(queue: Any) -> bytes:
        queue._stored.rotate(1)
        return take(queue)

    def may_always_receive(task: Any) -> bool:
        return not task.unread

    match kind:
        case "last in, first out":
            monkeypatch.setattr(payload_queue.PayloadQueue, "take", take_last)
        case _:
            monkeypatch.setattr(stage_task.StageTask, "may_receive", property(may_always_receive))
    with pytest.raises(AssertionError, match=r"no fault was the cause: .*payload"):
        run_seeds(50)


def test_records_that_change_after_they_were_emitted_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the programs are careless about their objects; with object reuse they show it at once."""
    drawn = CrashProgram.drawn

    def without_protection(seed: int, directory: str) -> CrashProgram:
        program = drawn(seed, directory)
        return replace(program, options=(*program.options, ("pipeline.object-reuse", "true")))

    monkeypatch.setattr(CrashProgram, "drawn", without_protection)

    with pytest.raises(AssertionError):
        run_seeds(20)


# Each kind of fault is there, and would be noticed if the code did not see to it.


def a_failed_look_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, nothing in (("exists", False), ("list", []), ("size", None)):
        monkeypatch.setattr(FaultyStorage, name, swallowing(getattr(FaultyStorage, name), nothing))
    every_list_is_believed(monkeypatch)


def swallowing(look: Callable[..., Any], nothing: Any) -> Callable[..., Any]:
    def careless(*arguments: Any) -> Any:
        try:
            return look(*arguments)
        except StorageError:
            return nothing

    return careless


def every_list_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobCheckpoints, "_names", lambda self: self._storage.list())


def what_is_gone_was_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobCheckpoints, "_refuse_contradiction", lambda self, file: None)


def what_was_written_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobCheckpoints, "_check_files", lambda self, storage, manifest: None)


def nothing_is_forced_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedVolume, "forced", lambda self, directory: None)


def whoever_comes_too_late_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobCheckpoints, "_counts", lambda self, id, epoch: True)


def tasks_of_earlier_attempts_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobLifecycle, "is_current", lambda self, origin: origin.task in self._tasks)


def the_master_looks_at_the_clock_on_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(self: Any, master: Any, event: Any) -> None:
        for instruction in master.core.handle(event, self._clock.now()):
            self._perform(master, instruction)

    monkeypatch.setattr(CrashSimulation, "_handle", handle)


def tasks_look_at_the_clock_on_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskClock, "now", lambda self: self._wall())


def silence_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = HeartbeatMonitor.measured
    monkeypatch.setattr(
        HeartbeatMonitor, "measured", lambda self, event, now: ([], whole(self, event, now)[1])
    )


def drivers_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Takeover, "_newest", lambda self, warn: None)


def drivers_forget_what_they_were_told_to_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Takeover.take_over

    def take_over(self: Takeover) -> TakenOver:
        return whole(replace(self, given=lambda: (None, self.plan)))

    monkeypatch.setattr(Takeover, "take_over", take_over)


@pytest.mark.parametrize(
    ("mistake", "kinds"),
    [
        (a_failed_look_says_no, ("look", "master")),
        (every_list_is_believed, ("lie", "master")),
        (every_list_is_believed, ("frozen publisher", "frozen master", "master")),
        (what_is_gone_was_deleted, ("away",)),
        (what_was_written_is_there, ("away",)),
        (nothing_is_forced_to_disk, ("power",)),
        (whoever_comes_too_late_counts, ("frozen publisher", "master")),
        (tasks_of_earlier_attempts_are_believed, ("zombie",)),
        (the_master_looks_at_the_clock_on_the_wall, ("clock", "storage")),
        (tasks_look_at_the_clock_on_the_wall, ("clock",)),
        (silence_is_not_noticed, ("frozen tasks",)),
        (drivers_begin_anew, ("master",)),
        (drivers_forget_what_they_were_told_to_begin_with, ("task",)),
    ],
    ids=lambda value: value.__name__ if callable(value) else "+".join(value),
)
def test_mistake_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None], kinds: tuple[str, ...]
) -> None:
    mistake(monkeypatch)
    with pytest.raises((AssertionError, JobTakenOverError)):
        run_seeds(100, max_faults=8, kinds=kinds)


def run_seeds(count: int, **options: Any) -> None:
    for seed in range(count):
        simulate(seed, **options)
