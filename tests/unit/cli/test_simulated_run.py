"""``firesteel run --simulate``: a program runs without Java and Spark, and what cannot be simulated is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firesteel.cli.main import main

Programs = Callable[..., str]
COMMAND = [sys.executable, "-m", "firesteel.cli.main", "run", "--simulate"]

SQUARES = """
import sys, time
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import MapFunction

class Square(MapFunction):
    def map(self, value):
        print("squaring", value)
        return value * value

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_elements(*map(int, sys.argv[1:])).map(Square()).print()
result = env.execute("squares")
print("Spark:", [name for name in sys.modules if name.startswith(("pyspark", "py4j"))])
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", "--simulate", *arguments])


def test_a_program_runs_in_the_simulator(program: Programs, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, program(SQUARES), "2", "3"],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        env={"PATH": "", "FIRESTEEL_HOME": str(tmp_path / "home")},  # no Java anywhere
    )
    assert done.stdout.splitlines() == ["squaring 2", "4", "squaring 3", "9", "Spark: []"] or (
        done.stdout.splitlines() == ["squaring 2", "squaring 3", "4", "9", "Spark: []"]
    )
    assert done.stderr == ""


def test_the_time_of_a_simulated_program_begins_now_and_does_not_take_long(program: Programs) -> None:
    text = """
        import time
        from firesteel.common import WatermarkStrategy
        from firesteel.datastream import StreamExecutionEnvironment
        from firesteel.datastream.functions import KeyedProcessFunction

        class Alarm(KeyedProcessFunction):
            def process_element(self, value, ctx):
                self.set_at = ctx.timer_service().current_processing_time()
                ctx.timer_service().register_processing_time_timer(self.set_at + 3_600_000)

            def on_timer(self, timestamp, ctx):
                yield abs(self.set_at / 1000 - time.time()) < 900, timestamp - self.set_at

        from firesteel.testing import Emit, Pause, ScriptedSource
        env = StreamExecutionEnvironment.get_execution_environment()
        source = ScriptedSource([Emit([1]), Pause(7_200.0)])
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")
        numbers.key_by(lambda n: n).process(Alarm()).print()
        env.execute()
        """
    result = run("-p", "1", program(text))
    assert (result.exit_code, result.stdout) == (0, "(True, 3600000)\n"), result.output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-d"], "tries a program out in this process, and -d would start another one"),
        (["-m", "spark://host:7077"], "-m names a Spark master, and there is no Spark"),
        (["-D", "firesteel.spark.master=local[2]"], "-m names a Spark master, and there is no Spark"),
        (["-D", "firesteel.executor=a:b"], "-D firesteel.executor names another executor"),
        (["-pyexec", "python3"], "-pyexec names an interpreter for the tasks, which run in this process"),
        (["-pyreq", "r.txt"], "-pyreq installs packages for the tasks, which run in this process"),
        (["-pyarch", "a.zip"], "-pyarch unpacks archives for the tasks"),
        (["-pypath", "/x"], "PYTHONPATH does it here"),
    ],
)
def test_what_makes_no_sense_in_the_simulator_is_refused(
    program: Programs, options: list[str], sentence: str
) -> None:
    result = run(*options, program("raise AssertionError('it must not run')"))
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())


def test_a_job_that_fails_names_the_seed(program: Programs) -> None:
    result = run("-D", "firesteel.simulator.seed=7", program(SQUARES.replace("value * value", "1 // 0")), "2")
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr
    assert "simulator seed: 7" in result.stderr
