"""Trying again for a while when storage does not answer, before a job is refused."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from firesteel.common.errors import FiresteelError, StorageError

__all__ = ["retry_storage"]

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


def retry_storage(
    action: Callable[[], _T],
    seconds: float,
    what: str,
    errors: tuple[type[FiresteelError], ...] = (StorageError,),
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> _T:
    """Do something that needs storage; try again for ``seconds`` when it fails with ``errors``, then raise that.

    ``what`` is said once, with the reason: ``job 'x' cannot be resumed yet``.
    """
    deadline = clock() + seconds
    delay, has_said = _FIRST_PAUSE, False
    while True:
        try:
            return action()
        except errors as error:
            left = deadline - clock()
            if left <= 0:
                raise
            if not has_said:
                _LOG.warning("%s, trying again for %g s: %s", what, seconds, error)
                has_said = True
        pause(min(delay, left))
        delay = min(2 * delay, _LONGEST_PAUSE)
