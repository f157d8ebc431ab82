"""The thread in which a Kafka reader waits for messages, so that its task never does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from firesteel.connectors.kafka.source_watch import PartitionWatch

__all__ = ["Fetcher"]

#: Of one batch; the client library fetches ahead by itself, as many bytes as its properties say.
BATCH_MESSAGES = 4096
#: Batches that wait to be taken: the task works on one, the next one is there.
WAITING_BATCHES = 2
#: How soon the thread does what it was asked to, when there are no messages.
WAIT_SECONDS = 0.05

Command = Callable[[Any], None]


class Fetcher:
    """Waits in the client and hands over whole batches; when nobody takes them, it waits for that.

    The client is the thread's alone, and whatever others want of it are commands: calls of the client from two threads at
    a time can block each other.
    """

    def __init__(self, consumer: Any, watch: PartitionWatch, wake: Callable[[], None], name: str) -> None:
        self._consumer = consumer
        self._watch = watch
        self._wake = wake
        self._commands: deque[Command] = deque()
        self._batches: deque[list[Any]] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._ends = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to wait for messages."""
        self._thread.start()

    def call(self, command: Command) -> None:
        """Have something done with the client, in the order of calls."""
        with self._changed:
            self._commands.append(command)
            self._changed.notify()

    def take(self) -> list[Any] | None:
        """The next batch, if there is one; what went wrong in the thread is raised here."""
        with self._changed:
            if self._batches:
                self._changed.notify()
                return self._batches.popleft()
        if self._error is not None:
            raise self._error
        return None

    def _run(self) -> None:
        try:
            while not self._ends:
                self._obey()
                self._fetch()
                self._watch.look(self._consumer)
            self._obey()
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody hears it
            self._error = error
            self._wake()

    def _obey(self) -> None:
        while self._commands:
            self._commands.popleft()(self._consumer)

    def _fetch(self) -> None:
        # `consume` waits until it has all that was asked for; so wait for one, and take what has come with it.
        first = self._consumer.poll(WAIT_SECONDS)
        if first is None:
            return
        batch = [first, *self._consumer.consume(BATCH_MESSAGES - 1, 0)]
        while not self._hand_over(batch):
            self._obey()

    def _hand_over(self, batch: list[Any]) -> bool:
        """Wait until there is place; False when there is something else to do meanwhile."""
        with self._changed:
            self._changed.wait_for(self._may_continue)
            if self._commands and not self._ends:
                return False
            self._batches.append(batch)
        self._wake()
        return True

    def _may_continue(self) -> bool:
        return self._ends or bool(self._commands) or len(self._batches) < WAITING_BATCHES

    def stop(self) -> None:
        """End the thread when it has done what it was asked to; afterwards the client is the caller's alone."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
