"""A source that does exactly what a script says: batches, pauses, watermarks, idleness, errors.

>>> source = ScriptedSource([Emit([1, 2]), Pause(5.0), Emit([3], timestamps=[1000]), EmitWatermark(1000)])
>>> source.max_subtasks is None
True
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from firesteel.common._override import override
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext

__all__ = [
    "AddSplits",
    "Emit",
    "EmitWatermark",
    "EndSplit",
    "Fail",
    "GoIdle",
    "Pause",
    "ScriptPosition",
    "ScriptedSource",
    "Step",
    "WaitForCheckpoint",
    "WaitForever",
]


@dataclass(frozen=True, slots=True)
class Emit:
    """Records that are there together; the task may take them in several batches."""

    values: Sequence[Any]
    timestamps: Sequence[int | None] | None = None
    split: Hashable = None


@dataclass(frozen=True, slots=True)
class AddSplits:
    """The reader has new splits."""

    splits: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class EndSplit:
    """One of the reader's splits has ended."""

    split: Hashable


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing for some seconds of the job's clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class EmitWatermark:
    """No record at or before ``timestamp`` follows."""

    timestamp: int
    split: Hashable = None


@dataclass(frozen=True, slots=True)
class GoIdle:
    """Takes no part in event time until the next record."""

    split: Hashable = None


@dataclass(frozen=True, slots=True)
class Fail:
    """Raise in the task."""

    error: Exception


@dataclass(frozen=True, slots=True)
class WaitForCheckpoint:
    """Nothing before a checkpoint is complete that was taken at this step."""


@dataclass(frozen=True, slots=True)
class WaitForever:
    """Nothing more, but no end either; only `stop` ends it."""


Step = Emit | AddSplits | EndSplit | Pause | EmitWatermark | GoIdle | Fail | WaitForCheckpoint | WaitForever


class ScriptedSource(Source):
    """Plays scripts: subtask i of n plays scripts i, i + n, i + 2n ... one after the other."""

    def __init__(self, *scripts: Sequence[Step], boundedness: Boundedness = Boundedness.BOUNDED) -> None:
        self._scripts = [list(script) for script in scripts]
        self._boundedness = boundedness

    @property
    @override
    def boundedness(self) -> Boundedness:
        return self._boundedness

    @override
    def splits_of(self, subtask: int, parallelism: int) -> list[ScriptPosition]:
        """The beginnings of the subtask's scripts."""
        return [ScriptPosition(index) for index in range(subtask, len(self._scripts), parallelism)]

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The player of one subtask."""
        return _Player(self._scripts, context)


@dataclass(frozen=True, slots=True)
class ScriptPosition:
    """How far a script has been played: how many steps, and how many records of the next one."""

    script: int
    step: int = 0
    offset: int = 0


class _Player(SourceReader):
    def __init__(self, scripts: list[list[Step]], context: SourceReaderContext) -> None:
        self._scripts = scripts
        self._now = context.now
        self._waiting: list[ScriptPosition] = []
        self._script = -1
        self._steps: list[Step] = []
        self._position = 0
        self._offset = 0  # within the records of the current Emit
        self._stopped = False
        self._wake = context.wake
        self._awaited: int | None = None  # the first checkpoint that was taken while this one waits
        self._until = -math.inf  # the end of a pause: who asks earlier gets nothing

    @override
    def add_splits(self, splits: Sequence[ScriptPosition]) -> None:
        self._waiting.extend(splits)

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._awaited is not None and checkpoint_id >= self._awaited:
            self._awaited = None
            self._position += 1
            self._wake()

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[ScriptPosition]:
        if self._position >= len(self._steps):
            return list(self._waiting)
        if isinstance(self._steps[self._position], WaitForCheckpoint) and self._awaited is None:
            self._awaited = checkpoint_id
        return [ScriptPosition(self._script, self._position, self._offset), *self._waiting]

    def _next_script(self) -> None:
        while self._position >= len(self._steps) and self._waiting:
            begun = self._waiting.pop(0)
            self._script, self._steps = begun.script, self._scripts[begun.script]
            self._position, self._offset = begun.step, begun.offset

    @override
    def poll(self, limit: int) -> Polled:
        if self._now() < self._until:
            return Polled([], retry_at=self._until)
        self._next_script()
        if self._stopped or self._position >= len(self._steps):
            return Polled([], ended=True)
        step = self._steps[self._position]
        if isinstance(step, Emit):
            return self._emit(step, limit)
        if isinstance(step, WaitForever | WaitForCheckpoint):
            return Polled([], retry_at=math.inf)
        self._position += 1
        return self._signal(step)

    def _emit(self, step: Emit, limit: int) -> Polled:
        piece = slice(self._offset, self._offset + limit)
        self._offset += limit
        if self._offset >= len(step.values):
            self._position += 1
            self._offset = 0
        timestamps = None if step.timestamps is None else list(step.timestamps[piece])
        return Polled(list(step.values[piece]), timestamps, split=step.split)

    def _signal(self, step: AddSplits | EndSplit | Pause | EmitWatermark | GoIdle | Fail) -> Polled:
        match step:
            case AddSplits(splits):
                return Polled([], splits_added=splits)
            case EndSplit(split):
                return Polled([], splits_ended=(split,))
            case Pause(seconds):
                self._until = self._now() + seconds
                return Polled([], retry_at=self._until)
            case EmitWatermark(timestamp, split):
                return Polled([], watermark=timestamp, split=split)
            case GoIdle(split):
                return Polled([], idle=True, split=split)
            case Fail(error):
                raise error

    @override
    def stop(self) -> None:
        self._stopped = True
        self._until = -math.inf
