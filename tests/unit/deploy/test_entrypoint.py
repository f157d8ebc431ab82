"""The entry point of the image: what becomes of a container, told by its words and variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[3] / "deploy" / "docker" / "entrypoint.sh"


class Image:
    """Programs that print with what they were called, where the image has the real ones."""

    def __init__(self, directory: Path) -> None:
        self.programs = directory / "bin"
        self.spark = directory / "spark"
        for name in (
            "bin/firesteel",
            "bin/java",
            "bin/job",
            "spark/bin/spark-class",
            "spark/bin/spark-submit",
        ):
            program = directory / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f'#!/bin/bash\nprintf "%s\\n" {program.name} "$@"\n')
            program.chmod(0o755)
        (self.programs / "python").symlink_to(sys.executable)

    def run(self, *words: str, **variables: str) -> list[str]:
        environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "SPARK_HOME": str(self.spark),
            **variables,
        }
        done = subprocess.run(
            ["bash", ENTRYPOINT, *words], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def test_words_are_a_command_of_firesteel_unless_they_are_a_program(image: Image) -> None:
    assert image.run("cluster", "start", "--foreground") == ["firesteel", "cluster", "start", "--foreground"]
    assert image.run("run", "a b.py", "--x") == ["firesteel", "run", "a b.py", "--x"]
    assert image.run("job", "1") == ["job", "1"]


def test_daemons_of_spark_are_told_their_host(image: Image) -> None:
    master = image.run("master", "--port", "7077", SPARK_DAEMON_HOST="here")
    assert master == [
        "spark-class",
        "org.apache.spark.deploy.master.Master",
        "--host",
        "here",
        "--port",
        "7077",
    ]
    worker = image.run("worker", "spark://master:7077", SPARK_DAEMON_HOST="there")
    assert worker == [
        "spark-class",
        "org.apache.spark.deploy.worker.Worker",
        "--host",
        "there",
        "spark://master:7077",
    ]


EXECUTOR = {
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "4",
    "SPARK_APPLICATION_ID": "spark-7",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
    "SPARK_EXECUTOR_POD_NAME": "word-count-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def test_executor_gets_the_java_options_in_their_order(image: Image) -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number} x" for number in range(12)}
    words = image.run("executor", **EXECUTOR, **options)
    assert words[0] == "java"
    assert words[1:13] == [f"-Dn={number} x" for number in range(12)]
    assert words[13:15] == ["-Xms1g", "-Xmx1g"]


def test_executor_gets_what_spark_says_in_variables(image: Image) -> None:
    words = image.run("executor", **EXECUTOR, SPARK_CONF_DIR="/opt/spark/conf")
    assert words[3:5] == ["-cp", f"/opt/spark/conf:{image.spark}/jars/*:"]
    given = dict(zip(words[6::2], words[7::2], strict=True))
    assert given == {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "4",
        "--app-id": "spark-7",
        "--hostname": "10.0.0.9",
        "--resourceProfileId": "0",
        "--podName": "word-count-exec-3",
    }


def test_driver_of_spark_submit_runs_beside_it(image: Image) -> None:
    words = image.run("driver", "--properties-file", "p", "job.py", SPARK_DRIVER_BIND_ADDRESS="10.0.0.2")
    bind = ["--conf", "spark.driver.bindAddress=10.0.0.2"]
    assert words == ["spark-submit", "--deploy-mode", "client", *bind, "--properties-file", "p", "job.py"]


def test_properties_join_the_configuration_file(image: Image, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "config.yaml").write_text("a.b: 1")
    show = ("sh", "-c", 'cat "$FIRESTEEL_CONF_DIR/config.yaml"')
    properties = "c.d: 2\ne.f: 3"
    both = image.run(*show, FIRESTEEL_CONF_DIR=str(conf), FIRESTEEL_PROPERTIES=properties)
    assert [line for line in both if line] == ["a.b: 1", "c.d: 2", "e.f: 3"]
    alone = image.run(*show, FIRESTEEL_PROPERTIES=properties)
    assert [line for line in alone if line] == ["c.d: 2", "e.f: 3"]
    assert (conf / "config.yaml").read_text() == "a.b: 1"
