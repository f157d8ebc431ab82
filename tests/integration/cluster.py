"""A standalone Spark cluster on this machine: one master and two workers from the installed PySpark.

The second worker may be in a network namespace of its own, behind a link that can be cut.
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
from dataclasses import dataclass
from pathlib import Path

import pyspark
from cut_link import Link
from support import MARK_VARIABLE, Process, marked, until

from firesteel._java import find_java, quiet_home
from firesteel.spark.settings import AUTHENTICATION

SPARK_HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
SLOTS_PER_WORKER = 8
SLOTS_BEHIND_LINKS = 3  # so few that a job needs both sides of the link


@dataclass(frozen=True)
class Cluster:
    """Its address, and the directories in which the executors of each worker run."""

    url: str
    work_directories: tuple[Path, Path]
    mark: str
    #: Variables for drivers: where they find the cluster's secret.
    environment: dict[str, str]
    host: str = HOST

    def executors(self) -> list[Process]:
        return [p for p in marked(self.mark) if "CoarseGrainedExecutorBackend" in p.command]

    def python_workers(self) -> list[Process]:
        return [p for p in marked(self.mark) if "pyspark.daemon" in p.command]


@contextmanager
def standalone_cluster(
    directory: Path,
    mark: str,
    link: Link | None = None,
    daemons: Mapping[str, str] | None = None,
    drivers: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Start master and workers; everything they started is gone afterwards. The second one may be behind a link.

    ``daemons`` and ``drivers``: further settings of Spark's daemons, and options of drivers.
    """
    host = HOST if link is None else link.near
    port = _free_port(host)
    url = f"spark://{host}:{port}"
    works = (directory / "worker-1", directory / "worker-2")
    secret = _secret(directory, daemons or {}, drivers or {})
    started = [_spark_class(directory, mark, "master.Master", *secret, "--port", str(port), host=host)]
    try:
        until(lambda: _listens(host, port), "the Spark master listens")
        for number, work in enumerate(works):
            slots = SLOTS_PER_WORKER if link is None else SLOTS_BEHIND_LINKS
            options = ("--cores", str(slots), "--memory", "1g", "--work-dir", str(work), url)
            behind = link if number == 1 else None
            log_name = f"worker-{number}"
            started.append(
                _spark_class(
                    directory,
                    mark,
                    "worker.Worker",
                    *secret,
                    *options,
                    host=host,
                    link=behind,
                    log_name=log_name,
                )
            )
        log = directory / "master.Master.log"
        until(lambda: log.read_text().count("Registering worker") == 2, "both workers registered")
        yield Cluster(url, works, mark, {"FIRESTEEL_CONF_DIR": str(directory / "conf")}, host)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and (left := marked(mark)):
            for each in left:
                with_suppressed_kill(each.pid)
            time.sleep(0.05)


def _secret(directory: Path, daemons: Mapping[str, str], drivers: Mapping[str, str]) -> tuple[str, str]:
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


def _spark_class(
    directory: Path,
    mark: str,
    kind: str,
    *options: str,
    host: str,
    link: Link | None = None,
    log_name: str | None = None,
) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    host = host if link is None else link.far
    command = [
        *(() if link is None else link.prefix),
        str(SPARK_HOME / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{kind}",
        "--host",
        host,
        "--webui-port",
        "0",
        *options,
    ]
    environment = {
        **os.environ,
        MARK_VARIABLE: mark,
        "JAVA_HOME": str(quiet_home(find_java())),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": host,
    }
    with (directory / f"{log_name or kind}.log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=directory
        )


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0
