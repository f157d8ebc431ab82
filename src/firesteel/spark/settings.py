"""The Spark settings that make a DataFrame a low-latency stream, and why each of them is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from urllib.parse import unquote, urlsplit

import firesteel
from firesteel.common._redaction import sensitive_words
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import (
    DRIVER_HEAP,
    DRIVER_JAVA_OPTIONS,
    EXECUTOR_HEAP,
    EXECUTOR_JAVA_OPTIONS,
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    JAVA_OPTIONS,
    PIPELINE_CLASSPATHS,
    PIPELINE_JARS,
    PROGRAM_REDACTED_KEYS,
    REDACTED_KEYS,
    SHUFFLE_BUFFER,
    TASK_SLOTS,
)
from firesteel.plan.executor import LOOPBACK
from firesteel.spark import tls
from firesteel.spark.process_directory import process_directory

#: Fixed when the session starts; a session of the program's must have them.
REQUIRED: dict[str, str] = {
    # JVM and Python worker exchange data in both directions at once; without it nothing flows until the
    # input has ended.
    "spark.python.udf.pipelined.enabled": "true",
    # Over TCP every Python stage pays 40 ms of delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    # Adaptive execution would materialise the exchanges.
    "spark.sql.adaptive.enabled": "false",
}

#: How long Spark waits for more before it sends what there is for a task.
SHUFFLE_WAIT = "spark.shuffle.streaming.networkBufferMaxWaitTimeMs"

#: Good for latency; a session of the program's may differ.
RECOMMENDED: dict[str, str] = {
    SHUFFLE_WAIT: "1",
    "spark.buffer.size": "64",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    # A failed attempt is over at once; who restarts it is the job master.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
}

#: Read by tasks from local properties: executing a physical plan directly does not propagate SQL settings.
TASK: dict[str, str] = {
    # Every row goes to Python on its own, at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.python.udf.buffer.size": "64",
    "spark.sql.execution.pandas.udf.buffer.size": "64",
}

_WRITERS_PER_CORE = 2  # that may look every millisecond
_LONGEST_SHUFFLE_WAIT = 50


def shuffle_wait(writers: int, cores: int) -> int:
    """Milliseconds that suit a job with that many tasks that send, on a machine with that many cores.

    Each of these tasks has a thread in Spark that wakes up as often to look whether something has waited for long enough. Forty
    that do it every millisecond take half a core.

    >>> shuffle_wait(2, cores=2), shuffle_wait(40, cores=2), shuffle_wait(40, cores=16)
    (1, 10, 2)
    """
    return max(1, min(-(-writers // (_WRITERS_PER_CORE * cores)), _LONGEST_SHUFFLE_WAIT))


#: The kernel takes no longer paths of sockets: 108 bytes on Linux, 104 on macOS; Spark appends "/.<uuid>.sock".
_LONGEST_SOCKET_PATH = 103
_SOCKET_NAME = 43

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CLASS_PATH = "spark.driver.extraClassPath"
_EXECUTOR_JAVA_OPTIONS = "spark.executor.extraJavaOptions"
_EXECUTOR_CLASS_PATH = "spark.executor.extraClassPath"


def session_settings(
    configuration: Configuration,
    *,
    local: bool,
    makes_secrets: bool = False,
    submitted: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Everything for a session of our own; ``spark.*`` options of the configuration win.

    ``makes_secrets``: the cluster gives every application a secret of its own, if it wants one. ``submitted``: what
    spark-submit was given, which wins over what is only recommended; as in Spark itself the program's own settings win
    over it.
    """
    buffer = str(configuration.get(SHUFFLE_BUFFER))
    derived = {
        "spark.shuffle.streaming.readerMaxMemory": buffer,
        "spark.shuffle.streaming.writerMaxMemory": buffer,
        # What its pages, its event log and its plans do not show.
        "spark.redaction.regex": _redaction_of(configuration),
    }
    if jars := configuration.get(PIPELINE_JARS):
        derived["spark.jars"] = ",".join(jars)
    if (heap := configuration.get(DRIVER_HEAP)) is not None:
        derived["spark.driver.memory"] = _megabytes(heap)
    if not local:
        derived |= _executors(configuration)
    if local:
        # The sockets of the Python workers are files, which Spark leaves behind when it is killed.
        sockets = str(process_directory("sockets"))
        if len(sockets) + _SOCKET_NAME < _LONGEST_SOCKET_PATH:
            derived["spark.python.unix.domain.socket.dir"] = sockets
    asked = {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}
    if (
        makes_secrets and asked.get("spark.shuffle.service.enabled") != "true"
    ):  # which would have to be told too
        derived |= AUTHENTICATION
    encryption = tls.spark_settings(configuration, local=local)
    settings = {
        **RECOMMENDED,
        **derived,
        **(_LOCAL if local else {}),
        **encryption,
        **(submitted or {}),
        **asked,
        **REQUIRED,
    }
    if encryption and not local:
        _guard_executors(settings, tls.guard_of_executors(configuration))
    ours = [
        _log_option(),
        *(_LOCAL_JAVA_OPTIONS if local else []),
        *(tls.GUARD_OPTIONS[1:] if encryption and local else []),
    ]
    flinks = _java_options(configuration, DRIVER_JAVA_OPTIONS, *([EXECUTOR_JAVA_OPTIONS] if local else []))
    # Of an option that is given twice Java takes the last: the user's.
    settings[_JAVA_OPTIONS] = " ".join([*ours, *flinks, asked.get(_JAVA_OPTIONS, "")]).strip()
    class_path = [*([_guard()] if local else []), *_class_paths(configuration)]
    if class_path:
        settings[_CLASS_PATH] = ":".join([*class_path, *filter(None, [asked.get(_CLASS_PATH)])])
    return settings


