"""What every storage of checkpoints can do: `Storage`, and `OutputFile` for a file being written.

Those of this package say that they are one; another object that has the methods is one as well.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["OutputFile", "Storage"]


class OutputFile(Protocol):
    """A file being written."""

    def write(self, data: bytes) -> None:
        """Append bytes; nobody has to see them before `close`."""

    def close(self) -> None:
        """Make the file durable: after this it survives a crash of the machine."""

    def abort(self) -> None:
        """Abort the file and remove it; nothing happens after `close`."""


class Storage(Protocol):
    """Files below one directory. Everything that fails raises `StorageError`.

    So does a look - `exists`, `size`, `list`, `read` - that gets no answer: "no" means that the store knows that there
    is no such thing, and nothing else.
    """

    @property
    def uri(self) -> str:
        """The directory, in a form that `open_storage` understands on every machine."""

    def at(self, directory: str) -> Storage:
        """The storage of a directory below this one."""

    def create(self, path: str) -> OutputFile:
        """Begin a new file; directories on the way are made. An existing file is refused."""

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or ``length`` of them from ``offset`` on; fewer when the file ends before."""

    def publish(self, path: str, content: bytes) -> None:
        """Make a file appear durably, whole or not at all; an existing one is refused."""

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name; directories do not count."""

    def size(self, path: str) -> int | None:
        """The length of a file in bytes, None when there is no such file."""

    def list(self, directory: str = "") -> list[str]:
        """Names of the files and directories in a directory, sorted; empty when there is no such directory."""

    def directory_id(self) -> str | None:
        """Tells the directory from another one that has its name, as when a volume is not mounted; None: not there.

        Empty for stores in which a directory is nothing but the names in it.
        """

    def sync(self, directory: str = "") -> None:
        """Make what was published in a directory, and deleted from it, survive a crash of the machine.

        Whoever published it has done so, unless he died before he could. Deleting alone does not.
        """

    def delete(self, path: str) -> None:
        """Remove a file; one that is not there is no error. It may be there again after a crash of the machine."""

    def delete_directory(self, directory: str = "") -> None:
        """Remove a directory with everything in it; one that is not there is no error.

        What others write into it at the same time may stay.
        """

    def make_directory(self, directory: str = "") -> None:
        """Make a directory and those on the way; an existing one is no error."""
