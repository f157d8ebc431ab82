"""A checkpoint or savepoint that a job can resume from: finding it by its path, checking it, disposing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from firesteel.checkpoint import layout
from firesteel.checkpoint.blocks import read_segment
from firesteel.checkpoint.manifest import Manifest
from firesteel.checkpoint.storage import Storage, join_uri, open_storage, parent_uri, shown
from firesteel.common.errors import CorruptStateError, FileMissingError, NoSuchSnapshotError, StateError
from firesteel.plan.state_handles import TaskRestore

__all__ = ["StoredCheckpoint", "dispose", "load", "retry_after_check", "verify"]

_T = TypeVar("_T")


class StoredCheckpoint(NamedTuple):
    """A manifest, and the directory that its files are relative to; ``location`` is where the manifest lies."""

    manifest: Manifest
    root: str
    location: str = ""

    def to_restore(self) -> TaskRestore:
        """What an attempt of the same program needs; `firesteel.checkpoint.matching` is for a changed one."""
        return self.manifest.to_restore(self.root)


def load(location: str, open_directory: Callable[[str], Storage] = open_storage) -> StoredCheckpoint:
    """Read the manifest of a savepoint or of a retained checkpoint.

    ``location`` is the directory of a savepoint, the ``chk-`` directory of a checkpoint, or the file ``_metadata``
    in one of them, as path or URI.
    """
    directory = parent_uri(location) if location.rstrip("/").endswith(f"/{layout.METADATA}") else location
    storage = open_directory(directory)
    try:
        data = storage.read(layout.METADATA)
    except FileMissingError as error:
        raise NoSuchSnapshotError(_describe_directory(storage)) from error
    return stored_checkpoint_of(storage, data)


def stored_checkpoint_of(storage: Storage, metadata: bytes) -> StoredCheckpoint:
    """The checkpoint or savepoint whose manifest was read from a directory."""
    manifest = Manifest.decode(metadata, shown(join_uri(storage.uri, layout.METADATA)))
    root = storage.uri if manifest.root == "." else parent_uri(storage.uri)
    return StoredCheckpoint(manifest, root, storage.uri)


def verify(stored: StoredCheckpoint, storage: Storage | None = None, *, deep: bool = False) -> None:
    """Raise `CorruptStateError` when a file is missing or too short; ``deep`` also reads everything and checks it.

    ``storage`` is that of the root, when there is one already.
    """
    files = storage or (open_storage(stored.root) if stored.manifest.files else None)
    for file, needed in stored.manifest.files.items():
        assert files is not None
        size = files.size(file)
        if size is None:
            raise CorruptStateError("the file is missing", file=_shown_file(stored, file))
        if size < needed:
            raise CorruptStateError(
                f"the file ends here, {needed} bytes are needed",
                file=_shown_file(stored, file),
                position=size,
            )
    if deep:
        for segment in stored.manifest.segments:
            read_segment(files, segment)


def retry_after_check(look: Callable[[], _T], check: Callable[[], object]) -> _T:
    """Read; before "missing" or "damaged" is believed, ``check`` raises if the storage is away, and it is read again."""
    try:
        return look()
    except (CorruptStateError, FileMissingError, NoSuchSnapshotError):
        check()
        return look()


def dispose(location: str) -> None:
    """Delete a savepoint; anything else is refused."""
    stored = load(location)
    if not stored.manifest.kind.is_savepoint:
        raise StateError(
            f"{shown(stored.location)} is a checkpoint of job {stored.manifest.job_id}, not a savepoint; a job removes "
            "its checkpoints itself, and one that was retained can be deleted with its directory"
        )
    storage = open_storage(stored.location)
    storage.delete(layout.METADATA)  # first: what is half deleted must not look like a savepoint
    for name in storage.list():
        if name in stored.manifest.files or layout.checkpoint_of_file(name) is not None:
            storage.delete(name)
    if not storage.list():
        storage.delete_directory()


def _shown_file(stored: StoredCheckpoint, file: str) -> str:
    return shown(join_uri(stored.root, file)) if stored.root else file


def _describe_directory(storage: Storage) -> str:
    """Say what is in a directory that is no checkpoint or savepoint, as well as one can guess."""
    where, names = shown(storage.uri), storage.list()
    expected = (
        "a savepoint directory, the chk- directory of a checkpoint, or the _metadata file in one of them"
    )
    checkpoints = [name for name in names if layout.checkpoint_of_directory(name) is not None]
    savepoints = [name for name in names if name.startswith("savepoint-")]
    if not names:
        return (
            f"there is no checkpoint or savepoint at {where}: it does not exist or is empty; give {expected}"
        )
    if checkpoints:
        return (
            f"{where} holds the checkpoints of a job ({', '.join(checkpoints)}) and is none itself; give one of "
            f"them, such as {where}/{max(checkpoints, key=_id)}"
        )
    if savepoints:
        return f"{where} holds savepoints ({', '.join(savepoints)}) and is none itself; give one of them"
    return (
        f"{where} is no complete checkpoint or savepoint: it has no file {layout.METADATA}; give {expected}"
    )


def _id(directory: str) -> int:
    return layout.checkpoint_of_directory(directory) or 0
