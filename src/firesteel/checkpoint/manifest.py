"""The manifest of a checkpoint or savepoint: what it consists of, and everything needed to resume from it.

A manifest is a text file. Its first line says what it is, the version of its format, and a SHA-256 over that version
and all that follows; the rest is JSON that people can read::

    firesteel manifest 1 9f86d081884c7d65...
    {
     "checkpoint_id": 7,
     ...

The first line keeps its form in every version, so that damage and age are told apart.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firesteel.common.errors import CorruptStateError, StateError
from firesteel.plan.state_handles import (
    CheckpointKind,
    OperatorHandle,
    OperatorRestore,
    Segment,
    StateMeta,
    StateMode,
    TaskRestore,
)

__all__ = ["FORMAT_VERSION", "Manifest", "OperatorState"]

FORMAT_VERSION = 1
#: Fields of version 1 that nobody has filled and nobody reads; they are written so that the format stays what it is.
_UNUSED: dict[str, Any] = {"master": {}, "attempt": 0, "program": {}}
_FIRST_LINE = re.compile(rb"firesteel manifest (\d{1,9}) ([0-9a-f]{64})\n")


@dataclass(frozen=True, slots=True)
class OperatorState:
    """All state of one operator: its identity, how it was spread, and the handles of its subtasks.

    ``enumerator`` is the state of a source's split enumerator, None when the operator has none. ``types`` are those of
    what the operator keeps by itself, as far as the program declared them: ``{"keys": "Integer"}``.
    """

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    uid: str | None = None
    subtasks: tuple[OperatorHandle, ...] = ()
    enumerator: bytes | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_state(self) -> bool:
        """Whether anything would be lost without it; states that hold nothing do not count."""
        return self.enumerator is not None or any(
            s.blocks for handle in self.subtasks for s in handle.segments
        )

    @property
    def has_keyed_state(self) -> bool:
        """Whether some of it is spread by key group."""
        return any(segment.blocks for handle in self.subtasks for segment in handle.keyed)

    @property
    def states(self) -> tuple[StateMeta, ...]:
        """What its subtasks know of their states, each state once, by name."""
        by_name = {state.name: state for handle in self.subtasks for state in handle.states}
        return tuple(by_name[name] for name in sorted(by_name))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One complete checkpoint or savepoint.

    ``root`` is where the segments' files are relative to, as seen from the manifest: ``..`` for a checkpoint, ``.``
    for a savepoint. ``timestamp`` is in milliseconds.
    """

    job_id: str
    job_name: str
    checkpoint_id: int
    timestamp: int
    kind: CheckpointKind = CheckpointKind.CHECKPOINT
    operators: tuple[OperatorState, ...] = ()
    epoch: int = 0
    root: str = ".."

    @property
    def enumerators(self) -> dict[str, bytes]:
        """The states of split enumerators by operator id."""
        return {op.id: op.enumerator for op in self.operators if op.enumerator is not None}

    @property
    def segments(self) -> list[Segment]:
        """Every segment of every subtask."""
        return [s for operator in self.operators for handle in operator.subtasks for s in handle.segments]

    @property
    def files(self) -> dict[str, int]:
        """The files that are referred to, and the length that each must at least have."""
        needed: dict[str, int] = {}
        for segment in self.segments:
            if segment.file:
                end = segment.offset + segment.length
                needed[segment.file] = max(needed.get(segment.file, 0), end)
        return needed

    def to_restore(self, root: str) -> TaskRestore:
        """What an attempt needs to resume from here, without asking whether the program has changed."""
        operators = {
            op.id: OperatorRestore(op.parallelism, op.max_parallelism, op.subtasks) for op in self.operators
        }
        return TaskRestore(self.checkpoint_id, root, operators)

    def encode(self) -> bytes:
        """The bytes of the manifest."""
        body = (json.dumps(_manifest_to_json(self), indent=1, sort_keys=True) + "\n").encode()
        digest = _digest(b"%d" % FORMAT_VERSION, body)
        return b"firesteel manifest %d %s\n" % (FORMAT_VERSION, digest) + body

    @staticmethod
    def decode(data: bytes, file: str = "_metadata") -> Manifest:
        """The manifest of some bytes; ``file`` names them in errors. Nothing damaged gets through."""
        match = _FIRST_LINE.match(data)
        if match is None:
            raise CorruptStateError("this is not the beginning of a manifest", file=file, position=0)
        version, digest = match.groups()
        body = data[match.end() :]
        if _digest(version, body) != digest:
            raise CorruptStateError("the checksum of the manifest does not match", file=file, position=0)
        if int(version) > FORMAT_VERSION:
            raise StateError(
                f"{file} was written by a newer version of Firesteel: the format of its manifest is "
                f"{int(version)}, this version reads up to {FORMAT_VERSION}; use the newer version"
            )
        return _manifest_from_json(json.loads(body))


