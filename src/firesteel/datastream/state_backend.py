"""Where state lives while a job runs."""

from __future__ import annotations

from enum import Enum
from typing import Any

from firesteel.common import options
from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError, short_repr
from firesteel.contracts.state_backend import (
    StateBackend,
    StateStore,
    StateStoreContext,
    qualified_name,
    store_opener,
)
from firesteel.datastream.checkpoint_storage import FileSystemCheckpointStorage, JobManagerCheckpointStorage

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
    "StateStore",
    "StateStoreContext",
]


class PredefinedOptions(Enum):
    """Tuning of Flink's RocksDB for kinds of disks; accepted as a hint."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class HashMapStateBackend(StateBackend):
    """Live objects in the task's memory: the fastest, and as large as memory."""

    @override
    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        return Configuration().set(options.STATE_BACKEND, "hashmap")

    @override
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
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] | None = None
        self._predefined_options = PredefinedOptions.DEFAULT
        self._options_factory: str | None = None
        self._transfer_threads = 4

    @override
    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        chosen = Configuration().set(options.STATE_BACKEND, "rocksdb")
        if self._incremental is not None:
            chosen.set(options.CHECKPOINTING_INCREMENTAL, self._incremental)
        if self._paths is not None:
            chosen.set(options.STATE_DISK_DIRS, ",".join(self._paths))
        return chosen

    def set_db_storage_paths(self, *paths: str) -> None:
        """Directories for the state; none for the task's temporary directory."""
        self._paths = [_local_path(path).rstrip("/") or "/" for path in paths] or None

    def get_db_storage_paths(self) -> list[str] | None:
        """The directories, None when they were not set."""
        return self._paths

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether checkpoints hold only what changed."""
        return bool(self._incremental)

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

    @override
    def __str__(self) -> str:
        return f"EmbeddedRocksDBStateBackend(incremental={bool(self._incremental)}, paths={self._paths})"


class CustomStateBackend(StateBackend):
    """A backend of one's own, from a function that makes a `StateStore` of a `StateStoreContext`.

    Also the class of a store that does so when it is made, or a `StateBackend` that overrides ``open``, or the class
    of one.
    """

    def __init__(self, backend: Any) -> None:
        store_opener(backend, "CustomStateBackend()")
        self._backend = backend

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        """The store of one operator's subtask."""
        return store_opener(self._backend, "CustomStateBackend()")(context)

    def get_backend(self) -> Any:
        """What it was made from; not in PyFlink."""
        return self._backend

    @override
    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        return Configuration().set(options.STATE_BACKEND, qualified_name(self._backend))

    @override
    def __str__(self) -> str:
        return f"CustomStateBackend({qualified_name(self._backend)})"


# Names of Flink 1.x, where a backend was also a storage --------------------------------------------------


class MemoryStateBackend(HashMapStateBackend):
    """State in memory, checkpoints in the driver's memory."""

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        self._storage = JobManagerCheckpointStorage(checkpoint_path, max_state_size)
        self._savepoint_path = savepoint_path

    @override
    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        chosen = super().to_configuration().set(options.CHECKPOINTING_STORAGE, "jobmanager")
        chosen.set(options.CHECKPOINTING_MEMORY_LIMIT, self.get_max_state_size())
        return (
            chosen
            if self._savepoint_path is None
            else chosen.set(options.SAVEPOINT_DIR, self._savepoint_path)
        )

    def get_max_state_size(self) -> int:
        """The largest state of one task in bytes."""
        return self._storage.get_max_state_size()

    def get_checkpoint_path(self) -> str | None:
        """Where metadata is written, None for nowhere."""
        return self._storage.get_checkpoint_path()

    def get_savepoint_path(self) -> str | None:
        """Where savepoints go by default, None when it was not set."""
        return self._savepoint_path

    def is_using_asynchronous_snapshots(self) -> bool:
        """Always: snapshots are written beside the work."""
        return True


class FsStateBackend(HashMapStateBackend):
    """State in memory, checkpoints in a directory."""

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        size = -1 if write_buffer_size is None else write_buffer_size
        self._storage = FileSystemCheckpointStorage(checkpoint_directory_uri, file_state_size_threshold, size)
        self._savepoint_path = default_savepoint_directory_uri

    @override
    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        chosen = super().to_configuration().add_all(_in_files(self._storage))
        return (
            chosen
            if self._savepoint_path is None
            else chosen.set(options.SAVEPOINT_DIR, self._savepoint_path)
        )

    def get_checkpoint_path(self) -> str:
        """The directory, or its URI; each job has one of its own in it."""
        return self._storage.get_checkpoint_path()

    def get_savepoint_path(self) -> str | None:
        """Where savepoints go by default, None when it was not set."""
        return self._savepoint_path

    def get_min_file_size_threshold(self) -> int:
        """State smaller than this is kept with the metadata."""
        return self._storage.get_min_file_size_threshold()

    def get_write_buffer_size(self) -> int:
        """Size of the buffers state is written through."""
        return self._storage.get_write_buffer_size()

    def is_using_asynchronous_snapshots(self) -> bool:
        """Always: snapshots are written beside the work."""
        return True


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """State on disk, checkpoints in a directory."""

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
    ) -> None:
        super().__init__(enable_incremental_checkpointing)
        if checkpoint_stream_backend is None:
            if checkpoint_data_uri is None:
                raise ProgramError(
                    "RocksDBStateBackend needs checkpoint_data_uri or checkpoint_stream_backend"
                )
            checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        self._checkpoint_backend = checkpoint_stream_backend

    @override
    def to_configuration(self) -> Configuration:
        """The options that choose it; not in PyFlink."""
        kept = Configuration(self._checkpoint_backend.to_configuration())
        kept.remove_config(options.STATE_BACKEND.key)
        return super().to_configuration().add_all(kept)

    def get_checkpoint_backend(self) -> StateBackend:
        """The backend whose storage is used."""
        return self._checkpoint_backend


def _in_files(storage: FileSystemCheckpointStorage) -> Configuration:
    chosen = Configuration().set(options.CHECKPOINTING_STORAGE, "filesystem")
    return chosen.set(options.CHECKPOINTING_DIR, storage.get_checkpoint_path())


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
