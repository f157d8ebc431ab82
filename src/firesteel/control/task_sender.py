"""What the job master has to say to one task: hop 3 of a checkpoint's life.

It is a queue, and a thread that writes it to the task's connection. Whoever sends never waits for a task that
does not read: not the job master's thread, which all tasks share. A task that reads nothing for `heartbeat.timeout`, or
leaves too much waiting, has its connection cut, which makes it a lost one.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from typing import TYPE_CHECKING

from firesteel.control.channel import Channel
from firesteel.control.protocol import ALIVE, encode
from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.plan.messages import MasterMessage

if TYPE_CHECKING:
    from firesteel.control.protocol import TaskHello

__all__ = ["MAX_WAITING", "TaskSender"]

_LOG = logging.getLogger(__name__)

#: Messages that may wait for a task. They are few and small: more mean that it has not read for a long time.
MAX_WAITING = 10_000
_JOIN_SECONDS = 1.0


class TaskSender:
    """Writes messages to a channel, in order. `send` may be called from any thread."""

    def __init__(self, channel: Channel, hello: TaskHello, heartbeat: HeartbeatSettings | None) -> None:
        self._channel = channel
        self._hello = hello
        self._interval = None if heartbeat is None else heartbeat.interval
        if heartbeat is not None:
            channel.limit_sending(heartbeat.timeout)
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        self._is_over = False
        self._thread = threading.Thread(target=self._write, name="firesteel-control-sender", daemon=True)
        self._thread.start()

    def send(self, message: MasterMessage) -> None:
        """Have a message sent; to a task that is gone it goes nowhere."""
        if self._is_over:
            return
        try:
            self._waiting.put_nowait(encode(message))
        except queue.Full:
            self._cut(f"{MAX_WAITING} messages wait for it")

    def close(self) -> None:
        """The task says nothing more: end the thread, by cutting the connection if it waits for the task to read."""
        self._is_over = True
        with contextlib.suppress(queue.Full):  # when it is full the thread is not asleep
            self._waiting.put_nowait(None)
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            self._channel.abort()
            self._thread.join(_JOIN_SECONDS)

    def _write(self) -> None:
        try:
            while not self._is_over and (frame := self._next_frame()) is not None:
                self._channel.send(frame)
        except BlockingIOError:
            self._cut("it reads nothing that is sent to it")
        except (OSError, ValueError):
            self._is_over = True  # it is gone, and its disconnection on the way

    def _next_frame(self) -> bytes | None:
        try:
            return self._waiting.get(timeout=self._interval)
        except queue.Empty:
            return ALIVE

    def _cut(self, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        hello = self._hello
        _LOG.warning(
            "the connection of task %d of stage %d on %s, process %d, is cut: %s",
            hello.task.index,
            hello.task.stage,
            hello.host,
            hello.pid,
            reason,
        )
        self._channel.abort()
