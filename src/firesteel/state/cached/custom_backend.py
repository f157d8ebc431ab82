"""Keyed state in a store that the user brings along, under a cache."""

from __future__ import annotations

import importlib
import tempfile
import uuid
from typing import Any

from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, StorageError, WrongArgumentError, short_repr
from firesteel.common.options import STATE_BACKEND
from firesteel.contracts.state_backend import OpenStore, StateStore, StateStoreContext, store_opener
from firesteel.state.cached.backend import CachedBackend
from firesteel.state.cached.custom_records import CheckedStore, CustomRecords
from firesteel.state.cached.record_store import RecordStore

__all__ = ["CustomBackend", "OpenedStore", "opener_of_option"]


class OpenedStore(CheckedStore):
    """A store of one operator's subtask, and the directory that it may have asked for.

    ``name`` is the backend's, for errors. ``parent`` is where directories are made.
    """

    def __init__(
        self,
        open_store: OpenStore,
        name: str,
        *,
        operator: str = "",
        subtask: int = 0,
        configuration: Configuration | None = None,
        parent: str | None = None,
    ) -> None:
        self._parent = parent
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._is_open = True
        context = StateStoreContext(
            operator,
            subtask,
            Configuration() if configuration is None else Configuration(configuration),
            f"firesteel-{uuid.uuid4().hex}",
            self._make_directory,
        )
        super().__init__(_opened(open_store, context, name), name, operator)

    def _make_directory(self) -> str:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(
                prefix="firesteel-state-", dir=self._parent, ignore_cleanup_errors=True
            )
        return self._directory.name

    @override
    def close(self) -> None:
        """Close the store, once, and remove its directory."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            super().close()
        finally:
            if self._directory is not None:
                self._directory.cleanup()


class CustomBackend(CachedBackend):
    """A cache over a user's store; see `CachedBackend` for the other arguments."""

    def __init__(self, store: CheckedStore, *args: Any, **options: Any) -> None:
        self._store = store
        self._spaces_open = 0
        super().__init__(*args, **options)

    @override
    def _open_records(self, space: str) -> RecordStore:
        self._spaces_open += 1
        return CustomRecords(self._store, bytes((self._spaces_open,)))

    @override
    def _close_records(self) -> None:
        self._store.close()


def _opened(open_store: OpenStore, context: StateStoreContext, name: str) -> StateStore:
    try:
        store = open_store(context)
    except Exception as error:
        error.add_note(f"raised while the state store {name} of operator {context.operator!r} was opened")
        raise
    if not isinstance(store, StateStore):
        raise StorageError(
            f"{name} must give operator {context.operator!r} a StateStore, got {short_repr(store)} "
            f"({type(store).__name__})"
        )
    return store


def opener_of_option(name: str) -> OpenStore:
    """What opens the stores of the backend that the configuration names as ``module:attribute``."""
    module_name, _, attribute = name.partition(":")
    try:
        backend: Any = importlib.import_module(module_name)
        for name_in_module in attribute.split("."):
            backend = getattr(backend, name_in_module)
        return store_opener(backend, f"{STATE_BACKEND.key!r}")
    except WrongArgumentError as error:
        raise InvalidOptionError(f"{name!r} is no state backend: {error}") from error
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidOptionError(
            f"{STATE_BACKEND.key!r} is {name!r}, expected 'module:attribute' naming a backend of your own "
            f"that the program and its tasks can import: {error}; env.add_python_file(path) ships a module"
        ) from error
