"""Settings of checkpoints: a view on the options of an environment."""

from __future__ import annotations

import warnings

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError
from firesteel.common.time import Duration
from firesteel.datastream._user_functions import wrong_argument
from firesteel.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from firesteel.datastream.checkpointing_mode import CheckpointingMode
from firesteel.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]

_ALL_FAILURES = 2**31 - 1


class CheckpointConfig:
    """How often checkpoints are taken and what they guarantee.

    >>> config = CheckpointConfig().set_checkpoint_timeout(60000)
    >>> config.get_checkpoint_timeout(), config.get_checkpoint_interval(), config.is_checkpointing_enabled()
    (60000, -1, False)
    """

    # Names of Flink 1.x.
    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._options = Configuration() if configuration is None else configuration
        self._storage: CheckpointStorage | None = None

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What a checkpoint guarantees."""
        return CheckpointingMode[self._options.get(options.CHECKPOINTING_MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Choose what a checkpoint guarantees."""
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise wrong_argument("set_checkpointing_mode()", "a CheckpointingMode", checkpointing_mode)
        self._options.set(options.CHECKPOINTING_MODE, checkpointing_mode.name)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between checkpoints; -1 for no checkpoints."""
        interval = self._options.get(options.CHECKPOINTING_INTERVAL)
        return -1 if interval is None else interval.to_millis()

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the milliseconds between checkpoints; at least 10."""
        _check_number("set_checkpoint_interval()", "milliseconds", checkpoint_interval)
        if checkpoint_interval < 10:
            raise ProgramError(f"the checkpoint interval must be at least 10 ms, got {checkpoint_interval}")
        self._options.set(options.CHECKPOINTING_INTERVAL, Duration.of_millis(checkpoint_interval))
        return self

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which a checkpoint is aborted."""
        return self._options.get(options.CHECKPOINTING_TIMEOUT).to_millis()

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the milliseconds after which a checkpoint is aborted; at least 10."""
        _check_number("set_checkpoint_timeout()", "milliseconds", checkpoint_timeout)
        if checkpoint_timeout < 10:
            raise ProgramError(f"the checkpoint timeout must be at least 10 ms, got {checkpoint_timeout}")
        self._options.set(options.CHECKPOINTING_TIMEOUT, Duration.of_millis(checkpoint_timeout))
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """Least milliseconds between the end of one checkpoint and the start of the next."""
        return self._options.get(options.CHECKPOINTING_MIN_PAUSE).to_millis()

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the least pause; not negative."""
        _check_number("set_min_pause_between_checkpoints()", "milliseconds", min_pause_between_checkpoints)
        if min_pause_between_checkpoints < 0:
            raise ProgramError(f"the pause must not be negative, got {min_pause_between_checkpoints}")
        self._options.set(options.CHECKPOINTING_MIN_PAUSE, Duration.of_millis(min_pause_between_checkpoints))
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at once."""
        return self._options.get(options.CHECKPOINTING_MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be under way at once; at least 1."""
        _check_number("set_max_concurrent_checkpoints()", "a whole number", max_concurrent_checkpoints)
        if max_concurrent_checkpoints < 1:
            raise ProgramError(
                f"at least 1 checkpoint must be allowed at once, got {max_concurrent_checkpoints}"
            )
        self._options.set(options.CHECKPOINTING_MAX_CONCURRENT, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Let the first failed checkpoint fail the job, or none."""
        return self.set_tolerable_checkpoint_failure_number(
            0 if fail_on_checkpointing_errors else _ALL_FAILURES
        )

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many failures in a row are tolerated."""
        return self._options.get(options.CHECKPOINTING_TOLERABLE_FAILURES)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many failures in a row are tolerated; not negative."""
        _check_number(
            "set_tolerable_checkpoint_failure_number()", "a whole number", tolerable_checkpoint_failure_number
        )
        if tolerable_checkpoint_failure_number < 0:
            raise ProgramError(
                f"tolerable failures must not be negative, got {tolerable_checkpoint_failure_number}"
            )
        self._options.set(options.CHECKPOINTING_TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Choose what becomes of checkpoints when the job is cancelled."""
        if not isinstance(retention_mode, ExternalizedCheckpointRetention):
            raise wrong_argument(
                "set_externalized_checkpoint_retention()",
                "an ExternalizedCheckpointRetention",
                retention_mode,
            )
        self._options.set(options.CHECKPOINTING_RETENTION, retention_mode.name)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether checkpoints outlive the job's coordinator."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What becomes of checkpoints when the job is cancelled."""
        return ExternalizedCheckpointRetention[self._options.get(options.CHECKPOINTING_RETENTION)]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records."""
        return self._options.get(options.CHECKPOINTING_UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records."""
        self._options.set(options.CHECKPOINTING_UNALIGNED, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Keep barriers in line."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set how long barriers wait before they overtake."""
        if not isinstance(alignment_timeout, Duration):
            raise wrong_argument("set_aligned_checkpoint_timeout()", "a Duration", alignment_timeout)
        self._options.set(options.CHECKPOINTING_ALIGNED_TIMEOUT, alignment_timeout)
        return self

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """How long barriers wait before they overtake."""
        return self._options.get(options.CHECKPOINTING_ALIGNED_TIMEOUT)

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Older name of `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Older name of `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Let barriers overtake even where Flink would not."""
        self._options.set(options.CHECKPOINTING_FORCE_UNALIGNED, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether barriers overtake even where Flink would not."""
        return self._options.get(options.CHECKPOINTING_FORCE_UNALIGNED)

    # Names of Flink 1.x -----------------------------------------------------------------------------

    def set_prefer_checkpoint_for_recovery(
        self, prefer_checkpoint_for_recovery: bool = True
    ) -> CheckpointConfig:
        """Warn that there is no such choice any more, as in Flink since 1.14."""
        warnings.warn(
            "set_prefer_checkpoint_for_recovery() has no effect: this choice is not the program's any more",
            stacklevel=2,
        )
        return self

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Choose where checkpoints are kept."""
        if isinstance(storage, FileSystemCheckpointStorage):
            self._options.set(options.CHECKPOINTING_STORAGE, "filesystem")
            self._options.set(options.CHECKPOINTING_DIR, storage.get_checkpoint_path())
        elif isinstance(storage, JobManagerCheckpointStorage):
            self._options.set(options.CHECKPOINTING_STORAGE, "jobmanager")
            self._options.set(options.CHECKPOINTING_MEMORY_LIMIT, storage.get_max_state_size())
        else:
            remedy = "use set_checkpoint_storage_dir() for a directory" if isinstance(storage, str) else ""
            raise wrong_argument(
                "set_checkpoint_storage()",
                "a FileSystemCheckpointStorage or a JobManagerCheckpointStorage",
                storage,
                remedy,
            )
        self._storage = storage
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Keep checkpoints in a directory."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Where checkpoints are kept; None when nobody has said."""
        if self._storage is None:
            directory = self._options.get(options.CHECKPOINTING_DIR)
            return FileSystemCheckpointStorage(directory) if directory else None
        return self._storage

    def enable_externalized_checkpoints(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Older name of `set_externalized_checkpoint_retention`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def set_externalized_checkpoint_cleanup(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Older name of `set_externalized_checkpoint_retention`."""
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointRetention:
        """Older name of `get_externalized_checkpoint_retention`."""
        return self.get_externalized_checkpoint_retention()


def _check_number(setter: str, expected: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_argument(setter, expected, value)


#: Name of Flink 1.x.
ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
