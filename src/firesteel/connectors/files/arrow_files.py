"""Files in object stores and other file systems of ``pyarrow.fs``: finding them, and reading from any position.

A path is a URI as `paths.place` makes it. In an object store a folder is nothing but the beginning of names: one that has no
files is not there. Errors are `OSError`, as those of local files; whatever else a client raises is turned into one.
"""

from __future__ import annotations

import errno
import fnmatch
import functools
import glob
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO, TypeVar, cast

from firesteel.checkpoint.object_stores import OBJECT_STORES, open_file_system, reason_of
from firesteel.common import _store_settings
from firesteel.common._override import override
from firesteel.common._store_settings import StoreSettings
from firesteel.common.errors import StorageError
from firesteel.connectors.files.paths import FoundFile, NothingYet, Trouble, is_pattern, raise_trouble

T = TypeVar("T")

#: How much is asked for at once: requests to a store take long, whatever their size.
READ_BYTES = 2 << 20


# Where things are -----------------------------------------------------------------------------------------


def located(uri: str) -> tuple[Any, str]:
    """The file system that a URI is in, and the path there."""
    scheme, _, rest = uri.partition("://")
    host, _, inner = rest.partition("/")
    try:
        file_system, root = _root(f"{scheme}://{host}/", _store_settings.current())
    except StorageError as error:
        raise OSError(errno.EIO, str(error), uri) from error
    return file_system, f"{root.rstrip('/')}/{inner}" if inner else root


@functools.lru_cache(maxsize=64)
def _root(uri: str, settings: StoreSettings) -> tuple[Any, str]:
    """File systems are kept, with their connections; ``settings`` are those in force, and tell apart."""
    return open_file_system(uri)


def attempt(uri: str, action: Callable[[], T]) -> T:
    """Do something with a file; what goes wrong becomes an `OSError` with the URI."""
    try:
        return action()
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file", uri) from error
    except Exception as error:  # clients of stores raise all kinds of errors
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
        raise OSError(number, reason_of(error), uri) from error


def info_of(uri: str) -> Any:
    """What the store says about a path; a store that does not say whether it is there has trouble."""
    file_system, path = located(uri)
    info = attempt(uri, lambda: file_system.get_file_info(path))
    if info.type.name == "Unknown":
        raise OSError(errno.EIO, "the store does not say whether there is such a file", uri)
    return info


def infos_below(uri: str, recursive: bool = False) -> list[Any]:
    """What the store says about everything in a folder; nothing when there is no such folder."""
    from pyarrow.fs import FileSelector

    file_system, path = located(uri)
    selector = FileSelector(path, allow_not_found=True, recursive=recursive)
    infos = attempt(uri, lambda: file_system.get_file_info(selector))
    return list(infos)


def is_object_store(uri: str) -> bool:
    """Whether files there cannot be renamed."""
    return located(uri)[0].type_name in OBJECT_STORES


# Finding --------------------------------------------------------------------------------------------------


def find(uri: str, trouble: Trouble = raise_trouble) -> list[FoundFile]:
    """The files that a URI means, as `paths.find_files` has it: a file, all below a folder, or what matches a pattern."""
    try:
        if not is_pattern(uri):
            return _find_there(uri)
        base, names = _split_pattern(uri)
        matches = [
            file
            for file in _files_below(base)
            if _matches(file.path.removeprefix(f"{base}/").split("/"), names)
        ]
    except FileNotFoundError:
        raise
    except OSError as error:
        trouble(error)
        return []
    if not matches:
        check_bucket(base)
        raise NothingYet(errno.ENOENT, "no file matches the pattern to read from", uri)
    return matches


def _find_there(uri: str) -> list[FoundFile]:
    info = info_of(uri)
    if info.is_file:
        return [_found(uri, info)]
    files = [
        file
        for file in _files_below(uri)
        if not any(name.startswith((".", "_")) for name in file.path.removeprefix(f"{uri}/").split("/"))
    ]
    if not files and info.type.name == "NotFound":
        check_bucket(uri)
        kind = NothingYet if is_object_store(uri) else FileNotFoundError
        raise kind(errno.ENOENT, "there is no file or directory to read from", uri)
    return files


def check_bucket(uri: str, purpose: str = "read from") -> None:
    """Say so when it is the bucket that is missing."""
    start = uri.index("://") + 3
    host = uri[start:].partition("/")[0]
    bucket = f"{uri[:start]}{host}"
    if host and is_object_store(uri) and info_of(bucket).type.name == "NotFound":
        raise FileNotFoundError(errno.ENOENT, f"there is no bucket {host!r} at this store to {purpose}", uri)


def _files_below(uri: str) -> Iterable[FoundFile]:
    _, root = located(uri)
    for info in infos_below(uri, recursive=True):
        if info.is_file:
            yield _found(f"{uri}/{info.path[len(root) :].lstrip('/')}", info)


def _found(uri: str, info: Any) -> FoundFile:
    return FoundFile(uri, int(info.size), int(info.mtime_ns or 0))


def _split_pattern(uri: str) -> tuple[str, list[str]]:
    """The folder in front of the first name with a magic character, and the names from there on."""
    start = uri.index("://") + 3
    names = uri[start:].split("/")
    first = next(index for index, name in enumerate(names) if glob.has_magic(name))
    if first == 0 and uri[:start] != "hdfs://":
        raise OSError(errno.EINVAL, "the name of a bucket cannot be a pattern", uri)
    return uri[:start] + "/".join(names[:first]), names[first:]


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a file, by the names on the way to it, is what a pattern means, or is below a folder that is."""
    if not pattern:
        return not any(name.startswith((".", "_")) for name in names)
    if not names:
        return False
    name, first = names[0], pattern[0]
    if first == "**":
        if len(pattern) == 1 and len(names) == 1:
            return not name.startswith(".")
        return _matches(names, pattern[1:]) or (not name.startswith(".") and _matches(names[1:], pattern))
    is_hidden = name.startswith(".") and not first.startswith(".")
    return not is_hidden and fnmatch.fnmatchcase(name, first) and _matches(names[1:], pattern[1:])


# Reading --------------------------------------------------------------------------------------------------


def open_input(uri: str) -> BinaryIO:
    """A file to read from, at any position."""
    file_system, path = located(uri)
    file = attempt(uri, lambda: file_system.open_input_file(path))
    return cast(BinaryIO, io.BufferedReader(_Input(uri, file), READ_BYTES))


class _Input(io.RawIOBase):
    """A file of ``pyarrow`` as one of Python."""

    def __init__(self, uri: str, file: Any) -> None:
        self._uri = uri
        self._file = file
        self._size = attempt(uri, file.size)
        self._position = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._position

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Nothing is asked of the store for it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    @override
    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = min(len(view), self._size - self._position)
        if count <= 0:
            return 0
        data = attempt(self._uri, lambda: self._file.read_at(count, self._position))
        if not data:
            raise OSError(
                errno.EIO,
                f"the file has become shorter than its {self._size} bytes while it was read",
                self._uri,
            )
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    @override
    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
