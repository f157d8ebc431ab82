"""What a person at a terminal sees while the engine of a job starts, which takes seconds in which nothing else happens."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

from firesteel.jobmaster.terminal.console import CONSOLE

__all__ = ["EngineLines"]

_LOG = logging.getLogger(__name__)


class EngineLines:
    """Writes a line when Spark starts and one when it is there, to standard error if that is a terminal.

    ``wish`` is that of the user: "1" wants to see it anywhere, "0" nowhere. Logged, at INFO, it is always.
    """

    def __init__(self, wish: Callable[[], str | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._wish = wish
        self._clock = clock
        self._began: float | None = None

    def starting(self, where: str = "") -> None:
        """It starts; who says so again while it does is not heard."""
        if self._began is None:
            self._began = self._clock()
            self._tell(f"starting Spark {where} ...".replace("  ", " "))

    def ready(self, version: str) -> None:
        """It is there; the line says how long that took, if somebody said that it was starting."""
        began, self._began = self._began, None
        after = "" if began is None else f" after {self._clock() - began:.1f} s"
        self._tell(f"Spark {version} is there{after}")

    def failed(self) -> None:
        """It will not be there: the next time it starts is worth a line again."""
        self._began = None

    def _tell(self, text: str) -> None:
        _LOG.info("%s", text)
        wish = self._wish()
        if wish == "1" or (wish is None and sys.stderr is not None and sys.stderr.isatty()):
            CONSOLE.write(f"{text}\n", "stderr")
