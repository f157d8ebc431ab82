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
from support import PATIENCE, PROGRAMS, archived_interpreter

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

    def start(self, cluster: YarnCluster, *command: str) -> None:
        environment = {
            **os.environ,
            "HADOOP_CONF_DIR": str(cluster.configuration),
            "FIRESTEEL_HOME": str(self.directory / "home"),
            "SPARK_HOME": str(SPARK_HOME),
            "JAVA_HOME": str(quiet_home(find_java())),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with (self.directory / "said").open("w") as said:
            self._process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def await_end(self, cluster: YarnCluster) -> None:
        try:
            code = self._process.wait(PATIENCE)
        finally:
            self._process.kill()
        said = (self.directory / "said").read_text()
        assert code == 0, f"{said[-6000:]}\n{cluster.container_logs()}"

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


def start_here(cluster: YarnCluster, directory: Path) -> Program:
    """With the driver on this machine."""
    program = Program(directory)
    options = [word for key, value in program.settings().items() for word in ("-D", f"{key}={value}")]
    travelling = ("-pyfs", str(program.module), "-pyarch", program.archive, "-pyexec", "env/bin/python")
    firesteel = (sys.executable, "-m", "firesteel.cli.main", "run", "-m", "yarn")
    program.start(cluster, *firesteel, *travelling, *options, *program.words)
    return program


def start_in_a_container(cluster: YarnCluster, directory: Path) -> Program:
    """With the driver in the container of the application's master."""
    program = Program(directory)
    settings = {
        **program.settings(),
        "spark.pyspark.python": "./env/bin/python",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.ui.enabled": "false",
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    travelling = ("--py-files", str(program.module), "--archives", program.archive)
    submit = (str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster")
    program.start(cluster, *submit, *travelling, *options, *program.words)
    return program


def test_jobs_with_the_driver_here_and_with_the_driver_in_a_container(
    yarn_cluster: YarnCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = start_here(yarn_cluster, tmp_path_factory.mktemp("here"))
    contained = start_in_a_container(yarn_cluster, tmp_path_factory.mktemp("contained"))
    for program in (here, contained):
        program.await_end(yarn_cluster)
    assert here.driver() == "no container"
    assert all(container.startswith("container_") for container in here.check())
    assert contained.driver().startswith("container_")
    assert contained.driver() not in contained.check(), "tasks are in containers of their own"
