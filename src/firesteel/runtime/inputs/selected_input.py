"""Input of an operator that chooses which of its two inputs is read next, record by record.

Everything that arrives waits on its channel, and the operator says whose turn it is. A chunk is read one record at a
time, because the choice may change behind each of them: what is left of it waits as well. When the chosen input has
ended, the other one is read, so that the job can end.

Both inputs arrive in one stream, so what is not wanted yet has to be taken in to get at what is; the task takes in
nothing while there is something that it may read, and fails when more waits than it is allowed to keep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from firesteel.contracts.stream_operators import InputSelection
from firesteel.runtime.inputs.channels import InputChannel

__all__ = ["SelectedInput"]

_WANTED = {InputSelection.FIRST: (0,), InputSelection.SECOND: (1,), InputSelection.ALL: (0, 1)}


class SelectedInput:
    """The turns of channels by the operator's choice; a pure machine.

    ``ask`` gives the choice, ``channels`` counts the channels of each input that have not ended.
    """

    def __init__(self, ask: Callable[[], InputSelection], channels: tuple[int, int]) -> None:
        self._ask = ask
        self._open = list(channels)
        self._lines: tuple[deque[InputChannel], ...] = (deque(), deque())
        self._wanted: tuple[int, ...] | None = None  # None: to be asked
        self._last = 1

    @property
    def may_read(self) -> bool:
        """Whether `next` may find something; asks nobody, so that user code runs in `next` only."""
        if self._wanted is None:
            return any(self._lines)
        return self._choose(self._wanted) is not None

    @property
    def has_rest(self) -> bool:
        """False: one record after the other has its turn."""
        return False

    def add(self, channel: InputChannel) -> None:
        """Something waits on a channel."""
        if not channel.has_turn:
            channel.has_turn = True
            self._lines[channel.edge.input_index].append(channel)

    def next(self) -> InputChannel | None:
        """A channel of the input that the operator wants; None when it wants the other one, on which nothing waits."""
        if self._wanted is None:
            if not any(self._lines):
                return None
            self._wanted = _WANTED[self._ask()]
        index = self._choose(self._wanted)
        if index is None:
            return None
        self._last = index
        self._wanted = None  # what is read now may change it
        channel = self._lines[index].popleft()
        channel.has_turn = False
        return channel

    def channel_ended(self, index: int) -> None:
        """One more channel of an input has been read to its end."""
        self._open[index] -= 1

    def ask_again(self) -> None:
        """Something has happened that may have changed the operator's choice."""
        self._wanted = None

    def _choose(self, wanted: tuple[int, ...]) -> int | None:
        lines, other = self._lines, 1 - self._last  # in turns when both are wanted
        if lines[other] and other in wanted:
            return other
        if lines[self._last] and self._last in wanted:
            return self._last
        if any(self._open[index] for index in wanted):
            return None
        return other if lines[other] else self._last if lines[self._last] else None
