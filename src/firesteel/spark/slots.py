"""Waiting for slots: those of a cluster come when its executors have started, or come back after they were lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from firesteel.common.errors import JobCancelledError
from firesteel.common.options import SLOT_REQUEST_TIMEOUT
from firesteel.plan.executor import SlotWait

__all__ = ["Slots", "await_slots"]

_LOG = logging.getLogger(__name__)

#: After this long a job says that it waits: the executors of a fresh session report within seconds.
_QUIET_SECONDS = 5.0
#: How often slots are counted.
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Slots:
    """How many tasks Spark can run at once, and how to get more."""

    available: int
    remedy: str


def await_slots(
    count: Callable[[], Slots],
    needed: int,
    seconds: float,
    is_wanted: Callable[[], bool],
    tell: Callable[[SlotWait | None], None] = lambda wait: None,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Slots:
    """Wait for ``needed`` slots, for ``seconds`` at most; returns what there is then. Logged once, when it lasts.

    ``tell`` hears what is missing with every look, and None when the wait is over.
    Raises `JobCancelledError` when nobody wants them any more.
    """
    began, since = clock(), time.time()
    slots = count()
    has_said = False
    while slots.available < needed and (waited := clock() - began) < seconds:
        tell(SlotWait(needed, slots.available, since))
        if not is_wanted():
            raise JobCancelledError(f"the job was ended while it waited for {needed} slots")
        if not has_said and waited >= min(_QUIET_SECONDS, seconds / 2):
            has_said = True
            _LOG.warning(
                "waiting for slots, up to %g s (%r): the job needs %d, one for each of its tasks, and Spark has %d",
                seconds,
                SLOT_REQUEST_TIMEOUT.key,
                needed,
                slots.available,
            )
        pause(_LOOK_SECONDS)
        slots = count()
    tell(None)
    if has_said and slots.available >= needed:
        _LOG.warning("the %d slots that the job needs are there", needed)
    return slots
