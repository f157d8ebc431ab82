"""DataFrames as streams, streams as DataFrames, and a sink that writes through Spark."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment

from firesteel.common import Types
from firesteel.datastream import MapFunction
from firesteel.datastream.connectors import RateLimiterStrategy
from firesteel.datastream.connectors.spark import SparkSink

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

PAGE = Path(__file__).parents[2] / "docs" / "spark_dataframes.md"
PROGRAM = re.compile(
    r"^```python spark(?P<raises> raises)?\n(?P<text>.*?)^```\n\n```output\n(?P<output>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture
def session(environment: SparkEnvironment) -> Iterator[Any]:
    """The session, which does not stay for other tests: they may need one with other slots."""
    session = environment().spark_session()
    yield session
    session.stop()


def test_programs_of_the_page_print_what_it_shows(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    programs = list(PROGRAM.finditer(PAGE.read_text(encoding="utf-8")))
    assert len(programs) == 5
    names: dict[str, Any] = {"__name__": "__main__"}
    for program in programs:
        printed = io.StringIO()
        # Spark's JVM has been started elsewhere, and relative paths are its own.
        text = program["text"].replace("big-orders", str(tmp_path / "big-orders"))
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(text, PAGE.name, "exec"), names)
            except Exception as error:
                if not program["raises"]:
                    raise
                print(f"{type(error).__name__}: {error}")
        agrees = doctest.OutputChecker().check_output(program["output"], printed.getvalue(), doctest.ELLIPSIS)
        assert agrees, f"{program['text']} prints {printed.getvalue()}"


def test_values_of_every_type_come_and_go_unchanged(environment: SparkEnvironment, session: Any) -> None:
    frame = session.sql(
        "select id, cast(id % 100 as tinyint) y, cast(id as decimal(20, 3)) d, cast(id as double) f, id % 2 = 0 b, "
        "timestamp'2024-01-02 03:04:05.123456' + make_interval(0, 0, 0, cast(id as int)) t, "
        "timestamp_ntz'2024-01-02 03:04:05.5' n, date'2024-05-06' day, if(id = 3, null, array(id, null)) a, "
        "map('k', named_struct('x', id, 'at', timestamp'2024-01-01 00:00:00')) m, cast('ab' as binary) raw, "
        "if(id = 4, null, named_struct('p', 1, 'q', array(named_struct('z', 'zz')))) s, cast(null as string) nothing "
        "from range(0, 1000, 1, 7)"
    )
    stream = environment(2).from_spark(frame).map(lambda row: row)
    back = stream.to_spark(schema=frame.schema)
    assert back.count() == 1000
    assert [field.dataType.simpleString() for field in back.schema] == [
        field.dataType.simpleString() for field in frame.schema
    ]
    texts = [
        sorted(row["text"] for row in each.selectExpr("to_json(struct(*)) as text").collect())
        for each in (frame, back)
    ]
    assert texts[0] == texts[1]


class FailsOnce(MapFunction):
    """Fails at a record, if nobody has done so before."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def map(self, value: tuple[int, int]) -> tuple[int, int]:
        if value[0] == 1500 and not self._mark.exists():
            self._mark.touch()
            raise RuntimeError("on purpose")
        return value


def test_records_of_checkpoints_are_written_once_although_tasks_and_the_function_fail(
    environment: SparkEnvironment, session: Any, tmp_path: Path
) -> None:
    calls: list[int] = []

    def write(frame: Any, checkpoint_id: int) -> None:
        calls.append(checkpoint_id)
        if len(calls) == 2:
            raise OSError("the database is away")
        frame.write.mode("append").parquet(str(tmp_path / "out"))  # a second call would show

    options = {
        "execution.checkpointing.interval": "500 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = environment(2, **options)
    rows = Types.ROW_NAMED(["number", "square"], [Types.LONG(), Types.LONG()])
    numbers = env.from_data_gen(lambda n: (n, n * n), 4000, RateLimiterStrategy.per_second(1000))
    failing = numbers.map(FailsOnce(tmp_path / "failed"), output_type=rows)
    failing.sink_to(SparkSink(write, str(tmp_path / "staging")))
    env.execute()
    found = session.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row["number"] for row in found) == list(range(4000))
    assert all(row["square"] == row["number"] ** 2 for row in found)
    assert calls == sorted(calls)
    assert calls[1] == calls[2], "what failed is tried again"
    assert (tmp_path / "failed").exists()
    assert list((tmp_path / "staging").glob("*/released/*")) == []
