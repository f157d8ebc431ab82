"""Where state lives while a job runs."""

from __future__ import annotations

from abc import ABC
from enum import Enum

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError, short_repr

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "StateBackend",
]


class PredefinedOptions(Enum):
    """Tuning of Flink's RocksDB for kinds of disks; accepted as a hint."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class StateBackend(ABC):  # noqa: B024 - a marker, as in Flink
    """Base of the backends."""

    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        raise ProgramError(f"{type(self).__name__} is not a backend that Firesteel has")


class HashMapStateBackend(StateBackend):
    """Live objects in the task's memory: the fastest, and as large as memory."""

    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        return Configuration().set(options.STATE_BACKEND, "hashmap")

    def __str__(self) -> str:
        return "HashMapStateBackend"


class EmbeddedRocksDBStateBackend(StateBackend):
    """State on the local disk of the task: as large as the disk.

    The name and the settings are Flink's; the engine behind it is Firesteel's disk backend.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise ProgramError(
                "enable_incremental_checkpointing must be True, False or None, "
                f"got {short_repr(enable_incremental_checkpointing)}"
            )
        self._incremental = bool(enable_incremental_checkpointing)
        self._paths: list[str] | None = None
        self._predefined_options = PredefinedOptions.DEFAULT
        self._options_factory: str | None = None
        self._transfer_threads = 4

    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        chosen = Configuration().set(options.STATE_BACKEND, "rocksdb")
        if self._incremental:
            chosen.set(options.CHECKPOINTING_INCREMENTAL, True)
        return chosen

    def set_db_storage_paths(self, *paths: str) -> None:
        """Directories for the state; none for the task's temporary directory."""
        self._paths = [_local_path(path) for path in paths] or None

    def get_db_storage_paths(self) -> list[str] | None:
        """The directories, None when they were not set."""
        return self._paths

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether checkpoints hold only what changed."""
        return self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Choose the tuning."""
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """The tuning chosen."""
        return self._predefined_options

    def set_options(self, options_factory_class_name: str) -> None:
        """Name a Java class with more tuning; kept, but nothing here runs it."""
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """The name of that class, None when it was not set."""
        return self._options_factory

    def get_number_of_transfer_threads(self) -> int:
        """How many files are copied at once."""
        return self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set how many files are copied at once; more than 0."""
        if number_of_transfering_threads < 1:
            raise ProgramError(f"transfer threads must be at least 1, got {number_of_transfering_threads}")
        self._transfer_threads = number_of_transfering_threads

    def __str__(self) -> str:
        return f"EmbeddedRocksDBStateBackend(incremental={self._incremental}, paths={self._paths})"


class CustomStateBackend(StateBackend):
    """A backend that Firesteel does not know."""

    def __init__(self, backend: object) -> None:
        self._backend = backend


def _local_path(path: str) -> str:
    """``file://host/x/`` as ``/x``; anything that is not a local directory is refused."""
    if "://" not in path and not path.startswith("file:"):
        if not path.startswith("/"):
            raise ProgramError(f"state must be kept under an absolute path, got {path!r}")
        return path
    from urllib.parse import urlparse  # imported late: few programs need it

    parts = urlparse(path)
    if parts.scheme != "file":
        raise ProgramError(f"state must be kept on a local disk, got {path!r}")
    return parts.path.rstrip("/") or "/"
