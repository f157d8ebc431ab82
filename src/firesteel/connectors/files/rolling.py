"""When a part file is full, old or idle enough to be closed, and how part files are named."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from firesteel.common._override import override
from firesteel.common.errors import ProgramError


class PartFileInfo(Protocol):
    """What a policy may ask about an open part file; times in milliseconds."""

    @property
    def bucket_id(self) -> str:
        """The bucket it is in."""
        ...

    @property
    def created(self) -> int:
        """When it was begun."""
        ...

    @property
    def updated(self) -> int:
        """When the last record was written."""
        ...

    @property
    def size(self) -> int:
        """How many bytes were written."""
        ...


class RollingPolicy(ABC):
    """Decides when a part file is closed and the next one begun."""

    @abstractmethod
    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Whether to close it at a checkpoint."""

    @abstractmethod
    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        """Whether to close it before a record is written."""

    @abstractmethod
    def should_roll_on_processing_time(self, part: PartFileInfo, current_time: int) -> bool:
        """Whether to close it at a time, in milliseconds."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """Close a file when it is too large, too old, or was not written to for too long (milliseconds)."""
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Close files at every checkpoint, and only then."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """By size, age and inactivity."""

    part_size: int = 1024 * 1024 * 128
    rollover_interval: int = 60 * 1000
    inactivity_interval: int = 60 * 1000

    def __post_init__(self) -> None:
        for name in ("part_size", "rollover_interval", "inactivity_interval"):
            if getattr(self, name) <= 0:
                raise ProgramError(f"{name} of a rolling policy must be above 0, got {getattr(self, name)}")

    @override
    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """When it is too large."""
        return part.size > self.part_size

    @override
    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        """When it is too large."""
        return part.size > self.part_size

    @override
    def should_roll_on_processing_time(self, part: PartFileInfo, current_time: int) -> bool:
        """When it is too old or was idle for too long."""
        is_old = current_time - part.created >= self.rollover_interval
        return is_old or current_time - part.updated >= self.inactivity_interval


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """At checkpoints only; bulk formats allow nothing else."""

    @override
    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        return True

    @override
    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        return False

    @override
    def should_roll_on_processing_time(self, part: PartFileInfo, current_time: int) -> bool:
        return False


@dataclass(frozen=True)
class OutputFileConfig:
    """How part files are named: ``<prefix>-<unique>-<subtask>-<number><suffix>``.

    What is unique is new for every subtask of every attempt of every job: any number of sinks can share a directory.

    >>> OutputFileConfig("out", ".txt").get_part_suffix()
    '.txt'
    """

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        for text in (self.part_prefix, self.part_suffix):
            if "/" in text:
                raise ProgramError(f"the name of a part file must not contain '/', got {text!r}")

    def get_part_prefix(self) -> str:
        """What names begin with."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """What names end with."""
        return self.part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Build one step by step."""
        return OutputFileConfig.OutputFileConfigBuilder()

    class OutputFileConfigBuilder:
        """Collects how names of part files begin and end: with ``part`` and nothing, unless told."""

        def __init__(self) -> None:
            self._prefix = "part"
            self._suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Choose what names begin with."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Choose what names end with."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration; a ``/`` in a name is refused."""
            return OutputFileConfig(self._prefix, self._suffix)
