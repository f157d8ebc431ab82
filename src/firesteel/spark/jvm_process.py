"""Spark's driver process while it is no more than a process: how it is started, early, and ended when nobody wants it.

Nothing here imports PySpark. That takes the better part of a second, in which the JVM can start already: the two meet when
both are there (`firesteel.spark.jvm`).

PySpark starts its JVM through two shell scripts and a second JVM, whose work it is to find out the command line of the
first. For a Spark inside the program that command line is always the same, so we write it down ourselves and start the
JVM at once. Wherever Spark's scripts or its launcher would have more to do than that, they do it.

PySpark would also put every setting on the command line, which all users of the machine can read, passwords included. Here
they go through a file that only this user can read and that is gone when the JVM has started, or through the authenticated
connection to it. What the JVM writes - blocks of the shuffle, unpacked files, sockets - is for its user only; tasks get the
usual mask back (`worker_daemon`), because what they write belongs to the program.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import logging
import os
import re
import secrets
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from firesteel._java import VECTOR_MODULE, find_java, quiet_home
from firesteel.common._private_files import create_private, current_umask
from firesteel.common.errors import JobCancelledError, SetupError
from firesteel.plan.executor import LOOPBACK
from firesteel.spark import class_archive
from firesteel.spark.master_url import is_local
from firesteel.spark.worker_daemon import UMASK_VARIABLE

__all__ = ["JvmProcess", "direct_options", "properties", "start_early", "take"]

_LOG = logging.getLogger(__name__)

#: For the small JVM that only works out how the real one is started.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_OWNER_ONLY = 0o077
_TOKEN_BYTES = 32
_LOOK_SECONDS = 0.02
_REAP_SECONDS = 5.0

_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_MEMORY = "spark.driver.memory"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CLASS_PATH = "spark.driver.extraClassPath"
_MASTER = "spark.master"
#: What Spark's scripts and its launcher obey, beside the settings.
_SCRIPT_VARIABLES = (
    _SUBMIT_ARGUMENTS,
    "SPARK_CONF_DIR",
    "SPARK_SUBMIT_OPTS",
    "SPARK_DIST_CLASSPATH",
    "SPARK_PREPEND_CLASSES",
    "SPARK_TESTING",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)
#: Settings that its launcher obeys: with any other of these it has something to do.
_LAUNCHER_SETTINGS = re.compile(
    r"spark\.(jars|files|archives|submit|log|kerberos|pyspark)(\.|$)"
    r"|spark\.driver\.(extraLibraryPath|defaultJavaOptions|userClassPathFirst)$"
)
#: A constant of a class file that may be an option: its kind, its length, its text.
_OPTION_IN_CLASS = re.compile(rb"\x01(..)(-[\x21-\x7e]+)", re.DOTALL)


class JvmProcess:
    """A JVM that is about to become Spark's driver, started with these settings."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        java = find_java()
        self._directory = tempfile.TemporaryDirectory(prefix="firesteel-")
        self._connection = os.path.join(self._directory.name, "connection")
        self._variables = {
            UMASK_VARIABLE: f"{current_umask():o}",
            "FIRESTEEL_CHANNEL_TOKEN": secrets.token_hex(_TOKEN_BYTES),  # for guard/ChannelGuard.java
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": self._connection,
            **_local_address(settings),
        }
        home = _spark_home()
        options = direct_options(settings, home, os.environ)
        #: Of a JVM that was started without Spark's scripts: what its class path and options are is known of that one only.
        self.archive: class_archive.ClassArchive | None = None
        if options is None:
            self._command = self._submit_command(home)
            self._variables |= {"JAVA_HOME": str(quiet_home(java)), "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS}
        else:
            class_path = _class_path(settings, home)
            self.archive = class_archive.ClassArchive(java, class_path, options, os.environ)
            self._command = [str(java.executable), *options, "-cp", ":".join(class_path), _GATEWAY]
            # As the scripts would: workers find PySpark, and hash alike.
            self._variables |= {"SPARK_HOME": str(home), "PYTHONHASHSEED": "0"}
        self.popen = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with_classes = [] if self.archive is None else self.archive.options()
        return subprocess.Popen(
            [self._command[0], *with_classes, *self._command[1:]],
            stdin=subprocess.PIPE,  # it ends when this one is closed
            env={**os.environ, **self._variables},
            umask=_OWNER_ONLY,
            process_group=0,  # Ctrl-C is none of its business: the program decides what follows
        )

    def _submit_command(self, home: Path) -> list[str]:
        file = os.path.join(self._directory.name, "spark.properties")
        with create_private(file) as output:
            output.write(properties(self.settings).encode())
        # The file wins over the user's files of properties, as the arguments would that PySpark gives.
        arguments = shlex.split(os.environ.get(_SUBMIT_ARGUMENTS, "pyspark-shell"))
        return [str(home / "bin" / "spark-submit"), "--extra-properties-file", file, *arguments]

    def await_connection(self, is_wanted: Callable[[], bool]) -> tuple[int, str]:
        """Wait until the JVM listens; returns port and secret. Ends it when nobody wants it any more."""
        while not os.path.exists(self._connection):
            if not is_wanted():
                self.kill()
                raise JobCancelledError("the job was ended while Spark started")
            if self.popen.poll() is not None:
                self._start_again()
            time.sleep(_LOOK_SECONDS)
        with open(self._connection, "rb") as file:
            port = int.from_bytes(file.read(4), "big")
            secret = file.read(int.from_bytes(file.read(4), "big")).decode()
        self._directory.cleanup()
        return port, secret

    def _start_again(self) -> None:
        """It has ended before it listened: without the archive of classes it may get further."""
        code = self.popen.returncode
        if os.path.exists(self._connection):  # since somebody looked
            return
        self._close_input()
        if self.archive is None or not self.archive.withdraw():
            self._directory.cleanup()
            raise SetupError(
                f"Spark's Java process ended while it started, with exit code {code}; what it said is above, and "
                f"it was started as {shlex.join(self._command)}"
            )
        _LOG.warning(
            "Spark's Java process ended while it started (exit code %s); again, without kept classes", code
        )
        self.popen = self._start()

    def kill(self) -> None:
        """End it at once, with the scripts that start it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_REAP_SECONDS)
        self._close_input()
        self._directory.cleanup()

    def _close_input(self) -> None:
        if self.popen.stdin is not None:
            self.popen.stdin.close()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.popen.poll() is None


# Early --------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_waiting: JvmProcess | None = None


def start_early(settings: Mapping[str, str]) -> None:
    """Start a JVM that `take` will want, unless one waits already."""
    global _waiting
    with _lock:
        if _waiting is None:
            _waiting = JvmProcess(settings)
            atexit.register(discard)


def take(settings: Mapping[str, str]) -> JvmProcess:
    """The JVM that was started early, if it has these settings and lives; else a new one.

    The number of slots may differ: that is a matter of the context, not of the process.
    """
    global _waiting
    with _lock:
        process, _waiting = _waiting, None
    if process is not None:
        if process.is_running and _comparable(process.settings) == _comparable(settings):
            return process
        process.kill()
    return JvmProcess(settings)


def discard() -> None:
    """End a JVM that nobody has taken."""
    global _waiting
    with _lock:
        process, _waiting = _waiting, None
    if process is not None:
        process.kill()


def _comparable(settings: Mapping[str, str]) -> dict[str, str]:
    return {**settings, _MASTER: "local" if is_local(settings[_MASTER]) else settings[_MASTER]}


# The command --------------------------------------------------------------------------------------------


def direct_options(settings: Mapping[str, str], home: Path, environ: Mapping[str, str]) -> list[str] | None:
    """The options of Java that Spark's scripts would arrive at; None when they have more to do than that."""
    if (
        not is_local(settings[_MASTER])
        or _MEMORY not in settings
        or (home / "conf").exists()
        or any(environ.get(name) for name in _SCRIPT_VARIABLES)
        or any(map(_LAUNCHER_SETTINGS.match, settings))
    ):
        return None
    modules = _module_options(home)
    if not modules:
        return None
    return [f"-Xmx{settings[_MEMORY]}", *modules, *shlex.split(settings.get(_JAVA_OPTIONS, ""))]


def _class_path(settings: Mapping[str, str], home: Path) -> list[str]:
    return [*filter(None, settings.get(_CLASS_PATH, "").split(":")), str(home / "jars" / "*")]


def _module_options(home: Path) -> list[str]:
    """What this version of Spark wants from the modules of Java: constants of a class of its launcher."""
    for jar in (home / "jars").glob("spark-launcher_*.jar"):
        with contextlib.suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
            code = archive.read("org/apache/spark/launcher/JavaModuleOptions.class")
            texts = _OPTION_IN_CLASS.findall(code)
            options = [text.decode() for length, text in texts if int.from_bytes(length, "big") == len(text)]
            if any(option.startswith("--add-opens=") for option in options):
                return [option for option in options if option != VECTOR_MODULE]
    return []


def _spark_home() -> Path:
    """Where Spark is: as the user says, or as PySpark brings it."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(place) / "jars").is_dir():
            return Path(place)
    from pyspark.find_spark_home import _find_spark_home  # a Spark that was built from source

    return Path(_find_spark_home())


def _local_address(settings: Mapping[str, str]) -> dict[str, str]:
    is_embedded = is_local(settings[_MASTER])
    return {"SPARK_LOCAL_IP": LOOPBACK} if is_embedded and "SPARK_LOCAL_IP" not in os.environ else {}


# Settings -----------------------------------------------------------------------------------------------


def properties(settings: Mapping[str, str]) -> str:
    r"""A file of properties as Java reads it.

    >>> print(properties({"spark.a b": "c:\\d \u00e9", "spark.x": " y\nz"}), end="")
    spark.a\ b=c:\\d é
    spark.x=\ y\nz
    """
    return "".join(f"{_escaped(key, is_key=True)}={_escaped(value)}\n" for key, value in settings.items())


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def _escaped(text: str, is_key: bool = False) -> str:
    escaped = "".join(_ESCAPES.get(char, char) for char in text)
    if is_key:
        for char in " :=#!":
            escaped = escaped.replace(char, f"\\{char}")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
