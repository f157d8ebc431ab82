"""Checkpoint files in the memory of this process: for jobs without a checkpoint directory, and for tests."""

from __future__ import annotations

import threading

from firesteel.checkpoint.storage_protocol import OutputFile, Storage
from firesteel.common._override import override
from firesteel.common.errors import FileMissingError, StorageError

__all__ = ["MemoryStorage"]

_SCHEME = "memory://"


class MemoryStorage(Storage):
    """Files in a dictionary, by their full path.

    A storage without a name belongs to whoever holds it. Storages of URIs such as ``memory://name/path`` share
    their files with all others of that name in this process, until `forget` drops them.
    """

    _named: dict[str, dict[str, bytes]] = {}
    _lock = threading.Lock()

    def __init__(self, files: dict[str, bytes] | None = None, prefix: str = "", uri: str = "") -> None:
        #: All files by their full path; a file appears when it is closed or published.
        self.files: dict[str, bytes] = {} if files is None else files
        self._prefix = prefix
        self._uri = uri

    @classmethod
    def shared(cls, uri: str) -> MemoryStorage:
        """The storage of a ``memory`` URI."""
        name, _, path = uri[len(_SCHEME) :].strip("/").partition("/")
        with cls._lock:
            files = cls._named.setdefault(name, {})
        return cls(files, f"{path}/" if path else "", uri.rstrip("/"))

    @classmethod
    def forget(cls, uri: str) -> None:
        """Drop the files of a name."""
        with cls._lock:
            cls._named.pop(uri[len(_SCHEME) :].strip("/").partition("/")[0], None)

    @property
    @override
    def uri(self) -> str:
        """Empty for a storage without a name."""
        return self._uri

    @property
    def directory(self) -> str:
        """What the full paths of its files begin with."""
        return self._prefix

    @override
    def at(self, directory: str) -> MemoryStorage:
        uri = f"{self._uri}/{directory}" if self._uri else ""
        return MemoryStorage(self.files, f"{self._prefix}{directory}/", uri)

    @override
    def create(self, path: str) -> MemoryOutput:
        self._refuse_existing(path)
        return MemoryOutput(self, path)

    @override
    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        try:
            content = self.files[self._full(path)]
        except KeyError as error:
            raise FileMissingError(f"{self._shown(path)} does not exist") from error
        return content[offset : None if length is None else offset + length]

    @override
    def publish(self, path: str, content: bytes) -> None:
        with self._lock:
            self._refuse_existing(path)
            self.files[self._full(path)] = bytes(content)

    @override
    def exists(self, path: str) -> bool:
        return self._full(path) in self.files

    @override
    def size(self, path: str) -> int | None:
        content = self.files.get(self._full(path))
        return None if content is None else len(content)

    @override
    def list(self, directory: str = "") -> list[str]:
        inside = self._directory(directory)
        with self._lock:
            names = {path[len(inside) :].partition("/")[0] for path in self.files if path.startswith(inside)}
        return sorted(names)

    @override
    def directory_id(self) -> str | None:
        return ""

    @override
    def sync(self, directory: str = "") -> None:
        """Nothing survives this process."""

    @override
    def delete(self, path: str) -> None:
        with self._lock:
            self.files.pop(self._full(path), None)

    @override
    def delete_directory(self, directory: str = "") -> None:
        inside = self._directory(directory)
        with self._lock:
            for path in [path for path in self.files if path.startswith(inside)]:
                del self.files[path]

    @override
    def make_directory(self, directory: str = "") -> None:
        """Directories are there without being made."""

    def _full(self, path: str) -> str:
        return f"{self._prefix}{path}"

    def _directory(self, directory: str) -> str:
        return self._full(f"{directory}/") if directory else self._prefix

    def _refuse_existing(self, path: str) -> None:
        if self.exists(path):
            raise StorageError(f"{self._shown(path)} exists already")

    def _shown(self, path: str) -> str:
        return f"{self._uri or 'memory'}/{path}"


class MemoryOutput(OutputFile):
    """A file being written, of which nobody sees anything before it is closed."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._written: list[bytes] | None = []

    @override
    def write(self, data: bytes) -> None:
        assert self._written is not None, "written after close"
        self._written.append(bytes(data))

    @override
    def close(self) -> None:
        written, self._written = self._written, None
        if written is not None:
            self._storage.publish(self._path, b"".join(written))

    @override
    def abort(self) -> None:
        self._written = None
