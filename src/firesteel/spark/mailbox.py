"""What waits for a task: payloads from Spark, control messages, and a way to be woken.

Payloads come from a thread that reads Spark's iterator. It stops reading when enough are waiting, so that
back pressure reaches the stage before.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from firesteel.plan.messages import MasterMessage

_WAITING_PAYLOADS = 16

END_OF_INPUT = object()


class Mailbox:
    """One consumer (the task's loop), several producers."""

    def __init__(self) -> None:
        self._mails: deque[Any] = deque()
        self.control: deque[MasterMessage] = deque()
        self._something = threading.Event()
        self._room = threading.Event()
        self._error: BaseException | None = None

    def pop(self) -> Any | None:
        """The next payload or END_OF_INPUT; None when there is none."""
        if not self._mails:
            return None
        mail = self._mails.popleft()
        if len(self._mails) < _WAITING_PAYLOADS and not self._room.is_set():
            self._room.set()
        if self._error is not None and mail is END_OF_INPUT:
            raise self._error
        return mail

    def empty(self) -> bool:
        """Whether no payload waits."""
        return not self._mails

    def pop_control(self) -> MasterMessage:
        """The next control message."""
        return self.control.popleft()

    def put_control(self, message: MasterMessage) -> None:
        """Deliver a control message."""
        self.control.append(message)
        self._something.set()

    def wake(self) -> None:
        """End the consumer's wait."""
        self._something.set()

    def wait(self, seconds: float) -> None:
        """Wait until something arrives or the time is over."""
        # Cleared before the look: whatever arrives after it sets the event again.
        if seconds > 0 and not self._mails and not self.control:
            self._something.wait(seconds)
        self._something.clear()

    def nap(self, seconds: float) -> None:
        """Wait until somebody wakes the consumer or a message comes; payloads that are there already do not count."""
        self._something.wait(seconds)
        self._something.clear()

    def feed(self, batches: Iterator[Any]) -> None:
        """Start reading Spark's batches."""
        threading.Thread(target=self._read, args=(batches,), name="firesteel-reader", daemon=True).start()

    def _read(self, batches: Iterator[Any]) -> None:
        try:
            for batch in batches:
                if batch.num_columns > 1:  # the rows that start the first stage carry nothing
                    for scalar in batch.column(1):
                        self._put(memoryview(scalar.as_buffer()))
        except BaseException as error:  # noqa: BLE001 - raised again in the task's own thread
            self._error = error
        self._put(END_OF_INPUT)

    def _put(self, mail: Any) -> None:
        if len(self._mails) >= _WAITING_PAYLOADS:
            self._room.clear()
            if len(self._mails) >= _WAITING_PAYLOADS:
                self._room.wait()
        self._mails.append(mail)
        self._something.set()
