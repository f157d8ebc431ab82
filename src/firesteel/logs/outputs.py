"""Where lines go: into a file that is rolled over, or into a piece of memory that forgets the oldest ones."""

from __future__ import annotations

import io
import logging
import os
import re
import threading
from collections import deque
from logging.handlers import RotatingFileHandler
from pathlib import Path

from firesteel.common._override import override
from firesteel.common._private_files import open_private_log

__all__ = ["RecentText", "RolledFile", "forget_old_files", "rolled_files"]

#: How much text is remembered of each log where there are no files.
RECENT_CHARACTERS = 512 * 1024


class RecentText:
    """The newest text that was written; may be used from any thread."""

    def __init__(self, most: int = RECENT_CHARACTERS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._parts: deque[str] = deque()
        self._size = 0

    def write(self, text: str) -> None:
        """Add text, and forget as much of the oldest as is too much."""
        with self._lock:
            self._parts.append(text[-self._most :])
            self._size += len(self._parts[-1])
            while self._size > self._most and len(self._parts) > 1:
                self._size -= len(self._parts.popleft())

    def read(self) -> str:
        """All text that is still remembered."""
        with self._lock:
            return "".join(self._parts)


class RolledFile(RotatingFileHandler):
    """A file of its owner's. When it is full it becomes ``name.1``, the old ``name.1`` becomes ``name.2``, and so on.

    A handler of `logging`, which also takes text as it is. Nothing is opened before there is something to write.
    """

    def __init__(self, path: Path, max_size: int, kept: int, lines: logging.Formatter) -> None:
        super().__init__(
            path, maxBytes=max_size, backupCount=kept, encoding="utf-8", errors="replace", delay=True
        )
        self.setFormatter(lines)

    @override
    def _open(self) -> io.TextIOWrapper:
        file = open_private_log(self.baseFilename)
        return io.TextIOWrapper(file, self.encoding, self.errors, line_buffering=True)

    @property
    def path(self) -> Path:
        """The file that is written to now."""
        return Path(self.baseFilename)


class PrintedFile(RolledFile):
    """A file of what was printed."""

    terminator = ""

    def __init__(self, path: Path, max_size: int, kept: int) -> None:
        super().__init__(path, max_size, kept, logging.Formatter("%(message)s"))

    def write(self, text: str) -> None:
        """Add text as it is, without another end of line."""
        self.handle(logging.makeLogRecord({"msg": text}))


def rolled_files(path: Path) -> list[Path]:
    """The file and the old ones beside it, the newest first."""
    old = [
        (int(file.suffix[1:]), file) for file in path.parent.glob(f"{_escaped(path.name)}.*") if _is_old(file)
    ]
    return [each for each in (path, *(file for _, file in sorted(old))) if each.is_file()]


def _is_old(path: Path) -> bool:
    return path.suffix[1:].isdecimal()


def _escaped(name: str) -> str:
    return re.sub(r"([\[*?])", r"[\1]", name)


def forget_old_files(directory: Path, prefix: str, kept: int) -> None:
    """Delete what drivers have left that have ended: ``prefix`` is that of this machine's files, a process follows it.

    Files of the ``kept`` newest of them stay.
    """
    pattern = re.compile(re.escape(prefix) + r"(\d+)-.*")
    by_process: dict[int, list[Path]] = {}
    for path in directory.glob(f"{_escaped(prefix)}*"):
        if match := pattern.fullmatch(path.name):
            by_process.setdefault(int(match[1]), []).append(path)
    ended = {process: paths for process, paths in by_process.items() if not _is_alive(process)}
    newest = sorted(ended, key=lambda process: max(_modified(path) for path in ended[process]), reverse=True)
    for process in newest[kept:]:
        for path in ended[process]:
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # somebody else has deleted it
