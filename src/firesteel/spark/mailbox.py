"""What waits for a task: payloads from Spark, control messages, and a way to be woken.

`Mailbox` is what the loop of a task knows. `SocketMailbox` reads payloads in the loop itself, from the socket that Spark
writes to. Where a task has only PySpark's iterator over batches, a thread has to read it: `ThreadedMailbox`. Both stop reading
when enough is waiting, so that back pressure reaches the stage before.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from firesteel.common._override import override
from firesteel.plan.messages import MasterMessage
from firesteel.spark.worker_socket import WorkerSocket

__all__ = ["END_OF_INPUT", "Mailbox", "SocketMailbox", "ThreadedMailbox"]

_WAITING_PAYLOADS = 16
_WAKES_AT_ONCE = 1024

END_OF_INPUT = object()


class Mailbox(ABC):
    """One consumer (the task's loop), several producers."""

    def __init__(self) -> None:
        self._mails: deque[Any] = deque()
        self.control: deque[MasterMessage] = deque()

    @abstractmethod
    def begin(self) -> None:
        """Payloads are wanted from now on."""

    @abstractmethod
    def pop(self) -> Any | None:
        """The next payload or END_OF_INPUT; None when there is none."""

    @abstractmethod
    def empty(self) -> bool:
        """Whether no payload waits."""

    def pop_control(self) -> MasterMessage:
        """The oldest control message; there must be one."""
        return self.control.popleft()

    def put_control(self, message: MasterMessage) -> None:
        """Deliver a control message, and wake the consumer; may be called by any thread."""
        self.control.append(message)
        self.wake()

    @abstractmethod
    def wake(self) -> None:
        """End the consumer's wait; may be called by any thread."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Wait until something arrives or the time is over."""

    @abstractmethod
    def nap(self, seconds: float) -> None:
        """Wait until somebody wakes the consumer or a message comes; payloads that are there already do not count."""


class SocketMailbox(Mailbox):
    """Reads when the loop asks: no other thread has to get hold of the interpreter before a payload is processed."""

    def __init__(self, spark: WorkerSocket) -> None:
        super().__init__()
        self._spark = spark
        self._is_open = False
        self._woken, self._wakes = socket.socketpair()
        for end in (self._woken, self._wakes):
            end.setblocking(False)

    @override
    def begin(self) -> None:
        self._is_open = True

    @override
    def pop(self) -> Any | None:
        return None if self.empty() else self._mails.popleft()

    @override
    def empty(self) -> bool:
        if not self._mails and self._is_open:
            self._read()
        return not self._mails

    def _read(self) -> None:
        self._mails.extend(self._spark.receive())
        if self._spark.input_is_over:
            self._is_open = False
            self._mails.append(END_OF_INPUT)

    @override
    def wake(self) -> None:
        with suppress(OSError):  # then the consumer has been woken often enough, or is gone
            self._wakes.send(b"!")

    @override
    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while seconds > 0 and not self.control and self.empty():
            # What is readable may be the beginning of the stream, without any payload.
            if not self._select(seconds, self._is_open):
                return
            seconds = deadline - time.monotonic()

    @override
    def nap(self, seconds: float) -> None:
        self._select(seconds, with_payloads=False)

    def close(self) -> None:
        """The task is over; waking it does nothing any more."""
        self._woken.close()
        self._wakes.close()

    def _select(self, seconds: float, with_payloads: bool) -> bool:
        """Whether only Spark has something to tell."""
        watched: list[socket.socket | WorkerSocket] = [self._woken]
        if with_payloads:
            watched.append(self._spark)
        readable, _, _ = select.select(watched, [], [], seconds)
        if self._woken in readable:
            self._woken.recv(_WAKES_AT_ONCE)
            return False
        return bool(readable)


class ThreadedMailbox(Mailbox):
    """A thread reads Spark's batches."""

    def __init__(self, batches: Iterator[Any]) -> None:
        super().__init__()
        self._batches = batches
        self._something = threading.Event()
        self._room = threading.Event()
        self._error: BaseException | None = None

    @override
    def begin(self) -> None:
        threading.Thread(target=self._read, name="firesteel-reader", daemon=True).start()

    @override
    def pop(self) -> Any | None:
        if not self._mails:
            return None
        mail = self._mails.popleft()
        if len(self._mails) < _WAITING_PAYLOADS and not self._room.is_set():
            self._room.set()
        if self._error is not None and mail is END_OF_INPUT:
            raise self._error
        return mail

    @override
    def empty(self) -> bool:
        return not self._mails

    @override
    def wake(self) -> None:
        self._something.set()

    @override
    def wait(self, seconds: float) -> None:
        # Cleared before the look: whatever arrives after it sets the event again.
        if seconds > 0 and not self._mails and not self.control:
            self._something.wait(seconds)
        self._something.clear()

    @override
    def nap(self, seconds: float) -> None:
        self._something.wait(seconds)
        self._something.clear()

    def _read(self) -> None:
        try:
            for batch in self._batches:
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
