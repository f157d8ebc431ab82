"""A standalone Spark cluster on this machine: one master and two workers from the installed PySpark.

All of it is on the loopback address, or each of them, and the drivers, on a machine of their own: see machines.py.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from machines import Machine, machines
from support import MARK_VARIABLE, Driver, Process, marked, start_driver, until

from firesteel._java import find_java, quiet_home
from firesteel.spark.settings import AUTHENTICATION

SPARK_HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
SLOTS_PER_WORKER = 8
WORKERS = ("worker-1", "worker-2")
DRIVER, MASTER = "driver", "master"

#: For JVMs that live for a minute and only pass on what others say: they start with half the work.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: For daemons on machines of their own: a worker that nobody hears is given up after this many seconds, not after 60.
_WORKER_TIMEOUT = "6"


@dataclass(frozen=True)
class Cluster:
    """Its address, and the directories in which the executors of each worker run."""

    url: str
    work_directories: tuple[Path, Path]
    mark: str
    #: Variables for drivers: where they find the cluster's secret.
    environment: dict[str, str]
    #: By name; none when everything is at the loopback address.
    machines: Mapping[str, Machine] = field(default_factory=dict)

    def executors(self) -> list[Process]:
        return [p for p in marked(self.mark) if "CoarseGrainedExecutorBackend" in p.command]

    def python_workers(self) -> list[Process]:
        return [p for p in marked(self.mark) if "pyspark.daemon" in p.command]

    def start_driver(self, directory: Path, *command: str) -> Driver:
        """A driver, on the machine for drivers."""
        if (machine := self.machines.get(DRIVER)) is None:
            return start_driver(directory, command, **self.environment)
        return start_driver(directory, command, on=machine.command, **self.environment)


@contextmanager
def standalone_cluster(
    directory: Path,
    mark: str,
    daemons: Mapping[str, str] | None = None,
    drivers: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Start master and workers at the loopback address; everything they started is gone afterwards.

    ``daemons`` and ``drivers``: further settings of Spark's daemons, and options of drivers.
    """
    with _cluster(directory, mark, {}, SLOTS_PER_WORKER, daemons or {}, drivers or {}) as running:
        yield running


@contextmanager
def cluster_of_machines(directory: Path, mark: str, slots: int = SLOTS_PER_WORKER) -> Iterator[Cluster]:
    """The same with a machine for the master, each worker and the drivers; ``slots`` of each worker.

    Raises `NotPermittedError` where machines cannot be made.
    """
    daemons = {"spark.worker.timeout": _WORKER_TIMEOUT}
    drivers = {"spark.executor.extraJavaOptions": _QUICK_START}
    with (
        machines(DRIVER, MASTER, *WORKERS) as made,
        _cluster(directory, mark, made, slots, daemons, drivers) as running,
    ):
        yield running


@contextmanager
def _cluster(
    directory: Path,
    mark: str,
    on: Mapping[str, Machine],
    slots: int,
    daemon_settings: Mapping[str, str],
    driver_settings: Mapping[str, str],
) -> Iterator[Cluster]:
    port = 7077 if on else _free_port(HOST)
    url = f"spark://{on[MASTER].address if on else HOST}:{port}"
    works = (directory / WORKERS[0], directory / WORKERS[1])
    secret = _settings(directory, daemon_settings, driver_settings)
    daemons = _Daemons(directory, mark, on)
    try:
        daemons.start(MASTER, "master.Master", *secret, "--port", str(port))
        log = directory / f"{MASTER}.log"
        until(lambda: "I have been elected leader" in log.read_text(), "the Spark master listens")
        for name, work in zip(WORKERS, works, strict=True):
            options = ("--cores", str(slots), "--memory", "1g", "--work-dir", str(work), url)
            daemons.start(name, "worker.Worker", *secret, *options)
        until(lambda: log.read_text().count("Registering worker") == 2, "both workers registered")
        environment = {"FIRESTEEL_CONF_DIR": str(directory / "conf")}
        if on:
            environment["SPARK_LOCAL_IP"] = on[DRIVER].address
        yield Cluster(url, works, mark, environment, on)
    finally:
        daemons.end()


class _Daemons:
    """The processes of a cluster, and what they start."""

    def __init__(self, directory: Path, mark: str, on: Mapping[str, Machine]) -> None:
        self._directory = directory
        self._mark = mark
        self._machines = on
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, kind: str, *options: str) -> None:
        machine = self._machines.get(name)
        host = HOST if machine is None else machine.address
        spark_class = str(SPARK_HOME / "bin" / "spark-class")
        command = [spark_class, f"org.apache.spark.deploy.{kind}", "--host", host, "--webui-port", "0"]
        command += options
        environment = {
            **os.environ,
            MARK_VARIABLE: self._mark,
            "JAVA_HOME": str(quiet_home(find_java())),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_START,
        }
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command if machine is None else machine.command(*command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._directory,
            )
        self._started.append(process)

    def end(self) -> None:
        for machine in self._machines.values():
            machine.wake()  # who is frozen does not hear that it is to end
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.wait()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and (left := marked(self._mark)):
            for each in left:
                with_suppressed_kill(each.pid)
            time.sleep(0.05)


def _settings(directory: Path, daemons: Mapping[str, str], drivers: Mapping[str, str]) -> tuple[str, str]:
    """Spark authenticates; the words that tell its daemons the secret. Drivers find it in a config.yaml of their own."""
    settings = {**AUTHENTICATION, "spark.authenticate.secret": secrets.token_hex(32)}
    (directory / "conf").mkdir(parents=True)
    (directory / "conf" / "config.yaml").write_text(
        "".join(f"{k}: {v}\n" for k, v in {**settings, **drivers}.items())
    )
    (directory / "daemons.conf").write_text("".join(f"{k} {v}\n" for k, v in {**settings, **daemons}.items()))
    return "--properties-file", str(directory / "daemons.conf")


def with_suppressed_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])
