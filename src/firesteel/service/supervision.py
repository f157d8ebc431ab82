"""Decides what a service does about its submissions: who is started, who gets slots, who is over. No clock, no files, no processes.

Slots are given first come, first served: a job that needs many is not overtaken for ever by those that need few. One that makes
do with fewer than it asks for gets what there is. A job that runs and asks for more, in order to be rescaled, gets none while others
wait; it is told at once how many it may have, or, if it says how many would be of use, as soon as there are that many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firesteel.service.records import DriverReport, JobReport, Orders

__all__ = [
    "Allow",
    "Close",
    "Decision",
    "Grant",
    "Refuse",
    "Seen",
    "Start",
    "decide",
    "pause_after",
    "slots_in_use",
]

#: A driver that dies so often without a word is not started again.
MOST_DEATHS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What is to be seen of one submission that is not over.

    ``is_alive``: its driver lives; ``since_death``: for how many seconds it has been seen dead.
    """

    id: str
    submitted: int
    orders: Orders
    report: DriverReport | None = None
    is_alive: bool = False
    since_death: float = 0.0

    @property
    def jobs(self) -> tuple[JobReport, ...]:
        """Those that its driver has told of."""
        return () if self.report is None else self.report.jobs


@dataclass(frozen=True, slots=True)
class Start:
    """Start a driver. ``resume``: from the newest checkpoint; ``after_death``: one has died before."""

    id: str
    resume: bool = False
    after_death: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """A job has this many slots from now on: those that it waits for, or as many as it makes do with, or fewer than it had."""

    id: str
    job: str
    slots: int


@dataclass(frozen=True, slots=True)
class Allow:
    """Answer a request of a job that runs: it may have this many slots, which may be fewer than it asks for."""

    id: str
    job: str
    request: int
    slots: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """A job can never have the slots that it needs."""

    id: str
    job: str
    needed: int


@dataclass(frozen=True, slots=True)
class Close:
    """The submission is over. ``sentence``: why, where no job says it."""

    id: str
    status: str
    sentence: str = ""


Decision = Start | Grant | Allow | Refuse | Close


def decide(seen: Sequence[Seen], slots: int) -> list[Decision]:
    """Everything that is to be done now."""
    decisions: list[Decision] = []
    for each in sorted(seen, key=lambda one: (one.submitted, one.id)):
        if not each.is_alive:
            decisions += _about_dead(each)
    return [*decisions, *_about_slots(seen, slots)]


def slots_in_use(seen: Iterable[Seen]) -> int:
    """Slots of jobs that have them and are not over; those of a driver that died are kept for its next one."""
    return sum(
        each.orders.granted.get(job.id, 0)
        for each in seen
        for job in each.jobs
        if not job.is_over and not _has_exited(each)
    )


def pause_after(deaths: int) -> float:
    """Seconds before a driver is started again that has died so often.

    >>> [pause_after(deaths) for deaths in (1, 2, 3, 10)]
    [1.0, 2.0, 4.0, 60.0]
    """
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (deaths - 1))


def _has_exited(each: Seen) -> bool:
    return each.report is not None and each.report.exit_code is not None


def _about_dead(each: Seen) -> list[Decision]:
    orders, report = each.orders, each.report
    if orders.is_cancelled and not _has_exited(each):
        return [Close(each.id, "CANCELED", "it was cancelled")]
    if orders.starts == 0:
        return [Start(each.id)]
    if report is not None and report.exit_code is not None:
        return [_by_itself(each, report)]
    problem = _why_not_again(each)
    if problem:
        return [Close(each.id, "FAILED", problem)]
    if each.since_death < pause_after(orders.deaths + 1):
        return []
    return [Start(each.id, resume=bool(each.jobs), after_death=True)]


def _by_itself(each: Seen, report: DriverReport) -> Close:
    """It has said how its jobs ended, and then ended itself."""
    bad = [job.status for job in each.jobs if job.status in ("FAILED", "CANCELED")]
    if report.exit_code == 0:
        return Close(each.id, bad[-1] if bad else "FINISHED")
    if bad:
        return Close(each.id, bad[-1])
    if each.orders.is_cancelled:
        return Close(each.id, "CANCELED", "it was cancelled")  # it has heard of it before it was ended
    return Close(each.id, "FAILED", f"its program has ended with exit code {report.exit_code}")


def _why_not_again(each: Seen) -> str:
    """Why a driver that died without a word is not started again; empty when it is."""
    if each.orders.deaths + 1 > MOST_DEATHS:
        return f"its driver has died {each.orders.deaths + 1} times without a word"
    over = [job for job in each.jobs if job.is_over]
    if over and len(each.jobs) > len(over):
        return f"its driver has died after {len(over)} of its jobs had ended, and a program cannot be started in its middle"
    if over:
        return "its driver has died after its jobs had ended, before its program had"
    lost = [job for job in each.jobs if not job.resumable and job.id in each.orders.granted]
    if lost:
        return (
            f"its driver has died, and job '{lost[0].name}' has no checkpoints in a directory to resume from; set "
            "'execution.checkpointing.interval' and 'execution.checkpointing.dir'"
        )
    return ""


def _about_slots(seen: Sequence[Seen], slots: int) -> list[Decision]:
    living = sorted(
        (
            (job.asked, each.id, job, each.orders)
            for each in seen
            if each.is_alive and not each.orders.is_cancelled
            for job in each.jobs
            if not job.is_over and job.id not in each.orders.refused
        ),
        key=lambda entry: entry[:2],
    )
    decisions: list[Decision] = []
    free = slots - slots_in_use(seen)
    for _, submission, job, orders in living:
        held = orders.held(job)
        if held < orders.granted.get(job.id, 0):
            free += orders.granted[job.id] - held
            decisions.append(Grant(submission, job.id, held))
    for _, submission, job, orders in living:
        held = orders.held(job)
        if job.needed > slots:
            decisions.append(Refuse(submission, job.id, job.needed))
        elif job.needed - held > free:
            free = 0  # what there is, is kept for it
            break
        elif job.needed > held:
            more = min(job.slots - held, free)
            free -= more
            decisions.append(Grant(submission, job.id, held + more))
    for _, submission, job, orders in living:
        held = orders.held(job)
        more = max(0, min(job.wanted - held, free))
        is_asked = job.wanted > 0 and job.request > orders.answered.get(job.id, 0)
        if is_asked and held + more >= job.least:
            free -= more
            decisions.append(Allow(submission, job.id, job.request, held + more))
    return decisions
