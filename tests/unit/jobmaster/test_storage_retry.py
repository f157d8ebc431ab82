"""Storage that does not answer is asked again for a while."""

from __future__ import annotations

import pytest

from firesteel.common.errors import StateError, StorageError
from firesteel.jobmaster.storage_retry import retry_storage
from firesteel.testing.manual_clock import ManualClock


class Trouble:
    """Fails for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.clock = ManualClock(0.0)
        self.seconds = seconds
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.clock.now() < self.seconds:
            raise StorageError("it does not answer")
        return "there"

    def retry(self, seconds: float) -> str:
        return retry_storage(self, seconds, "waiting", clock=self.clock.now, pause=self.clock.advance)


def test_answer_is_awaited(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble(7.0)
    assert trouble.retry(30.0) == "there"
    assert 7.0 <= trouble.clock.now() <= 9.0
    assert caplog.messages == ["waiting, trying again for 30 s: it does not answer"], "once"


def test_patience_ends() -> None:
    trouble = Trouble(1e9)
    with pytest.raises(StorageError, match="it does not answer"):
        trouble.retry(30.0)
    assert trouble.clock.now() == pytest.approx(30.0)


def test_without_patience_it_is_tried_once() -> None:
    trouble = Trouble(1.0)
    with pytest.raises(StorageError):
        trouble.retry(0.0)
    assert trouble.tries == 1


def test_what_waiting_does_not_mend_is_raised_at_once() -> None:
    def refuse() -> None:
        raise StateError("it does not fit")

    with pytest.raises(StateError):
        retry_storage(refuse, 30.0, "waiting", pause=lambda seconds: pytest.fail("it waits"))
