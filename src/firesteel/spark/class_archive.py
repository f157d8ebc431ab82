"""The classes of Spark as Java has them in memory, kept in a file: a JVM that maps it need not read and check them again.

Spark loads some fifteen thousand classes before its first record, which is a third of the time that it takes to start. Java
can keep them ("class data sharing"). The first JVM on a machine notes which classes it loads; when it has ended, a process
in the background, of the lowest priority, makes an archive of them; later ones are started with it. An archive belongs to
one Java, one class path and one set of options, which its name stands for. Java itself looks whether it fits, and does
without it if not.

It lies in the cache (`firesteel._java.cache_directories`), for its user only: an archive is code. Where nothing can be
written there is none. ``FIRESTEEL_CLASS_ARCHIVE=0`` switches all this off.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firesteel._java import JavaRuntime, cache_directories

__all__ = ["SWITCH_VARIABLE", "ClassArchive"]

SWITCH_VARIABLE = "FIRESTEEL_CLASS_ARCHIVE"

_DIRECTORY = "classes"
#: How many archives are kept, each of some 150 MB: those of the environments that were used last.
_KEPT = 3
_LOWEST_PRIORITY = 19
_DUMP_SECONDS = 600.0
_JVM_END_SECONDS = 60.0
#: Longer than any job notes classes: the names come while it starts, and the file is not touched for long after that.
_ABANDONED_SECONDS = 30 * 24 * 3600.0
#: It need not tell that an archive does not fit.
_QUIET = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
#: What the background process may know of this one's environment.
_VARIABLES = ("HOME", "LANG", "PATH", "TMPDIR", "XDG_CACHE_HOME")


@dataclass(frozen=True, slots=True)
class _Order:
    """What the background process is to do."""

    java: str
    options: list[str]
    classes: str
    directory: str
    key: str
    jvm: int


class ClassArchive:
    """The archive for one way to start Java."""

    def __init__(
        self, java: JavaRuntime, class_path: Sequence[str], options: Sequence[str], environ: Mapping[str, str]
    ) -> None:
        self._java = java
        self._options = [*options, "-cp", ":".join(class_path)]
        self._environ = environ
        self._key = _key(java, class_path, options)
        self._used: Path | None = None
        self._classes: Path | None = None
        self._is_worth_it = False

    def options(self) -> list[str]:
        """What to start Java with: the archive, or, when there is none, the wish to note what one should hold."""
        if self._environ.get(SWITCH_VARIABLE) == "0":
            return []
        directories = [place / _DIRECTORY for place in cache_directories(self._environ)]
        for directory in directories:
            if (archive := _find(directory, self._key)) is not None:
                self._used = archive
                return [f"-XX:SharedArchiveFile={archive}", *_QUIET]
        for directory in directories:
            if _is_writable(directory):
                if (directory / f"{self._key}.failed").exists():
                    return []
                self._classes = directory / f"{self._key}.{secrets.token_hex(4)}.classes"
                return [f"-XX:DumpLoadedClassList={self._classes}"]
        return []

    def withdraw(self) -> bool:
        """Java did not start: give up the archive that it was to use; False when it was not to use one."""
        if self._used is None:
            return False
        self._used.unlink(missing_ok=True)
        self._used = None
        return True

    def a_job_has_run(self) -> None:
        """Now the classes that were noted are those that every program needs."""
        self._is_worth_it = True

    def make_after(self, jvm: int) -> None:
        """Make the archive in the background as soon as the JVM with this number has ended, if it has noted classes."""
        if self._classes is None:
            return
        if not self._is_worth_it:
            self._classes.unlink(missing_ok=True)
            return
        directory = str(self._classes.parent)
        order = _Order(
            str(self._java.executable), self._options, str(self._classes), directory, self._key, jvm
        )
        package = str(Path(__file__).parent.parent.parent)
        with contextlib.suppress(OSError):
            subprocess.Popen(
                [sys.executable, "-m", "firesteel.spark.class_archive", json.dumps(_fields(order))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={
                    **{name: self._environ[name] for name in _VARIABLES if name in self._environ},
                    "PYTHONPATH": package,
                },
            ).returncode = 0  # nobody waits for it


def _fields(order: _Order) -> dict[str, object]:
    return {name: getattr(order, name) for name in order.__slots__}


def _key(java: JavaRuntime, class_path: Sequence[str], options: Sequence[str]) -> str:
    """A name for everything that has to be the same."""
    files = [file for entry in class_path for file in _files(entry)]
    described = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]
    whole = [str(java.home), java.version, list(class_path), list(options), described]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]


def _files(entry: str) -> list[Path]:
    return sorted(Path(entry[:-1]).glob("*.jar")) if entry.endswith("/*") else [Path(entry)]


def _find(directory: Path, key: str) -> Path | None:
    """The archive of this key, if nobody else can have written it and nothing of it is missing.

    Java takes an archive that was cut off, and crashes; so its name says how long it is.
    """
    for file in directory.glob(f"{key}-*.jsa"):
        with contextlib.suppress(OSError):
            size = re.fullmatch(r".*-(\d+)\.jsa", file.name)
            if size and file.stat().st_size == int(size[1]) and _is_private(file) and _is_private(directory):
                os.utime(file)  # so that it is not among those that were not used for long
                return file
    return None


def _is_private(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o022


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _is_private(directory) and os.access(directory, os.W_OK)
    except OSError:
        return False


# In the background --------------------------------------------------------------------------------------


def make(order: _Order) -> None:
    """Make the archive, unless another process does so or has done so; at most one does at a time."""
    directory, classes = Path(order.directory), Path(order.classes)
    try:
        _await_end(order.jvm)
        with open(directory / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _find(directory, order.key) is None:
                _dump(order, directory, classes)
                _remove_old(directory)
    except BlockingIOError:
        pass  # another one is at it; the next JVM notes its classes again if that was for another key
    finally:
        classes.unlink(missing_ok=True)


def _await_end(process: int) -> None:
    """Java writes the names of its classes to the end only when it ends itself."""
    deadline = time.monotonic() + _JVM_END_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)


def _dump(order: _Order, directory: Path, classes: Path) -> None:
    partial = directory / f"{order.key}.{os.getpid()}.partial"
    command = [
        order.java,
        *order.options,
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={partial}",
    ]
    try:
        subprocess.run(
            command, timeout=_DUMP_SECONDS, check=True, stdin=subprocess.DEVNULL, cwd=directory, umask=0o077
        )
        partial.replace(directory / f"{order.key}-{partial.stat().st_size}.jsa")
    except (OSError, subprocess.SubprocessError) as error:
        # A Java that cannot do it, or not with these options, will not be able to tomorrow.
        (directory / f"{order.key}.failed").write_text(f"{error}\n", encoding="utf-8")
    finally:
        partial.unlink(missing_ok=True)


def _remove_old(directory: Path) -> None:
    for file in [*directory.glob("*.classes"), *directory.glob("*.partial")]:
        if time.time() - file.stat().st_mtime > _ABANDONED_SECONDS:  # by a process that was killed
            file.unlink(missing_ok=True)
    archives = sorted(directory.glob("*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in archives[_KEPT:]:
        file.unlink(missing_ok=True)  # who has mapped it keeps it


if __name__ == "__main__":
    os.nice(_LOWEST_PRIORITY)
    make(_Order(**json.loads(sys.argv[1])))
