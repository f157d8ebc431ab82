"""How a job takes checkpoints, read from its options once, checked and typed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from firesteel.checkpoint.storage import absolute
from firesteel.common import options
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.plan.operator_specs import RuntimeMode

#: Interval and time-out may not be shorter than this, in seconds; as in Flink.
_SHORTEST = 0.01


class Retention(enum.Enum):
    """Whose checkpoints stay when a job ends without having finished; those of finished jobs always go."""

    #: Those of failed jobs.
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    #: The same, said explicitly.
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    #: Those of cancelled jobs, too.
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Times are in seconds; ``interval`` None: there are only savepoints, when somebody wants one.

    ``directory`` and ``savepoint_directory`` are absolute paths or URIs; without the first, state is kept in the
    master's memory. ``history_size``: how many checkpoints of any status the statistics remember.
    """

    interval: float | None
    timeout: float = 600.0
    min_pause: float = 0.0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    num_retained: int = 1
    retention: Retention = Retention.NO_EXTERNALIZED_CHECKPOINTS
    directory: str | None = None
    savepoint_directory: str | None = None
    incremental: bool = False
    history_size: int = 10

    @property
    def concurrent(self) -> int:
        """How many may be under way at once: a pause between two of them means one at a time."""
        return 1 if self.min_pause > 0 else self.max_concurrent


def savepoint_settings(configuration: Configuration) -> CheckpointSettings:
    """The settings of a streaming job that takes no checkpoints by itself."""
    return CheckpointSettings(
        interval=None,
        timeout=_at_least(configuration, options.CHECKPOINTING_TIMEOUT, _SHORTEST),
        savepoint_directory=_savepoint_directory(configuration),
        history_size=_count(configuration, options.CHECKPOINTS_HISTORY_SIZE, 0),
    )


def read_checkpoint_settings(configuration: Configuration, mode: RuntimeMode) -> CheckpointSettings | None:
    """The settings; None when tasks take no part in checkpoints.

    They do in STREAMING mode when an interval is set. In BATCH mode options about checkpoints mean nothing, as in
    Flink.
    """
    get = configuration.get
    interval = _interval(configuration)
    if mode is RuntimeMode.BATCH or interval is None:
        return None
    return CheckpointSettings(
        interval=interval,
        timeout=_at_least(configuration, options.CHECKPOINTING_TIMEOUT, _SHORTEST),
        min_pause=_at_least(configuration, options.CHECKPOINTING_MIN_PAUSE, 0.0),
        max_concurrent=_count(configuration, options.CHECKPOINTING_MAX_CONCURRENT, 1),
        tolerable_failures=_count(configuration, options.CHECKPOINTING_TOLERABLE_FAILURES, 0),
        num_retained=_count(configuration, options.CHECKPOINTING_NUM_RETAINED, 1),
        retention=Retention(get(options.CHECKPOINTING_RETENTION)),
        directory=_directory(configuration),
        savepoint_directory=_savepoint_directory(configuration),
        incremental=get(options.CHECKPOINTING_INCREMENTAL),
        history_size=_count(configuration, options.CHECKPOINTS_HISTORY_SIZE, 0),
    )


def _savepoint_directory(configuration: Configuration) -> str | None:
    directory = configuration.get(options.SAVEPOINT_DIR)
    return absolute(directory) if directory else None


def _interval(configuration: Configuration) -> float | None:
    duration = configuration.get(options.CHECKPOINTING_INTERVAL)
    if duration is None or duration.to_millis() <= 0:
        return None
    if duration.to_millis() / 1000 < _SHORTEST:
        raise InvalidOptionError(
            f"option '{options.CHECKPOINTING_INTERVAL.key}': expected at least 10 ms, got {duration}"
        )
    return duration.to_millis() / 1000


def _directory(configuration: Configuration) -> str | None:
    directory = configuration.get(options.CHECKPOINTING_DIR)
    kind = (
        configuration.get(options.CHECKPOINTING_STORAGE) or ("filesystem" if directory else "jobmanager")
    ).lower()
    if kind == "jobmanager":
        return None
    if kind != "filesystem":
        raise InvalidOptionError(
            f"option '{options.CHECKPOINTING_STORAGE.key}': expected jobmanager or filesystem, got {kind!r}"
        )
    if not directory:
        raise InvalidOptionError(
            f"option '{options.CHECKPOINTING_STORAGE.key}' is filesystem, but no directory is given; "
            f"set '{options.CHECKPOINTING_DIR.key}'"
        )
    return absolute(directory)


def _at_least(configuration: Configuration, option: ConfigOption[Any], least: float) -> float:
    seconds: float = configuration.get(option).to_millis() / 1000
    if seconds < least:
        raise InvalidOptionError(f"option '{option.key}': expected at least {least} s, got {seconds} s")
    return seconds


def _count(configuration: Configuration, option: ConfigOption[int], least: int) -> int:
    count = configuration.get(option)
    if count < least:
        raise InvalidOptionError(f"option '{option.key}': expected at least {least}, got {count}")
    return count
