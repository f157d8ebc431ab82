"""A small file system that can be taken away, made read-only and filled up; needs root.

The files are in memory, mounted at a place nobody else knows; what programs see is a second mount of it. Below that lies
an empty read-only one: while the disk is away its files do not exist, and nobody can put others in their place, just as
with a mount point that only root may write to.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import run_as_root


class SmallDisk:
    """``path`` is where programs find it; ``hidden`` where it always is, and ``sealed`` where it is always read-only."""

    def __init__(self, path: Path, hidden: Path, sealed: Path) -> None:
        self.path = path
        self._hidden = hidden
        self._sealed = sealed

    def take_away(self) -> None:
        """Unmount it, whoever uses it: what is open stays open, and nothing can be opened."""
        run_as_root("umount", "-l", str(self.path))

    def bring_back(self) -> None:
        run_as_root("mount", "--bind", str(self._hidden), str(self.path))

    def forbid_writing(self) -> None:
        """Nothing can be made, changed or removed any more. What is open stays open: a mount in use cannot be changed."""
        self.take_away()
        run_as_root("mount", "--bind", str(self._sealed), str(self.path))

    def allow_writing(self) -> None:
        self.take_away()
        self.bring_back()

    def fill(self) -> None:
        """Leave no room, also not for what others free meanwhile."""
        piece = bytes(1 << 16)
        with self._ballast.open("ab", buffering=0) as file:
            while len(piece):
                try:
                    file.write(piece)
                except OSError:
                    piece = piece[: len(piece) // 2]

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self._hidden / "ballast"


@contextmanager
def small_disk(directory: Path, megabytes: int = 256) -> Iterator[SmallDisk]:
    """A disk below a directory; gone afterwards. Raises `NotPermittedError` where it cannot be made."""
    path, hidden, sealed = directory / "disk", directory / "hidden", directory / "sealed"
    for place in (path, hidden, sealed):
        place.mkdir(parents=True)
    mounted: list[Path] = []
    try:
        for place, options in ((hidden, f"size={megabytes}m"), (path, "size=4k,ro")):
            run_as_root("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place))
            mounted.append(place)
        run_as_root("mount", "--bind", str(hidden), str(sealed))
        mounted.append(sealed)
        run_as_root("mount", "-o", "remount,bind,ro", str(sealed))  # a mount of this one is read-only, too
        disk = SmallDisk(path, hidden, sealed)
        disk.bring_back()
        mounted.append(path)
        yield disk
    finally:
        for place in reversed(mounted):
            subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)
        for place in (path, hidden, sealed):
            if not os.path.ismount(place):
                place.rmdir()
