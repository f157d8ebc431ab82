"""References to state in storage: what tasks acknowledge, what manifests list, what a restored task reads.

The state of one operator's subtask is a sequence of *segments*: runs of blocks in files. Keyed state is one full
segment and any number of deltas after it, to be read in this order; list states are one segment, always whole.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of blocks in one file.

    ``file`` is relative to the root of the checkpoint or savepoint. A segment of a job that keeps its checkpoints
    in the master's memory has no file; its bytes are ``inline``.
    """

    file: str
    offset: int
    length: int
    blocks: int
    checksum: int
    inline: bytes = b""


class StateMode(enum.Enum):
    """How a state is dealt out when the parallelism changes."""

    KEYED = "keyed"  # by key group
    SPLIT = "split"  # a list whose elements are dealt out evenly
    UNION = "union"  # a list that every subtask gets whole
    BROADCAST = "broadcast"  # the same in every subtask


@dataclass(frozen=True, slots=True)
class StateMeta:
    """What is known of a state without reading it: kind (``value``, ``list``, ...), type, version of its values."""

    name: str
    mode: StateMode
    kind: str
    type: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class OperatorHandle:
    """The state of one operator's subtask. ``keyed`` is a full segment and the deltas since, in order."""

    operator_id: str
    subtask: int
    keyed: tuple[Segment, ...] = ()
    lists: Segment | None = None
    states: tuple[StateMeta, ...] = ()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Those of the keyed state in their order, then that of the list states when there is one."""
        return self.keyed if self.lists is None else (*self.keyed, self.lists)


@dataclass(frozen=True, slots=True)
class OperatorRestore:
    """The state of a whole operator, as the subtasks of an earlier run left it."""

    parallelism: int
    max_parallelism: int
    subtasks: tuple[OperatorHandle, ...]


@dataclass(frozen=True, slots=True)
class TaskRestore:
    """Where an attempt starts from: ``root`` is the directory that the files of the segments are relative to.

    ``changed_program``: the state may be of another version of the program, so what nobody asks for is refused.
    ``ended_in_order``: the tasks that took it have ended with it, under the same driver, so what they had sent to the driver
    has arrived there.
    """

    checkpoint_id: int
    root: str
    operators: Mapping[str, OperatorRestore] = field(default_factory=dict)
    changed_program: bool = False
    ended_in_order: bool = False


class CheckpointKind(enum.Enum):
    """Who wants a checkpoint, and what happens after it."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"  # self-contained, in a directory of the user's; the job continues
    STOP = "stop"  # a savepoint after which the job ends; sources send nothing behind its barrier
    FINAL = "final"  # all input has been processed; what it completes is the job's end
    FINAL_SAVEPOINT = "final savepoint"  # the same, as a savepoint: stop with savepoint and drain
    RESCALE = "rescale"  # a checkpoint after which the tasks end and others take their place; sources send nothing behind it

    @property
    def is_savepoint(self) -> bool:
        """Whether it must not refer to files of other checkpoints."""
        return self in (CheckpointKind.SAVEPOINT, CheckpointKind.STOP, CheckpointKind.FINAL_SAVEPOINT)

    @property
    def ends_tasks(self) -> bool:
        """Whether the tasks end when it is complete, and with them, unless others take their place, the job."""
        return self not in (CheckpointKind.CHECKPOINT, CheckpointKind.SAVEPOINT)

    @property
    def suspends_sources(self) -> bool:
        """Whether sources send nothing behind its barrier, until they hear that it was aborted."""
        return self in (CheckpointKind.STOP, CheckpointKind.RESCALE)


@dataclass(frozen=True, slots=True)
class CheckpointOrder:
    """What the master wants: files go below ``directory`` of ``root``; both empty: state travels inline.

    ``completed`` is the newest completed checkpoint when this one began: whoever has not heard of it yet learns it
    here, so that a delta never builds on something older, which may be gone.
    """

    id: int
    timestamp: int
    kind: CheckpointKind = CheckpointKind.CHECKPOINT
    root: str = ""
    directory: str = ""
    full: bool = False
    completed: int = 0

    @property
    def wants_full(self) -> bool:
        """Whether deltas to earlier checkpoints are not allowed."""
        return self.full or self.kind.is_savepoint
