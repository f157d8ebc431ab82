"""A program that spark-submit starts runs in the JVM that is there, with the settings it was given."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from firesteel._java import find_java, quiet_home

pytestmark = pytest.mark.spark

# Six tasks at once: more than local[*], which is what spark-submit says when nobody names a master, has slots on a small machine.
PROGRAM = """
from firesteel.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(3)
numbers = env.from_sequence(1, 6)
numbers.key_by(lambda n: n % 3).map(lambda n: n * n).print("square")
env.execute("squares")
"""


def test_a_submitted_program_runs_with_the_settings_of_spark_submit(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    scripts = Path(sys.executable).parent
    given = ["spark.ui.enabled=true", "spark.ui.port=0", "spark.log.level=ERROR"]
    settings = [argument for setting in given for argument in ("--conf", setting)]
    done = subprocess.run(
        [scripts / "spark-submit", *settings, "job.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "JAVA_HOME": str(quiet_home(find_java())),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    printed = [line.rpartition("> ")[2] for line in done.stdout.splitlines() if line.startswith("square")]
    assert sorted(map(int, printed)) == [1, 4, 9, 16, 25, 36]
    # spark-submit joins both streams of a Python program.
    assert re.search(r"Spark's own user interface is at http://[\w.-]+:\d+ ", done.stdout)