def _digest(version: bytes, body: bytes) -> bytes:
    return hashlib.sha256(version + b"\n" + body).hexdigest().encode()


def _manifest_to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "job_id": manifest.job_id,
        "job_name": manifest.job_name,
        "checkpoint_id": manifest.checkpoint_id,
        "timestamp": manifest.timestamp,
        "kind": manifest.kind.value,
        "operators": [_operator_to_json(operator) for operator in manifest.operators],
        "epoch": manifest.epoch,
        "root": manifest.root,
        **_UNUSED,
    }


def _manifest_from_json(data: Any) -> Manifest:
    return Manifest(
        job_id=data["job_id"],
        job_name=data["job_name"],
        checkpoint_id=data["checkpoint_id"],
        timestamp=data["timestamp"],
        kind=CheckpointKind(data["kind"]),
        operators=tuple(map(_operator_from_json, data["operators"])),
        epoch=data["epoch"],
        root=data["root"],
    )


def _operator_to_json(operator: OperatorState) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": operator.id,
        "uid": operator.uid,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "enumerator": None if operator.enumerator is None else _text(operator.enumerator),
        "subtasks": [_handle_to_json(handle) for handle in operator.subtasks],
    }
    if operator.types:
        data["types"] = dict(operator.types)
    return data


def _operator_from_json(data: Any) -> OperatorState:
    return OperatorState(
        id=data["id"],
        uid=data["uid"],
        name=data["name"],
        parallelism=data["parallelism"],
        max_parallelism=data["max_parallelism"],
        enumerator=None if data["enumerator"] is None else _blob(data["enumerator"]),
        subtasks=tuple(_handle_from_json(data["id"], handle) for handle in data["subtasks"]),
        types=data.get("types", {}),
    )


def _handle_to_json(handle: OperatorHandle) -> dict[str, Any]:
    return {
        "subtask": handle.subtask,
        "keyed": [_segment_to_json(segment) for segment in handle.keyed],
        "lists": None if handle.lists is None else _segment_to_json(handle.lists),
        "states": [_state_to_json(state) for state in handle.states],
    }


def _handle_from_json(operator_id: str, data: Any) -> OperatorHandle:
    return OperatorHandle(
        operator_id=operator_id,
        subtask=data["subtask"],
        keyed=tuple(map(_segment_from_json, data["keyed"])),
        lists=None if data["lists"] is None else _segment_from_json(data["lists"]),
        states=tuple(map(_state_from_json, data["states"])),
    )


def _segment_to_json(segment: Segment) -> dict[str, Any]:
    data: dict[str, Any] = {
        "file": segment.file,
        "offset": segment.offset,
        "length": segment.length,
        "blocks": segment.blocks,
        "checksum": segment.checksum,
    }
    if segment.inline:
        data["inline"] = _text(segment.inline)
    return data


def _segment_from_json(data: Any) -> Segment:
    file = data["file"]
    if file.startswith("/") or ".." in file.split("/"):
        raise CorruptStateError(f"a segment is said to be in {file!r}, which is outside of what was saved")
    return Segment(
        file,
        data["offset"],
        data["length"],
        data["blocks"],
        data["checksum"],
        _blob(data.get("inline", "")),
    )


def _state_to_json(state: StateMeta) -> dict[str, Any]:
    return {
        "name": state.name,
        "mode": state.mode.value,
        "kind": state.kind,
        "type": state.type,
        "version": state.version,
    }


def _state_from_json(data: Any) -> StateMeta:
    return StateMeta(data["name"], StateMode(data["mode"]), data["kind"], data["type"], data["version"])


def _text(blob: bytes) -> str:
    return base64.b64encode(blob).decode("ascii")


def _blob(text: str) -> bytes:
    return base64.b64decode(text)
