"""Every way to fail ends in one exception that names who, where and on which record, and nothing else is printed."""

from __future__ import annotations

import pdb
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment
from support import Driver

from firesteel.common import Types
from firesteel.common.errors import (
    FunctionNotSerializableError,
    InvalidKeyError,
    JobExecutionError,
    NotEnoughSlotsError,
    TypeMismatchError,
    UserCodeError,
)
from firesteel.datastream import (
    DiscardingSink,
    MapFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)

pytestmark = pytest.mark.spark

HERE = Path(__file__).name


def divide(value: int) -> float:
    return 10 / (value - 7)


class FailsInOpen(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        raise LookupError("no such table")

    def map(self, value: Any) -> Any:
        return value


class FailsInClose(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        raise OSError("cannot flush")


class FailingSink(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        if value == 3:
            raise ConnectionError("the database is away")


class FailingSource(SourceFunction):
    bounded = True

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        ctx.collect(1)
        raise RuntimeError("the feed is broken")


def failure(env: StreamExecutionEnvironment) -> UserCodeError:
    with pytest.raises(JobExecutionError) as caught:
        env.execute()
    assert isinstance(caught.value, UserCodeError), caught.value
    return caught.value


def line_of(function: Any) -> str:
    return f"{HERE}:{function.__code__.co_firstlineno}"


def test_exception_in_map_names_operator_function_record_and_cause(env: StreamExecutionEnvironment) -> None:
    env.from_collection(range(10)).map(divide).name("ratio").add_sink(DiscardingSink())
    error = failure(env)
    assert error.operator == "ratio"
    assert error.function == f"function divide at {line_of(divide)}"
    assert error.record == "7"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert "10 / (value - 7)" in str(error)
    assert "ZeroDivisionError: division by zero" in str(error)


def test_exception_in_a_lambda_of_the_second_stage(env: StreamExecutionEnvironment) -> None:
    env.from_collection(["a", "", "c"]).rebalance().map(lambda text: text[0]).name("first letter").add_sink(
        DiscardingSink()
    )
    error = failure(env)
    assert error.operator == "first letter"
    assert error.function.startswith(f"lambda at {HERE}:")
    assert error.record == "''"
    assert isinstance(error.__cause__, IndexError)


def test_exception_in_a_key_selector(env: StreamExecutionEnvironment) -> None:
    env.from_collection([{"k": 1}, {}]).key_by(lambda d: d["k"]).map(lambda d: d).add_sink(DiscardingSink())
    error = failure(env)
    assert isinstance(error.__cause__, KeyError)
    assert error.function.startswith(f"lambda at {HERE}:")
    assert error.record == "{}"


def test_exception_in_open(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).rebalance().map(FailsInOpen()).name("enrich").add_sink(DiscardingSink())
    error = failure(env)
    assert error.operator == "enrich"
    assert error.function.startswith(f"class FailsInOpen at {HERE}:")
    assert isinstance(error.__cause__, LookupError)


def test_exception_in_close_of_a_job_that_went_well(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(FailsInClose()).add_sink(DiscardingSink())
    assert isinstance(failure(env).__cause__, OSError)


def test_exception_in_a_sink(env: StreamExecutionEnvironment) -> None:
    env.from_collection(range(5)).add_sink(FailingSink()).name("database")
    error = failure(env)
    assert "database" in error.operator
    assert error.record == "3"
    assert isinstance(error.__cause__, ConnectionError)


def test_exception_in_a_source(env: StreamExecutionEnvironment) -> None:
    env.add_source(FailingSource(), "feed").map(lambda x: x).add_sink(DiscardingSink())
    error = failure(env)
    assert "feed" in error.operator
    assert isinstance(error.__cause__, RuntimeError)


def test_exception_that_cannot_be_pickled_is_still_explained(env: StreamExecutionEnvironment) -> None:
    class Odd(Exception):
        def __init__(self, lock: Any) -> None:
            super().__init__("odd")
            self.lock = lock

    def fail(value: int) -> int:
        raise Odd(threading.Lock())

    env.from_collection([1]).map(fail).add_sink(DiscardingSink())
    assert "Odd: odd" in str(failure(env))


def test_failure_reaches_whoever_reads_results(env: StreamExecutionEnvironment) -> None:
    with (
        pytest.raises(UserCodeError, match="ZeroDivisionError"),
        env.from_collection(range(10)).map(divide).execute_and_collect() as results,
    ):
        list(results)


def test_sys_exit_in_a_function_is_an_error_not_an_end(env: StreamExecutionEnvironment) -> None:
    def leave(value: int) -> int:
        raise SystemExit(3)

    env.from_collection([1]).map(leave).name("leaver").add_sink(DiscardingSink())
    with pytest.raises(UserCodeError) as caught:
        env.execute()
    assert "SystemExit: 3" in str(caught.value)
    assert (caught.value.operator, caught.value.record) == ("leaver", "1")
    assert "leave at test_errors.py" in caught.value.function


@pytest.mark.parametrize(
    "stop", [lambda value: breakpoint(), lambda value: pdb.set_trace(), lambda value: input()]
)
def test_debuggers_say_that_there_is_no_terminal(
    env: StreamExecutionEnvironment, stop: Callable[[int], None]
) -> None:
    env.from_collection([1]).map(stop).name("stops").add_sink(DiscardingSink())
    error = failure(env)
    assert error.operator == "stops"
    assert "cannot work in a task on Spark" in error.reason
    assert "firesteel run --simulate" in error.reason


def test_function_that_cannot_be_pickled_is_refused_where_it_is_used(env: StreamExecutionEnvironment) -> None:
    lock = threading.Lock()
    with pytest.raises(FunctionNotSerializableError, match=rf"map\(\).*{HERE}.*open\(\)"):
        env.from_collection([1]).map(lambda x: (x, lock))


def test_key_that_cannot_be_hashed_stably(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).key_by(lambda x: object()).map(lambda x: x).add_sink(DiscardingSink())
    assert isinstance(failure(env).__cause__, InvalidKeyError)


def test_value_that_does_not_fit_its_type(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1, 2]).map(lambda x: "two" if x == 2 else x, output_type=Types.INT()).name(
        "to int"
    ).add_sink(DiscardingSink())
    error = failure(env)
    assert error.operator == "to int"
    assert isinstance(error.__cause__, TypeMismatchError)
    assert "expected Integer, got 'two' (str)" in str(error)


def test_too_few_slots_gives_both_numbers_and_the_remedy(environment: SparkEnvironment) -> None:
    env = environment(3, **{"firesteel.spark.slots": 4})
    env.from_sequence(1, 10).rebalance().map(lambda x: x).add_sink(DiscardingSink())
    with pytest.raises(
        NotEnoughSlotsError, match=r"needs 6 slots.*has 4;.*set_parallelism.*spark\.slots"
    ) as caught:
        env.execute()
    assert (caught.value.needed, caught.value.available) == (6, 4)


def test_session_grows_again_for_the_next_job(env: StreamExecutionEnvironment) -> None:
    """After a job that asked for few slots, one that asks for nothing gets what it needs."""
    with env.from_sequence(1, 10).rebalance().map(lambda x: x).execute_and_collect() as results:
        assert sorted(results) == list(range(1, 11))


def test_missing_module_is_named_with_the_remedy(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    import sys

    (tmp_path / "only_in_driver.py").write_text("def twice(x):\n    return 2 * x\n")
    sys.path.insert(0, str(tmp_path))
    try:
        from only_in_driver import twice  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
    env.from_collection([1]).map(twice).add_sink(DiscardingSink())
    with pytest.raises(JobExecutionError, match=r"only_in_driver.*add_python_file"):
        env.execute()


# What the terminal shows --------------------------------------------------------------------------------

PROGRAM = """
import sys
from firesteel.datastream import DiscardingSink, MapFunction, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)

def execute():
    try:
        env.execute()
    except Exception as error:
        print(type(error).__name__)

{body}
"""

FAILURES = """
env.from_collection(range(9)).map(lambda x: 1 / (x - 5)).print()
execute()
env.from_collection(range(9)).rebalance().map(lambda x: 1 / (x - 5)).add_sink(DiscardingSink())
execute()
class M(MapFunction):
    def open(self, ctx):
        raise ValueError("not open")
    def map(self, x):
        return x
env.from_collection([1]).rebalance().map(M()).print()
execute()
env.from_sequence(1, 10_000_000).key_by(lambda x: x % 100).map(lambda x: 1 / (x - 300_000)).add_sink(DiscardingSink())
"""

NOISE = ("Py4J", "java.", "at org.apache", "WARN", "pyspark", "Setting default log level", "BrokenPipe")


def test_failing_jobs_show_one_traceback_and_no_noise(driver: Callable[..., Driver], tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(PROGRAM.format(body=FAILURES + "\nenv.execute()\n"))
    run = driver("-m", "firesteel.cli.main", "run", str(job))
    assert run.wait() == 1
    assert run.stdout().splitlines()[-3:] == ["UserCodeError"] * 3
    text = run.stderr()
    assert text.count("UserCodeError") == 1, text
    assert "job.py" in text
    assert [noise for noise in NOISE if noise in text] == [], text


OWN_SESSION = """
import sys
from pyspark.sql import SparkSession
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.common.errors import SparkSettingsError

builder = SparkSession.builder.master("local[8]").config("spark.ui.enabled", "false")
session = builder.getOrCreate()
env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)

def job():
    return sorted(env.from_collection([1, 2, 3]).rebalance().map(lambda x: x * 2).execute_and_collect())

try:
    job()
except SparkSettingsError as error:
    print("refused:", error)
session.stop()

for key in ("spark.python.udf.pipelined.enabled", "spark.python.unix.domain.socket.enabled"):
    builder = builder.config(key, "true")
session = builder.config("spark.sql.adaptive.enabled", "false").getOrCreate()
print(job(), session.range(10).count())
session.stop()
print(job())
"""


def test_session_of_the_user_is_checked_used_and_left_alone(
    driver: Callable[..., Driver], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(OWN_SESSION)
    run = driver(str(tmp_path / "job.py"))
    assert run.wait() == 0, run.stderr()
    text = run.stdout()
    assert "refused: the active SparkSession lacks settings" in text
    assert "spark.python.udf.pipelined.enabled=true" in text
    assert text.endswith("[2, 4, 6] 10\n[2, 4, 6]\n")
