"""A file that a process prints to, and all that it has started: rolled over under their hands.

All of them have it open, the JVM of Spark too, so nobody can give them another one. What it has is copied to the first of the old files,
and then it is made empty: they append, and go on at its beginning. Lines of this process's log wait meanwhile (``guard``).
What somebody else prints between the last look and the cut, some microseconds, is lost: the price of a file that does not
grow for ever.

Who reads it from a byte on need not know: a note beside it says how much has gone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from firesteel.logs.outputs import rolled_files

__all__ = ["RolledOutput", "forget_rolling", "read_as_one"]

_LOG = logging.getLogger(__name__)

#: How often the size is looked at: what is printed in that time comes on top of it.
_LOOK_SECONDS = 1.0
_STANDARD_OUTPUT = 1


class RolledOutput:
    """One file. When it has ``max_size`` bytes they become ``name.1``, the old ``name.1`` becomes ``name.2``; ``kept`` of them stay."""

    def __init__(
        self, path: Path, max_size: int, kept: int, guard: AbstractContextManager[Any] | None = None
    ) -> None:
        self._path = path
        self._max_size = max_size
        self._kept = kept
        self._guard = guard or contextlib.nullcontext()
        self._has_failed = False

    @property
    def is_printed_to(self) -> bool:
        """Whether the standard output of this process goes there, and not to a terminal or whatever has started it."""
        try:
            return os.path.samestat(os.fstat(_STANDARD_OUTPUT), self._path.stat())
        except OSError:
            return False

    def watch(self) -> None:
        """From now on roll it over whenever it is full, until the process ends."""
        threading.Thread(target=self._run, name="firesteel-log-roller", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                self.roll_if_full()
            except OSError as error:
                # A full disk, say: the file goes on as it is, and the next look tries again.
                if not self._has_failed:
                    self._has_failed = True
                    _LOG.warning("the log %s cannot be rolled over, and grows: %s", self._path, error)
            time.sleep(_LOOK_SECONDS)

    def roll_if_full(self) -> bool:
        """Roll it over if it has that many bytes; whether it had."""
        if self._path.stat().st_size < self._max_size:
            return False
        partial = self._path.with_name(f"{self._path.name}.partial")
        partial.unlink(missing_ok=True)  # of a process that died
        with (
            self._path.open("r+b") as full,
            open(partial, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as copy,
        ):
            shutil.copyfileobj(full, copy)
            copy.flush()
            with self._guard:
                shutil.copyfileobj(full, copy)  # what has come meanwhile
                copy.flush()
                self._make_room()
                partial.rename(_old(self._path, 1))
                gone = full.tell()
                full.truncate(0)
            # After the cut: who asks in between gets nothing, and asks again, instead of getting something twice.
            _note(self._path, _gone(self._path) + gone)
        return True

    def _make_room(self) -> None:
        for file in reversed(rolled_files(self._path)[1:]):
            number = int(file.suffix[1:])
            if number >= self._kept:
                file.unlink(missing_ok=True)
            else:
                file.rename(_old(self._path, number + 1))


def _old(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.gone")


def _gone(path: Path) -> int:
    """How many bytes have gone to old files."""
    try:
        return int(_note_of(path).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return 0


def _note(path: Path, gone: int) -> None:
    note = _note_of(path)
    partial = note.with_name(f"{note.name}-partial")
    partial.write_text(str(gone), encoding="ascii")
    partial.replace(note)


def forget_rolling(path: Path) -> None:
    """The file begins anew: what has gone to old files was of another one."""
    _note_of(path).unlink(missing_ok=True)


def read_as_one(path: Path, begin: int, most: int) -> bytes:
    """At most so many bytes from where they would be in a file that was never rolled over; instead of those that are deleted the oldest.

    Fewer do not mean that this is the end; none do.
    """
    file, at = path, begin - _gone(path)
    try:
        for old in rolled_files(path)[1:]:
            if at >= 0:
                break
            file, at = old, at + old.stat().st_size
        with file.open("rb") as opened:
            opened.seek(max(0, at))
            return opened.read(most)
    except FileNotFoundError:
        return b""  # it is being rolled over now: who asks again gets it
