"""How often something is tried again that may work in a while, and how long to wait between tries."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from firesteel.common.errors import InvalidArgumentError, JobExecutionError

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """``tries`` more tries after the first; the first waits ``first`` seconds, each later one twice as long, up to ``most``.

    >>> backoff = Backoff(first=0.5, most=3.0, tries=4)
    >>> [backoff.pause(tried) for tried in range(5)]
    [0.5, 1.0, 2.0, 3.0, None]
    """

    first: float = 0.1
    most: float = 10.0
    tries: int = 8

    def __post_init__(self) -> None:
        if self.first < 0 or self.most < self.first or self.tries < 0:
            raise InvalidArgumentError(
                f"a back-off waits first <= most seconds and has tries >= 0, got first={self.first}, most={self.most}, "
                f"tries={self.tries}"
            )

    def pause(self, tried: int) -> float | None:
        """How long to wait after that many tries that were made again; None when it is enough."""
        if tried >= self.tries:
            return None
        return float(min(self.most, self.first * 2.0 ** min(tried, 60)))


def retries_exhausted(what: str, error: BaseException, tries: int) -> JobExecutionError:
    """The error of something that did not work however often it was tried.

    >>> retries_exhausted("reading the queue 'a'", ConnectionRefusedError("nobody listens"), 3)
    JobExecutionError("reading the queue 'a' failed in 3 tries: ConnectionRefusedError: nobody listens")
    """
    times = "failed" if tries == 1 else f"failed in {tries} tries"
    return JobExecutionError(f"{what} {times}: {type(error).__name__}: {error}")


def insist(action: Callable[[], T], retry_on: tuple[type[Exception], ...], backoff: Backoff, what: str) -> T:
    """Do something, again and again after such errors, in the thread that calls."""
    tried = 0
    while True:
        try:
            return action()
        except retry_on as error:
            pause = backoff.pause(tried)
            if pause is None:
                raise retries_exhausted(what, error, tried + 1) from error
            _LOG.warning("%s: again in %.1f s, after %s: %s", what, pause, type(error).__name__, error)
            tried += 1
            time.sleep(pause)


def drop(close: Callable[[], None], what: str) -> None:
    """Close a connection that is lost already: what closing says about it is logged, because another one will be made."""
    try:
        close()
    except Exception as error:  # noqa: BLE001 - clients fail in all kinds of ways when the other side is gone
        _LOG.warning("%s: closing a lost connection: %s: %s", what, type(error).__name__, error)
