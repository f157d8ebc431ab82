"""A thread that does slow things one after the other, so that the job master's own thread never waits for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

_LOG = logging.getLogger(__name__)


class IoThread:
    """Does what it is given, in order. The thread exists from the first piece of work on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], object]) -> None:
        """Have something done; what it raises is logged."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._work.put(work)

    def close(self, seconds: float) -> bool:
        """Do what is left, within ``seconds``; whether all was done."""
        if self._thread is None:
            return True
        self._work.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:  # noqa: BLE001 - the next piece of work has nothing to do with it
                _LOG.exception("work in thread %s failed", self._name)
