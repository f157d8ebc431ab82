"""A job on YARN, as docs/deployment_yarn.md says: with the driver here, and with the driver in a container.

YARN is Hadoop's own mini cluster, with one node. Both ways the interpreter travels in an archive and a module beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from support import PROGRAMS, archived_interpreter

from firesteel._java import find_java, quiet_home
from firesteel_support.servers.yarn import YarnCluster, yarn_cluster

__all__ = ["yarn_cluster"]

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SPARK_HOME = Path(pyspark.__file__).parent
NUMBERS, KEYS = 60, 3
#: For JVMs that live for seconds: they start with half the work.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Program:
    """on_yarn.py, and what travels with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.output = directory / "output"
        self.module = directory / "sent" / "travelling.py"
        self.module.parent.mkdir()
        self.module.write_text("def squared(number: int) -> int:\n    return number * number\n")
        archived_interpreter(directory / "env.tar.gz", "in the archive")
        self.archive = f"{directory / 'env.tar.gz'}#env"
        self.words = (str(PROGRAMS / "on_yarn.py"), str(self.output), str(directory / "checkpoints"))

    def settings(self) -> dict[str, str]:
        return {
            "spark.executor.instances": "1",
            "spark.executor.cores": "4",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.yarn.am.extraJavaOptions": QUICK_START,
            # All machines have Spark under one path, because there is one: nothing of it has to travel.
            "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
            "spark.yarn.stagingDir": (self.directory / "staging").as_uri(),
            # How often its master asks for containers, and for the end.
            "spark.yarn.scheduler.initial-allocation.interval": "50ms",
            "spark.yarn.scheduler.heartbeat.interval-ms": "200",
            "spark.yarn.report.interval": "200ms",
        }

    def run(self, cluster: YarnCluster, *command: str) -> None:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env={
                **os.environ,
                "HADOOP_CONF_DIR": str(cluster.configuration),
                "FIRESTEEL_HOME": str(self.directory / "home"),
                "SPARK_HOME": str(SPARK_HOME),
                "JAVA_HOME": str(quiet_home(find_java())),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        said = f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        assert done.returncode == 0, f"{said}\n{cluster.container_logs()}"

    def driver(self) -> str:
        """The container that the driver was in."""
        return (self.directory / "checkpoints" / "driver").read_text()

    def check(self) -> set[str]:
        """The output is what it must be; the containers that it was made in."""
        files = [path for path in self.output.rglob("*") if path.is_file() and not path.name.startswith(".")]
        lines = [line.split(" ", 4) for path in files for line in path.read_text().splitlines()]
        assert sorted((int(n), int(square)) for n, square, *_ in lines) == [
            (n, n * n) for n in range(1, NUMBERS + 1)
        ]
        for key in range(KEYS):
            counts = sorted(int(count) for n, _, count, *_ in lines if int(n) % KEYS == key)
            assert counts == list(range(1, NUMBERS // KEYS + 1))
        assert {interpreter for *_, interpreter in lines} == {"in the archive"}
        return {container for *_, container, _ in lines}


def test_a_job_whose_driver_is_here(yarn_cluster: YarnCluster, tmp_path: Path) -> None:
    program = Program(tmp_path)
    options = [word for key, value in program.settings().items() for word in ("-D", f"{key}={value}")]
    travelling = ("-pyfs", str(program.module), "-pyarch", program.archive, "-pyexec", "env/bin/python")
    firesteel = (sys.executable, "-m", "firesteel.cli.main", "run", "-m", "yarn")
    program.run(yarn_cluster, *firesteel, *travelling, *options, *program.words)
    assert program.driver() == "no container"
    assert all(container.startswith("container_") for container in program.check())


def test_a_job_whose_driver_is_in_a_container(yarn_cluster: YarnCluster, tmp_path: Path) -> None:
    program = Program(tmp_path)
    settings = {
        **program.settings(),
        "spark.pyspark.python": "./env/bin/python",
        "spark.driver.extraJavaOptions": QUICK_START,
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    travelling = ("--py-files", str(program.module), "--archives", program.archive)
    submit = (str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster")
    program.run(yarn_cluster, *submit, *travelling, *options, *program.words)
    assert program.driver().startswith("container_")
    assert program.driver() not in program.check(), "tasks are in containers of their own"
