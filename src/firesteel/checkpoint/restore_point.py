"""A checkpoint or savepoint that a job can go on from: finding it by its path, checking it, disposing of it."""

from __future__ import annotations

from typing import NamedTuple

from firesteel.checkpoint import layout
from firesteel.checkpoint.blocks import read_segment
from firesteel.checkpoint.manifest import Manifest
from firesteel.checkpoint.storage import Storage, join_uri, open_storage, parent_uri, shown
from firesteel.common.errors import CorruptStateError, FileMissingError, NoSuchSnapshotError, StateError
from firesteel.plan.state_handles import Restore

__all__ = ["RestorePoint", "dispose", "load", "verify"]


class RestorePoint(NamedTuple):
    """A manifest, and the directory that its files are relative to; ``location`` is where the manifest lies."""

    manifest: Manifest
    root: str
    location: str = ""

    def to_restore(self) -> Restore:
        """What an attempt of the same program needs; `firesteel.checkpoint.matching` is for a changed one."""
        return self.manifest.to_restore(self.root)


def load(location: str) -> RestorePoint:
    """Read the manifest of a savepoint or of a retained checkpoint.

    ``location`` is the directory of a savepoint, the ``chk-`` directory of a checkpoint, or the file ``_metadata``
    in one of them, as path or URI.
    """
    directory = parent_uri(location) if location.rstrip("/").endswith(f"/{layout.METADATA}") else location
    storage = open_storage(directory)
    try:
        data = storage.read(layout.METADATA)
    except FileMissingError as error:
        raise NoSuchSnapshotError(_what_else(storage)) from error
    return point_of(storage, data)


def point_of(storage: Storage, metadata: bytes) -> RestorePoint:
    """The point whose manifest was read from a directory."""
    manifest = Manifest.decode(metadata, shown(join_uri(storage.uri, layout.METADATA)))
    root = storage.uri if manifest.root == "." else parent_uri(storage.uri)
    return RestorePoint(manifest, root, storage.uri)


def verify(point: RestorePoint, storage: Storage | None = None, *, deep: bool = False) -> None:
    """Raise `CorruptStateError` when a file is missing or too short; ``deep`` also reads everything and checks it.

    ``storage`` is that of the root, when there is one already.
    """
    files = storage or (open_storage(point.root) if point.manifest.files else None)
    for file, needed in point.manifest.files.items():
        assert files is not None
        size = files.size(file)
        if size is None:
            raise CorruptStateError("the file is missing", file=_shown_file(point, file))
        if size < needed:
            raise CorruptStateError(
                f"the file ends here, {needed} bytes are needed", file=_shown_file(point, file), position=size
            )
    if deep:
        for segment in point.manifest.segments:
            read_segment(files, segment)


def dispose(location: str) -> None:
    """Delete a savepoint; anything else is refused."""
    point = load(location)
    if not point.manifest.kind.is_savepoint:
        raise StateError(
            f"{shown(point.location)} is a checkpoint of job {point.manifest.job_id}, not a savepoint; a job removes "
            "its checkpoints itself, and one that was retained can be deleted with its directory"
        )
    storage = open_storage(point.location)
    storage.delete(layout.METADATA)  # first: what is half deleted must not look like a savepoint
    for name in storage.list():
        if name in point.manifest.files or layout.checkpoint_of_file(name) is not None:
            storage.delete(name)
    if not storage.list():
        storage.delete_directory()


def _shown_file(point: RestorePoint, file: str) -> str:
    return shown(join_uri(point.root, file)) if point.root else file


def _what_else(storage: Storage) -> str:
    """Say what is at a place that is no checkpoint or savepoint, as well as one can guess."""
    where, names = shown(storage.uri), storage.list()
    wanted = "a savepoint directory, the chk- directory of a checkpoint, or the _metadata file in one of them"
    checkpoints = [name for name in names if layout.checkpoint_of_directory(name) is not None]
    savepoints = [name for name in names if name.startswith("savepoint-")]
    if not names:
        return f"there is no checkpoint or savepoint at {where}: it does not exist or is empty; give {wanted}"
    if checkpoints:
        return (
            f"{where} holds the checkpoints of a job ({', '.join(checkpoints)}) and is none itself; give one of "
            f"them, such as {where}/{max(checkpoints, key=_id)}"
        )
    if savepoints:
        return f"{where} holds savepoints ({', '.join(savepoints)}) and is none itself; give one of them"
    return f"{where} is no complete checkpoint or savepoint: it has no file {layout.METADATA}; give {wanted}"


def _id(directory: str) -> int:
    return layout.checkpoint_of_directory(directory) or 0
