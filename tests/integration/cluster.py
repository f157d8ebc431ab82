"""A standalone Spark cluster on this machine: one master and two workers from the installed PySpark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
from support import MARK_VARIABLE, Process, marked, until

from firesteel._java import find_java, quiet_home

SPARK_HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
SLOTS_PER_WORKER = 8


@dataclass(frozen=True)
class Cluster:
    """Its address, and the directories in which the executors of each worker run."""

    url: str
    work_directories: tuple[Path, Path]
    mark: str

    def executors(self) -> list[Process]:
        return [p for p in marked(self.mark) if "CoarseGrainedExecutorBackend" in p.command]

    def python_workers(self) -> list[Process]:
        return [p for p in marked(self.mark) if "pyspark.daemon" in p.command]


@contextmanager
def standalone_cluster(directory: Path, mark: str) -> Iterator[Cluster]:
    """Start master and workers; everything they started is gone afterwards."""
    port = _free_port()
    url = f"spark://{HOST}:{port}"
    works = (directory / "worker-1", directory / "worker-2")
    started = [_spark_class(directory, mark, "master.Master", "--port", str(port), "--webui-port", "0")]
    try:
        until(lambda: _listens(port), 60, "the Spark master listens")
        for number, work in enumerate(works):
            options = ("--cores", str(SLOTS_PER_WORKER), "--memory", "1g", "--work-dir", str(work))
            started.append(
                _spark_class(
                    directory,
                    mark,
                    "worker.Worker",
                    "--webui-port",
                    "0",
                    *options,
                    url,
                    log_name=f"worker-{number}",
                )
            )
        log = directory / "master.Master.log"
        until(lambda: log.read_text().count("Registering worker") == 2, 60, "both workers registered")
        yield Cluster(url, works, mark)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(20)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and (left := marked(mark)):
            for each in left:
                with_suppressed_kill(each.pid)
            time.sleep(0.05)


def with_suppressed_kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _spark_class(
    directory: Path, mark: str, kind: str, *options: str, log_name: str | None = None
) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        str(SPARK_HOME / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{kind}",
        "--host",
        HOST,
        *options,
    ]
    environment = {
        **os.environ,
        MARK_VARIABLE: mark,
        "JAVA_HOME": str(quiet_home(find_java())),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": HOST,
    }
    with (directory / f"{log_name or kind}.log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=directory
        )


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
