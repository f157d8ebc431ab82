"""Uploaded programs, which Flink calls jars: kept until somebody deletes them, run as often as somebody wants."""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from firesteel.common.time import to_millis
from firesteel.rest.errors import Malformed, NotFound

__all__ = ["Artifact", "Artifacts", "checked_name", "save"]

SUFFIXES = (".py", ".zip", ".whl")
_NAME = re.compile(r"[\w.+@=-][\w.+@= -]{0,199}", re.ASCII)
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_(.+)", re.ASCII)
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Artifact:
    """One of them; ``uploaded`` is in milliseconds."""

    id: str
    name: str
    path: Path
    uploaded: int

    @property
    def entries(self) -> list[str]:
        """Modules that can be run without naming one: an archive with a ``__main__``."""
        if self.path.suffix == ".py":
            return [self.path.stem.partition("_")[2]]
        try:
            with zipfile.ZipFile(self.path) as archive:
                return ["__main__"] if "__main__.py" in archive.namelist() else []
        except (OSError, zipfile.BadZipFile):
            return []


class Artifacts:
    """Those in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[Artifact]:
        """The newest first."""
        artifacts = [each for path in self._folder.iterdir() if (each := _artifact(path)) is not None]
        return sorted(artifacts, key=lambda each: (-each.uploaded, each.id))

    def find(self, artifact_id: str) -> Artifact:
        """The one with this id."""
        # Only a name of the list: never a path that a client makes up.
        for each in self.all():
            if each.id == artifact_id:
                return each
        raise NotFound(f"there is no artifact {artifact_id[:200]!r}; GET /jars lists them")

    def add(self, name: str, content: BinaryIO) -> Artifact:
        """Keep a program, with a new id; `Malformed` when it is not what its name says."""
        name = checked_name(name, SUFFIXES)
        target = self._folder / f"{uuid.uuid4()}_{name}"
        save(content, target)
        if target.suffix != ".py" and not zipfile.is_zipfile(target):
            target.unlink()
            raise Malformed(f"{name} is no zip archive, though its name says so")
        artifact = _artifact(target)
        assert artifact is not None
        return artifact

    def delete(self, artifact_id: str) -> None:
        """Forget one; jobs that were made of it have copies."""
        self.find(artifact_id).path.unlink(missing_ok=True)


def checked_name(name: str, suffixes: Iterable[str] = ()) -> str:
    """The name of an uploaded file without what browsers put in front of it; refuses what is no plain name of a file."""
    plain = re.split(r"[/\\]", name)[-1]
    allowed = tuple(suffixes)
    if not _NAME.fullmatch(plain) or plain.startswith("."):
        raise Malformed(
            f"the file's name {name[:100]!r} is not a plain one: letters, digits, spaces and any of . _ + - @ = are"
        )
    if allowed and not plain.endswith(allowed):
        raise Malformed(f"{plain[:100]!r} is no program: expected a file that ends with {', '.join(allowed)}")
    return plain


def save(content: BinaryIO, target: Path) -> None:
    """Write a new file, for its owner only; it is on disk when this returns."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, _CHUNK)
        file.flush()
        os.fsync(file.fileno())


def _artifact(path: Path) -> Artifact | None:
    match = _ID.fullmatch(path.name)
    try:
        uploaded = to_millis(path.stat().st_mtime)
    except FileNotFoundError:  # somebody has just deleted it
        return None
    return (
        None if match is None else Artifact(path.name, match[2], path, min(uploaded, to_millis(time.time())))
    )
