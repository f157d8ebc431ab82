"""Chooses the keyed backend that a job's options ask for."""

from __future__ import annotations

import time
from collections.abc import Callable

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import (
    CHECKPOINTING_INCREMENTAL,
    STATE_BACKEND,
    STATE_DISK_CACHE_ENTRIES,
    STATE_DISK_CACHE_SIZE,
    STATE_DISK_DIRS,
    STATE_MAX_DELTAS,
    TMP_DIRS,
)
from firesteel.state.hashmap_backend import HashMapBackend

__all__ = ["backend_name", "create_backend"]

#: Flink's names for its backends, old and new, as they are found in configurations and programs.
_NAMES = {
    "hashmap": "hashmap",
    "hashmapstatebackend": "hashmap",
    "jobmanager": "hashmap",
    "memorystatebackend": "hashmap",
    "filesystem": "hashmap",
    "fsstatebackend": "hashmap",
    "disk": "disk",
    "rocksdb": "disk",
    "rocksdbstatebackend": "disk",
    "embeddedrocksdbstatebackend": "disk",
}


def create_backend(
    configuration: Configuration, clock: Callable[[], float] = time.time, operator: str = "", subtask: int = 0
) -> HashMapBackend:
    """The keyed state of one operator's subtask; ``operator`` is the name that errors mention."""
    incremental = configuration.get(CHECKPOINTING_INCREMENTAL)
    max_deltas = configuration.get(STATE_MAX_DELTAS)
    if backend_name(configuration) == "hashmap":
        return HashMapBackend(clock, incremental=incremental, max_deltas=max_deltas, operator=operator)
    # Only jobs that want it need LMDB.
    from firesteel.state.disk_backend import DiskBackend

    return DiskBackend(
        clock,
        incremental=incremental,
        max_deltas=max_deltas,
        operator=operator,
        directory=_directory(configuration, subtask),
        cache_bytes=configuration.get(STATE_DISK_CACHE_SIZE),
        cache_entries=configuration.get(STATE_DISK_CACHE_ENTRIES),
    )


def backend_name(configuration: Configuration) -> str:
    """``hashmap`` or ``disk``, whatever it is called in the configuration."""
    wanted = configuration.get(STATE_BACKEND)
    found = _NAMES.get(wanted.rsplit(".", 1)[-1].lower().removesuffix("factory"))
    if found is None:
        raise InvalidOptionError(
            f"{STATE_BACKEND.key!r} is {wanted!r}, expected hashmap or disk (also: {', '.join(_NAMES)})"
        )
    return found


def _directory(configuration: Configuration, subtask: int) -> str | None:
    """One of the configured directories; the subtasks take turns."""
    configured = configuration.get(STATE_DISK_DIRS) or configuration.get(TMP_DIRS)
    directories = [each.strip() for each in (configured or "").split(",") if each.strip()]
    return directories[subtask % len(directories)] if directories else None