def _redaction_of(configuration: Configuration) -> str:
    given = [configuration.get(option) for option in (REDACTED_KEYS, PROGRAM_REDACTED_KEYS)]
    words = sensitive_words(word for marked in given if marked is not None for word in marked)
    return f"(?i){'|'.join(map(re.escape, words))}"


def _guard_executors(settings: dict[str, str], guard: str) -> None:
    """Have executors ask their clients for certificates, whatever else they are told."""
    settings[_EXECUTOR_CLASS_PATH] = ":".join([guard, *filter(None, [settings.get(_EXECUTOR_CLASS_PATH)])])
    settings[_EXECUTOR_JAVA_OPTIONS] = " ".join(
        [*filter(None, [settings.get(_EXECUTOR_JAVA_OPTIONS)]), *tls.GUARD_OPTIONS]
    )


def _executors(configuration: Configuration) -> dict[str, str]:
    """What Flink's options say about task managers, for the executors of a cluster."""
    derived = _executor_heartbeats(configuration)
    if (slots := configuration.get(TASK_SLOTS)) is not None:
        derived["spark.executor.cores"] = str(slots)
    if (heap := configuration.get(EXECUTOR_HEAP)) is not None:
        derived["spark.executor.memory"] = _megabytes(heap)
    if java_options := _java_options(configuration, EXECUTOR_JAVA_OPTIONS):
        derived[_EXECUTOR_JAVA_OPTIONS] = " ".join(java_options)
    if paths := _class_paths(configuration):
        derived[_EXECUTOR_CLASS_PATH] = ":".join(paths)
    return derived


def _megabytes(size: int) -> str:
    """For options that become ``-Xmx`` as they are, and Java knows no unit for bytes."""
    return f"{-(-size // 2**20)}m"


def _java_options(configuration: Configuration, *kinds: ConfigOption[str | None]) -> list[str]:
    given = (configuration.get(option) for option in (JAVA_OPTIONS, *kinds))
    return [text for text in given if text]


def _class_paths(configuration: Configuration) -> list[str]:
    """Paths of files and directories: Java loads classes from nothing else on Spark's behalf."""
    paths = []
    for given in configuration.get(PIPELINE_CLASSPATHS) or []:
        url = urlsplit(given)
        if url.scheme not in ("", "file"):
            raise InvalidOptionError(
                f"option '{PIPELINE_CLASSPATHS.key}': {given!r} is neither a path nor a file: URL; Spark's JVMs load classes "
                "from files that all machines have under one path; pipeline.jars takes jar files from elsewhere"
            )
        paths.append(unquote(url.path) if url.scheme else given)
    return paths


def _executor_heartbeats(configuration: Configuration) -> dict[str, str]:
    """Have Spark notice executors that give no sign of life as soon as the job master notices tasks that do not."""
    # Longer than its network time-out, which is two minutes, Spark does not accept.
    interval = min(configuration.get(HEARTBEAT_INTERVAL).to_millis(), 60_000)
    timeout = configuration.get(HEARTBEAT_TIMEOUT).to_millis()
    return {
        "spark.executor.heartbeatInterval": f"{interval}ms",
        "spark.storage.blockManagerHeartbeatTimeoutMs": f"{timeout}ms",
        "spark.network.timeoutInterval": f"{interval}ms",
    }


#: Who talks to Spark's ports must know a secret, and nobody can listen or meddle.
AUTHENTICATION: dict[str, str] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}

#: Only where the workers are processes of this machine and this Python.
_LOCAL: dict[str, str] = {
    "spark.python.daemon.module": "firesteel.spark.worker_daemon",
    # A worker that served another job has that job's modules, threads and directory. A new one is forked in
    # milliseconds; with PySpark's own daemon it would cost a second.
    "spark.python.worker.reuse": "false",
    "spark.executorEnv.PYTHONPATH": str(Path(firesteel.__file__).parent.parent),
    # Nobody outside this machine has any business here, and of those inside only this JVM itself: it makes a secret of
    # its own for that. Without it everybody who reaches its port gets whatever block he asks for.
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    **AUTHENTICATION,
}

#: For the JVM that is driver and executor in one.
_LOCAL_JAVA_OPTIONS = [
    # Only the quick compiler. All this JVM does is to move chunks of records; the slow compiler makes that hardly
    # faster, but takes half a core from the tasks during the first ten seconds of every job.
    "-XX:TieredStopAtLevel=1",
    # Spark leaves a buffer to the garbage collector when a worker has died, and Netty, which watches one in a hundred, would
    # print where it was made among what the program prints.
    "-Dio.netty.leakDetection.level=disabled",
    # Has Netty show its channels to guard/ChannelGuard.java, which keeps strangers away from the streaming shuffle.
    tls.GUARD_OPTIONS[0],
]


def _guard() -> str:
    return str(resources.files("firesteel.spark") / "guard" / "guard.jar")


def _log_option() -> str:
    file = resources.files("firesteel.spark") / "log4j2.properties"
    return f"-Dlog4j2.configurationFile=file:{file}"
