"""Asks the drivers of a service: all of them the same at once, or the one that has what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from firesteel.rest.endpoints import RawAnswer, SentRequest
from firesteel.service.dispatcher import Dispatcher, Managed
from firesteel.service.driver_client import DriverAnswer, DriverClient, DriverGoneError, target_of

__all__ = ["AllDrivers", "Asked"]

_ASKED_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """What one driver has answered."""

    driver: Managed
    answer: Any

    @property
    def name(self) -> str:
        """What its program is called, with the id."""
        return f"{self.driver.submission.name} ({self.driver.folder.id})"


class AllDrivers:
    """May be used from any thread."""

    def __init__(self, dispatcher: Dispatcher, client: DriverClient) -> None:
        self._dispatcher = dispatcher
        self._client = client
        self._asking = ThreadPoolExecutor(_ASKED_AT_ONCE, thread_name_prefix="firesteel-ask-driver")

    def close(self) -> None:
        """Ask nothing any more; questions that wait are dropped, and those under way are not waited for."""
        self._asking.shutdown(wait=False, cancel_futures=True)

    def living(self) -> list[Managed]:
        """Those that can be asked, the oldest submission first."""
        return [each for each in self._dispatcher.managed() if each.is_alive and _rest_of(each)]

    def ask(self, path: str, method: str = "GET", body: bytes = b"") -> list[Asked]:
        """The answers, read, of all drivers that give one."""
        return self.ask_each([(each, path) for each in self.living()], method, body)

    def ask_each(
        self, questions: Sequence[tuple[Managed, str]], method: str = "GET", body: bytes = b""
    ) -> list[Asked]:
        """The answers of those that are asked, in the same order; without those that give none."""

        def ask_one(question: tuple[Managed, str]) -> Asked | None:
            driver, path = question
            answer = self._ask_one(driver, method, path, body)
            return Asked(driver, answer.json()) if answer is not None and answer.status == 200 else None

        return [each for each in self._asking.map(ask_one, questions) if each is not None]

    def pass_on(self, driver: Managed, sent: SentRequest) -> RawAnswer | None:
        """What a driver answers to a request, as it is; None when it is gone."""
        answer = self._ask_one(driver, sent.method, target_of(sent), sent.body)
        return None if answer is None else RawAnswer(answer.status, answer.content, answer.media_type)

    def _ask_one(self, driver: Managed, method: str, path: str, body: bytes) -> DriverAnswer | None:
        try:
            return self._client.ask(_rest_of(driver), method, path, body)
        except DriverGoneError:
            return None  # it has just ended; the next look finds its jobs in the archive


def _rest_of(driver: Managed) -> str:
    return "" if driver.report is None else driver.report.rest
