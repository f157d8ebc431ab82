"""The receiving ends of channels: what waits on each of them, and which one is read next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from typing import Any, Protocol

from firesteel.plan.job_plan import EdgePlan
from firesteel.runtime.inputs.payload_queue import PayloadQueue, PayloadSpace
from firesteel.runtime.operator import Timestamps

__all__ = ["InputChannel", "OpenChannels", "ReceiveSome", "Rest", "Turns"]

#: Takes a batch, or the beginning of it: returns how many records are left at its end.
ReceiveSome = Callable[[list[Any], Timestamps], int]

#: What is left of a chunk: its values, its timestamps, and where in them to begin.
Rest = tuple[list[Any], Timestamps, int]


class InputChannel:
    """One sender of one edge, as one subtask sees it. Channels of a subtask are numbered from 0."""

    __slots__ = ("edge", "ended", "expected", "has_turn", "number", "payloads", "receive", "rest", "sender")

    def __init__(
        self, edge: EdgePlan, sender: int, number: int, receive: ReceiveSome, space: PayloadSpace
    ) -> None:
        self.edge = edge
        self.sender = sender
        self.number = number
        #: Where the records of its chunks go.
        self.receive = receive
        #: The sequence number of the next payload to be read.
        self.expected = 0
        self.ended = False
        #: What comes next on it, before the payloads that wait.
        self.rest: Rest | None = None
        self.payloads = PayloadQueue(space)
        #: Whether it stands in line to be read.
        self.has_turn = False


class Turns(Protocol):
    """Channels in line. A channel has one turn: one payload, or what is left of one, and then it has to be added again."""

    @property
    def may_read(self) -> bool:
        """Whether `next` may find a channel; runs no code of the user's."""
        ...

    @property
    def has_rest(self) -> bool:
        """Whether what is left of a chunk comes next, because the time for its last slice was over."""
        ...

    def add(self, channel: InputChannel) -> None:
        """Something waits on a channel."""
        ...

    def next(self) -> InputChannel | None:
        """The channel to be read now; None when all that waits has to wait longer."""
        ...


class OpenChannels:
    """One payload of each channel in turn, as in Flink; what is left of a chunk is read before anything else.

    ``closed`` are the numbers of the channels that are not to be read. Whoever opens some adds them again.
    """

    def __init__(self, closed: Set[int]) -> None:
        self._closed = closed
        self._line: deque[InputChannel] = deque()

    @property
    def may_read(self) -> bool:
        """Whether a channel is in line."""
        return bool(self._line)

    @property
    def has_rest(self) -> bool:
        """Whether the first one has it."""
        return bool(self._line) and self._line[0].rest is not None

    def add(self, channel: InputChannel) -> None:
        """At the end of the line, or at its beginning with what is left of a chunk; closed ones stay out of it."""
        if channel.has_turn or channel.number in self._closed:
            return
        channel.has_turn = True
        if channel.rest is None:
            self._line.append(channel)
        else:
            self._line.appendleft(channel)

    def next(self) -> InputChannel | None:
        """Take the first channel out of the line; None when it is empty."""
        if not self._line:
            return None
        channel = self._line.popleft()
        channel.has_turn = False
        return channel
