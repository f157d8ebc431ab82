"""Chooses the keyed backend that a program or its options ask for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
from firesteel.contracts.state_backend import store_opener
from firesteel.plan.shipped import Shipped
from firesteel.state.cached.custom_backend import CustomBackend, OpenedStore, opener_of_option
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.keyed_backend import KeyedBackend

__all__ = ["backend_name", "check_backend", "create_backend"]

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
    configuration: Configuration,
    clock: Callable[[], float] = time.time,
    operator: str = "",
    subtask: int = 0,
    program_backend: Shipped | None = None,
) -> KeyedBackend:
    """The keyed state of one operator's subtask; ``operator`` is the name that errors mention.

    ``program_backend`` is one with a store of the user's that the program has set; it wins over the configuration.
    """
    options: dict[str, Any] = {
        "incremental": configuration.get(CHECKPOINTING_INCREMENTAL),
        "max_deltas": configuration.get(STATE_MAX_DELTAS),
        "operator": operator,
    }
    name = "" if program_backend is not None else backend_name(configuration)
    if name == "hashmap":
        return HashMapBackend(clock, **options)
    directory = _directory(configuration, subtask)
    options |= {
        "cache_bytes": configuration.get(STATE_DISK_CACHE_SIZE),
        "cache_entries": configuration.get(STATE_DISK_CACHE_ENTRIES),
    }
    if name == "disk":
        # Only jobs that want it need LMDB.
        from firesteel.state.cached.disk_backend import DiskBackend

        return DiskBackend(clock, directory=directory, **options)
    if program_backend is not None:
        name = program_backend.description
        opener = store_opener(program_backend.load(), "set_state_backend()")
    else:
        opener = opener_of_option(name)
    store = OpenedStore(
        opener, name, operator=operator, subtask=subtask, configuration=configuration, parent=directory
    )
    return CustomBackend(store, clock, **options)


def check_backend(configuration: Configuration) -> None:
    """Refuse what is no backend, before anything starts."""
    name = backend_name(configuration)
    if ":" in name:
        opener_of_option(name)


def backend_name(configuration: Configuration) -> str:
    """``hashmap`` or ``disk``, whatever it is called in the configuration; or ``module:attribute`` of another one."""
    configured = configuration.get(STATE_BACKEND)
    if ":" in configured:
        return configured
    name = _NAMES.get(configured.rsplit(".", 1)[-1].lower().removesuffix("factory"))
    if name is None:
        raise InvalidOptionError(
            f"{STATE_BACKEND.key!r} is {configured!r}, expected hashmap or disk (also: {', '.join(_NAMES)}), "
            "or 'module:attribute' naming a backend of your own"
        )
    return name


def _directory(configuration: Configuration, subtask: int) -> str | None:
    """One of the configured directories; the subtasks take turns."""
    configured = configuration.get(STATE_DISK_DIRS) or configuration.get(TMP_DIRS)
    directories = [name.strip() for name in (configured or "").split(",") if name.strip()]
    return directories[subtask % len(directories)] if directories else None
