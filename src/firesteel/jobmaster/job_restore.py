"""What an attempt of a job starts from: a checkpoint or savepoint as the master needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.plan.state_handles import TaskRestore


@dataclass(frozen=True, slots=True)
class JobRestore:
    """State for the tasks and, by operator id, of the sources' enumerators; ``path`` and what it is are for people."""

    tasks: TaskRestore
    enumerators: Mapping[str, bytes] = field(default_factory=dict)
    path: str = ""
    is_savepoint: bool = False

    @property
    def checkpoint_id(self) -> int:
        """The number of the checkpoint."""
        return self.tasks.checkpoint_id
