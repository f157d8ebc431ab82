"""Which executor a worker belongs to, from the command lines of its ancestors."""

from __future__ import annotations

from pathlib import Path

from firesteel.spark.executor_id import executor_id


def process(processes: Path, number: int, parent: int, *words: str) -> None:
    directory = processes / str(number)
    directory.mkdir()
    (directory / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")
    (directory / "stat").write_text(f"{number} (a (strange) name) S {parent} 1 1 0")


def test_the_executor_is_named_on_the_command_line_of_its_jvm(tmp_path: Path) -> None:
    process(
        tmp_path, 10, 1, "java", "org...CoarseGrainedExecutorBackend", "--executor-id", "7", "--hostname", "h"
    )
    process(tmp_path, 20, 10, "python", "-m", "pyspark.daemon")
    process(tmp_path, 30, 20, "python", "-m", "pyspark.daemon")
    assert executor_id(tmp_path, 30) == "7"


def test_an_embedded_spark_has_no_other_than_the_driver(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, "init")
    process(tmp_path, 10, 1, "java", "org.apache.spark.deploy.SparkSubmit")
    process(tmp_path, 20, 10, "python", "-m", "pyspark.daemon")
    assert executor_id(tmp_path, 20) == "driver"


def test_where_nobody_can_look_it_is_the_driver(tmp_path: Path) -> None:
    assert executor_id(tmp_path, 5) == "driver"
