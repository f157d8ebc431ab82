"""What was started through the service, a savepoint say, and how it ended: whoever has started it may ask when its driver is gone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from firesteel.rest.endpoints import RawAnswer
from firesteel.service.driver_client import DriverAnswer, DriverClient, DriverGoneError

__all__ = ["Triggers"]

_KEPT = 1000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class Triggers:
    """Watches operations until they have ended; may be used from any thread."""

    def __init__(self, client: DriverClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, RawAnswer] = OrderedDict()  # by the path that asks
        self._closed = threading.Event()

    def watch(self, rest: str, path: str, answer: DriverAnswer, headers: Mapping[str, str]) -> None:
        """An operation was started by a request to a path; ask after it until it has ended."""
        trigger = answer.json().get("request-id")
        if not isinstance(trigger, str):
            return
        asked = f"{_asking_path(path)}/{trigger}"
        thread = threading.Thread(
            target=self._follow, args=(rest, asked, dict(headers)), name="firesteel-trigger", daemon=True
        )
        thread.start()

    def ended(self, path: str) -> RawAnswer | None:
        """What is answered at a path that asks how something ended; None while it has not, or nothing was started."""
        with self._lock:
            return self._answers.get(_plain(path))

    def close(self) -> None:
        """Ask no more, also after operations that have not ended."""
        self._closed.set()

    def _follow(self, rest: str, path: str, headers: Mapping[str, str]) -> None:
        pause = _FIRST_PAUSE
        while not self._closed.wait(pause):
            pause = min(_LONGEST_PAUSE, pause * 1.5)
            try:
                answer = self._client.ask(
                    rest, "GET", path, headers={"authorization": headers.get("authorization", "")}
                )
            except DriverGoneError:
                return
            if answer.status != 200:
                return
            if answer.json().get("status", {}).get("id") == "COMPLETED":
                self._keep(path, RawAnswer(answer.status, answer.content, answer.media_type))
                return

    def _keep(self, path: str, answer: RawAnswer) -> None:
        with self._lock:
            self._answers[_plain(path)] = answer
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)


def _asking_path(path: str) -> str:
    """Where one asks after what a path has started: a stop is a savepoint, too."""
    return f"{path.removesuffix('/stop')}/savepoints" if path.endswith("/stop") else path


def _plain(path: str) -> str:
    return path.removeprefix("/v1")
