"""Writes a savepoint: a file for every subtask that has state, then the manifest, which makes it one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from firesteel.checkpoint import layout
from firesteel.checkpoint.blocks import SegmentWriter, StateFileWriter, file_header
from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.storage import OutputFile, Storage, open_storage, shown
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common.errors import StorageError
from firesteel.common.job_id import JobID
from firesteel.common.time import to_millis
from firesteel.plan.state_handles import CheckpointKind, OperatorHandle, Segment
from firesteel.state.snapshot.keyed_snapshot import write_block
from firesteel.state_processor._operator_draft import OperatorDraft

__all__ = ["write_savepoint"]


def write_savepoint(path: str, origin: StoredCheckpoint | None, drafts: Sequence[OperatorDraft]) -> str:
    """Write a savepoint of these operators; returns its directory. ``origin`` is what it was made from."""
    storage = open_storage(path)
    if storage.list():
        raise StorageError(f"{shown(storage.uri)} exists already and is not empty; choose another directory")
    manifest = _new_manifest() if origin is None else _taken_over(origin.manifest)
    try:
        operators = tuple(
            _write_operator(storage, number, draft, manifest.checkpoint_id)
            for number, draft in enumerate(drafts)
        )
        storage.publish(layout.METADATA, replace(manifest, operators=operators).encode())
    except BaseException:
        storage.delete_directory()
        raise
    return storage.uri


def _new_manifest() -> Manifest:
    now = to_millis(time.time())
    return Manifest(str(JobID()), "state processor", 1, now, CheckpointKind.SAVEPOINT, root=".")


def _taken_over(manifest: Manifest) -> Manifest:
    kind = manifest.kind if manifest.kind.is_savepoint else CheckpointKind.SAVEPOINT
    return replace(manifest, kind=kind, root=".")


def _write_operator(storage: Storage, number: int, draft: OperatorDraft, checkpoint_id: int) -> OperatorState:
    handles = []
    for subtask in range(draft.state.parallelism):
        file = _StateFile(storage, layout.state_file("", number, subtask, 0, checkpoint_id))
        try:
            lists, keyed = (
                _write_changed(draft, subtask, file) if draft.changes else _copy(draft, subtask, file)
            )
            file.close()
        except BaseException:
            file.abort()
            raise
        handle = OperatorHandle(draft.state.id, subtask, keyed, lists, draft.metas)
        if handle.segments or handle.states:
            handles.append(handle)
    return replace(draft.state, subtasks=tuple(handles))


def _write_changed(
    draft: OperatorDraft, subtask: int, file: _StateFile
) -> tuple[Segment | None, tuple[Segment, ...]]:
    folded = draft.changed(subtask)
    lists = file.segment(map(write_block, folded.list_blocks()))
    keyed = file.segment(map(write_block, folded.keyed_blocks()))
    return lists, () if keyed is None else (keyed,)


def _copy(draft: OperatorDraft, subtask: int, file: _StateFile) -> tuple[Segment | None, tuple[Segment, ...]]:
    """What is not changed is not even unpickled: nobody needs the classes of its values."""
    handle = draft.handle(subtask)
    if handle is None or draft.saved is None:
        return None, ()
    lists = None if handle.lists is None else file.segment(draft.saved.blocks(handle.lists))
    copied = [file.segment(draft.saved.blocks(segment)) for segment in handle.keyed]
    return lists, tuple(segment for segment in copied if segment is not None)


class _StateFile:
    """A state file that is made with its first block."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._output: OutputFile | None = None
        self._writer = StateFileWriter(name)

    def segment(self, blocks: Iterable[bytes]) -> Segment | None:
        """Write a segment; None when there are no blocks."""
        segment: SegmentWriter | None = None
        for block in blocks:
            segment = segment or self._writer.segment()
            self._write(segment.add(block))
        return None if segment is None else segment.finish()

    def close(self) -> None:
        """Make the file durable; there is none without a block."""
        if self._output is not None:
            self._output.close()

    def abort(self) -> None:
        """Give up the file, if one was begun."""
        if self._output is not None:
            self._output.abort()

    def _write(self, block: bytes) -> None:
        if self._output is None:
            self._output = self._storage.create(self._name)
            self._output.write(file_header())
        self._output.write(block)
