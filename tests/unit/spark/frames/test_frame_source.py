"""Files of Arrow batches, as Spark writes them for `from_spark`, read as records."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common import Row
from firesteel.common.errors import FileMissingError, ProgramError, WrongArgumentError
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.spark.frames.arrow_values import batch_reader
from firesteel.spark.frames.frame_source import FrameFile, FrameSource
from firesteel.spark.frames.record_forms import RecordForm
from firesteel.testing import CheckpointHarness, simulated_environment

NUMBERS = pa.schema([("n", pa.int64())])


def written(directory: Path, *partitions: list[list[int]]) -> tuple[FrameFile, ...]:
    files = []
    for number, batches in enumerate(partitions):
        path = str(directory / f"{number}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, NUMBERS) as writer:
            for batch in batches:
                writer.write_batch(pa.record_batch([pa.array(batch, pa.int64())], schema=NUMBERS))
        files.append(FrameFile(path, len(batches), sum(map(len, batches))))
    return tuple(files)


def tuples(files: tuple[FrameFile, ...]) -> FrameSource:
    return FrameSource(files, RecordForm(tuple))


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_every_row_is_read_once(tmp_path: Path, parallelism: int) -> None:
    files = written(tmp_path, [[1, 2], [3]], [], [[4, 5, 6]], [[n] for n in range(10, 40)])
    env = simulated_environment(1, parallelism)
    found = sorted(n for (n,) in read(env, tuples(files)))
    assert found == [*range(1, 7), *range(10, 40)]


def read(env: StreamExecutionEnvironment, source: FrameSource) -> list[Any]:
    from firesteel.common import WatermarkStrategy

    return list(env.from_source(source, WatermarkStrategy.no_watermarks(), "frame").execute_and_collect())


def test_one_reader_keeps_the_order_of_the_dataframe(tmp_path: Path) -> None:
    files = written(tmp_path, [[1, 2], [3]], [[4]])
    assert CheckpointHarness(tuples(files))[0].drain(limit=2) == [(1,), (2,), (3,), (4,)]


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(1, 5), max_size=20), max_size=4),
    cut=st.integers(0, 60),
    limit=st.integers(1, 7),
    before=st.integers(1, 3),
    after=st.integers(1, 3),
)
def test_a_checkpoint_continues_where_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[list[int]],
    cut: int,
    limit: int,
    before: int,
    after: int,
) -> None:
    numbers = iter(range(10_000))
    partitions = [[[next(numbers) for _ in range(size)] for size in batches] for batches in sizes]
    source = tuples(written(tmp_path_factory.mktemp("frame"), *partitions))
    first = CheckpointHarness(source, before)
    for step in range(cut):
        first[step % before].poll(limit)
    snapshot = first.checkpoint(1)
    second = CheckpointHarness(source, after, restore=snapshot)
    found = [n for subtask in first for (n,) in subtask.output.values]
    found += [n for subtask in second for (n,) in subtask.drain(limit)]
    assert sorted(found) == [n for batches in partitions for batch in batches for n in batch]


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    source = tuples((FrameFile(str(tmp_path / "gone.arrow"), 1, 1),))
    with pytest.raises(FileMissingError, match=r"gone\.arrow .* is not there; from_spark\(directory"):
        source.create_reader(None)._read(source.splits_of(0, 1)[0])  # type: ignore[arg-type,attr-defined]


# Values -------------------------------------------------------------------------------------------------


def records(values: list[Any], kind: pa.DataType, form: Any = Row) -> list[Any]:
    batch = pa.record_batch([pa.array(values, kind)], names=["c"])
    whole = batch_reader(batch.schema, RecordForm(form))(batch)
    # Arrow's slices have offsets of their own.
    assert batch_reader(batch.schema, RecordForm(form))(batch.slice(1)) == whole[1:]
    return whole


def test_moments_are_in_utc_and_times_without_zone_have_none() -> None:
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, dt.UTC)
    found = records([moment, None], pa.timestamp("us", "Europe/Berlin"))
    assert [row.c for row in found] == [moment, None]
    assert found[0].c.tzinfo is dt.UTC
    naive = dt.datetime(2024, 5, 6, 7, 8, 9)
    assert [row.c for row in records([naive, None], pa.timestamp("us"))] == [naive, None]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (decimal.Decimal("12.340"), pa.decimal128(10, 3)),
        (dt.date(2024, 1, 2), pa.date32()),
        (dt.timedelta(days=1, microseconds=5), pa.duration("us")),
        (b"\x00\xff", pa.binary()),
        ([1, None, 3], pa.list_(pa.int32())),
        ("text", pa.string()),
        (2.5, pa.float64()),
        (True, pa.bool_()),
    ],
)
def test_plain_values_are_what_python_has(value: Any, kind: pa.DataType) -> None:
    assert [row.c for row in records([value, None, value], kind)] == [value, None, value]


POINT = pa.struct([("x", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
AT = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def test_structs_are_rows_in_rows_lists_and_maps() -> None:
    value = [("k", [{"x": 1, "at": AT}, None]), ("l", None), ("m", [])]
    found = records([value, None, []], pa.map_(pa.string(), pa.list_(POINT)))
    assert [row.c for row in found] == [{"k": [Row(x=1, at=AT), None], "l": None, "m": []}, None, {}]


def test_structs_have_the_form_that_was_asked_for() -> None:
    assert records([{"x": 1, "at": AT}, None], POINT, dict) == [{"c": {"x": 1, "at": AT}}, {"c": None}]
    assert records([{"x": 1, "at": AT}, None], POINT, tuple) == [((1, AT),), (None,)]


@dataclass
class Point:
    x: int
    at: dt.datetime | None = None

    def __post_init__(self) -> None:
        assert self.x is not None  # never asked about a struct that is not there


@dataclass
class Place:
    c: Point | None
    note: str = "-"


class Pair(NamedTuple):
    c: list[Point]


class Typed(TypedDict):
    c: int


def test_classes_say_what_becomes_of_structs() -> None:
    found = records([{"x": 1, "at": AT}, None], POINT, Place)
    assert found == [Place(Point(1, AT)), Place(None)]
    assert records([[{"x": 1, "at": AT}], []], pa.list_(POINT), Pair) == [Pair([Point(1, AT)]), Pair([])]
    assert records([1, 2], pa.int64(), Typed) == [{"c": 1}, {"c": 2}]


def test_columns_that_a_class_has_no_field_for_are_refused() -> None:
    with pytest.raises(ProgramError, match="Point: it has no field for 'y'; its fields 'x' have no column"):
        RecordForm(Point).check(["y"], "rows")


def test_what_cannot_be_a_record_is_refused() -> None:
    with pytest.raises(WrongArgumentError, match="can be Row, dict, tuple, or objects of a dataclass"):
        RecordForm(int)
