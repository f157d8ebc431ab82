"""Which of several drivers leads a job, as a pure machine: what was seen in, what to do out; no storage, no clock.

The leader holds a **lease**: a number, greater than those of all leaders before it, and a counter that it makes grow
as long as it lives. The others stand by and look. To a `Candidate` the leader is dead when the lease has stayed the
same for the time-out, measured by its own clock alone; clocks of different machines are never compared. Then it
tries to become the next leader, and is if nobody was faster.

**The lease keeps a job running; it does not keep it correct.** A leader that was only slow may continue for a while beside
the one that has replaced it, and no lease can prevent that: a process can be stopped between looking at its lease
and acting on it. What prevents harm is that the new leader claims the job's checkpoints
(`firesteel.checkpoint.repository`), after which the old one completes no checkpoint and commits nothing. However
wrong the time-out is, and however clocks run, the output stays right; at worst a job changes hands needlessly.

Time in which nobody could look proves nothing: after a failed look, waiting restarts, and the time between two looks
counts up to twice the interval that was agreed upon. So a storage that was away for a while, or a machine
that slept, does not cost the leader its lease.

**Numbers never go back.** Who has seen leader n and then sees an earlier one, or none, looks at an empty mount point or at
a list that is not true. That is `Doubt`, and nothing is concluded from it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = [
    "Candidate",
    "Doubt",
    "Follow",
    "Lead",
    "LeaseEnd",
    "LeaseView",
    "Leave",
    "Outcome",
    "still_leads",
]


class Outcome(enum.Enum):
    """How a leader has released its lease."""

    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    #: The job has not ended: another driver shall run it.
    RELEASED = "RELEASED"


@dataclass(frozen=True, slots=True)
class LeaseEnd:
    """A leader's last word; ``sentence`` says what it failed with."""

    outcome: Outcome
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """What one look at the lease shows. ``number`` 0: there has been no leader yet."""

    number: int = 0
    counter: int = 0
    end: LeaseEnd | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    """Stand by: leader ``number`` lives, as far as one can tell."""

    number: int


@dataclass(frozen=True, slots=True)
class Lead:
    """Try to become leader ``number``."""

    number: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The job that this driver stood by for has ended."""

    end: LeaseEnd


@dataclass(frozen=True, slots=True)
class Doubt:
    """Leader ``number`` was seen before, and this look does not show it: look again."""

    number: int


class Candidate:
    """A driver that does not lead."""

    def __init__(self, lease_timeout: float, interval: float) -> None:
        self._timeout = lease_timeout
        self._longest_step = 2 * interval
        self._seen: LeaseView | None = None
        self._looked = 0.0
        self._unchanged = 0.0
        self._highest = 0
        self._over_before: int | None = None  # the leader whose job had ended when this driver came; 0: none

    def saw(self, view: LeaseView, now: float) -> Follow | Lead | Leave | Doubt:
        """React to a look at ``now``, by this driver's own clock, which never goes back."""
        if view.number < self._highest:
            self.saw_nothing()
            return Doubt(self._highest)
        self._highest = view.number
        if view == self._seen:
            self._unchanged += min(now - self._looked, self._longest_step)
        else:
            self._unchanged = 0.0
        self._seen, self._looked = view, now
        if self._over_before is None:
            self._over_before = 0 if view.end is None else view.number
        if view.number == 0:
            return Lead(1)
        if view.end is not None:
            return self._on_end(view.number, view.end)
        return Lead(view.number + 1) if self._unchanged >= self._timeout else Follow(view.number)

    def saw_nothing(self) -> None:
        """Storage did not answer: the silence of the leader is counted again from the next look."""
        self._seen = None

    def _on_end(self, number: int, end: LeaseEnd) -> Lead | Leave:
        # Over before this driver came: whoever started it wants the job to run again. Everything else has happened in
        # its time, even if it never saw that leader alive: leaders may come and finish the job between two looks.
        if end.outcome is Outcome.RELEASED or number == self._over_before:
            return Lead(number + 1)
        return Leave(end)


def still_leads(view: LeaseView, holder: str | None, number: int, me: str) -> bool | None:
    """Whether leader ``number`` may continue; ``holder`` is who is written down as that leader. None: nobody can tell."""
    if view.number < number or (view.number == number and holder is None):
        return None
    return view.number == number and holder == me
