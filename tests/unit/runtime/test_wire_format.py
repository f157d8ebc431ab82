"""Whatever is sent arrives equal: values, timestamps, rows, signals, headers."""

from __future__ import annotations

import decimal
import pickle
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from firesteel.common.types import Row, RowKind
from firesteel.plan.state_handles import CheckpointKind, CheckpointOrder
from firesteel.runtime import wire_format
from firesteel.runtime.elements import (
    END_OF_INPUT,
    Barrier,
    Chunk,
    Element,
    LatencyMarker,
    StreamStatus,
    WatermarkSignal,
)
from firesteel.runtime.wire_format import DATA, ROWS, decode, encode, encode_chunk_body, read_header


@dataclass
class Point:
    x: int
    y: Any = None


def round_trip(element: Element) -> Element:
    payload = encode(element, 1, 2, 3, 4)
    header = read_header(memoryview(payload))
    assert tuple(header)[1:] == (1, 2, 3, 4)
    return decode(header.kind, memoryview(payload))


@pytest.mark.parametrize(
    "values",
    [
        [1, -1, 2**80, 0],
        [1.5, float("inf"), -0.0],
        ["", "ü€😀", "\ud800"],
        [b"", b"\x00\xff"],
        [None, True, False],
        [(1, "a"), (2, "b")],
        [[1, [2, [3]]], []],
        [{"a": 1, "b": {"c": [None]}}],
        [Point(1), Point(2)],
        [decimal.Decimal("1.10")],
        [{1, 2}, frozenset({3})],
        [complex(1, 2)],
    ],
)
@pytest.mark.parametrize("timed", [False, True])
def test_chunk_round_trip(values: list[Any], timed: bool) -> None:
    chunk = Chunk(values, [None, *range(len(values) - 1)] if timed else None)
    assert round_trip(chunk) == chunk


@pytest.mark.parametrize(
    "element",
    [
        WatermarkSignal(-(2**63)),
        WatermarkSignal(2**63 - 1),
        StreamStatus(True),
        StreamStatus(False),
        Barrier(CheckpointOrder(7, 1_700_000_000_000, CheckpointKind.STOP, "file:/x", "chk-7", True)),
        LatencyMarker(-123, "0a1b", 4_000_000_000),
        END_OF_INPUT,
    ],
)
def test_signal_round_trip(element: Element) -> None:
    assert round_trip(element) == element


def test_header_holds_the_largest_numbers() -> None:
    payload = encode(END_OF_INPUT, 2**16 - 1, 2**16 - 1, 2**16 - 1, 2**64 - 1)
    assert tuple(read_header(payload))[1:] == (2**16 - 1, 2**16 - 1, 2**16 - 1, 2**64 - 1)


# Rows --------------------------------------------------------------------------------------------------


def rows_of(values: list[Any]) -> list[Any]:
    result = round_trip(Chunk(values))
    assert isinstance(result, Chunk)
    return result.values


def test_rows_of_one_shape_travel_as_tuples() -> None:
    assert encode_chunk_body([Row(a=1), Row(a=2)], None)[0] == ROWS


def test_row_names_and_kinds_come_along() -> None:
    sent = [Row(a=1, b="x"), Row.of_kind(RowKind.DELETE, a=2, b=None)]
    received = rows_of(sent)
    assert received == sent
    assert [row.get_row_kind() for row in received] == [RowKind.INSERT, RowKind.DELETE]
    assert received[0].as_dict() == {"a": 1, "b": "x"}


def test_positional_rows_stay_positional() -> None:
    assert rows_of([Row(1, 2), Row(3, 4)]) == [Row(1, 2), Row(3, 4)]


def test_rows_of_different_shapes_travel_as_objects() -> None:
    sent = [Row(a=1), Row(b=2), Row(3)]
    assert encode_chunk_body(sent, None)[0] == DATA
    assert rows_of(sent) == sent


def test_rows_among_other_values() -> None:
    assert rows_of([Row(a=1), 5, "x"]) == [Row(a=1), 5, "x"]
    assert rows_of([5, Row(a=1)]) == [5, Row(a=1)]


def test_rows_with_timestamps() -> None:
    chunk = Chunk([Row(1), Row(2)], [10, None])
    assert round_trip(chunk) == chunk


# Odd values --------------------------------------------------------------------------------------------


def test_first_record_plain_and_later_ones_objects() -> None:
    assert rows_of([1, Point(1, Point(2)), "x", Row(a=Point(3))]) == [
        1,
        Point(1, Point(2)),
        "x",
        Row(a=Point(3)),
    ]


def test_cyclic_list_behind_a_plain_first_record() -> None:
    cyclic: list[Any] = [1]
    cyclic.append(cyclic)
    received = rows_of([0, cyclic])
    assert received[1][1] is received[1]


def test_cyclic_object_behind_a_plain_first_record() -> None:
    point = Point(1)
    point.y = {"me": point}
    received = rows_of([0, point])
    assert received[1].y["me"] is received[1]


def test_cyclic_first_record() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    (received,) = rows_of([cyclic])
    assert received[0] is received


def test_deeply_nested_value() -> None:
    deep: Any = 0
    for _ in range(200):
        deep = [deep]
    assert rows_of([deep]) == [deep]


def test_huge_values() -> None:
    sent = [b"x" * 5_000_000, "y" * 3_000_000, list(range(200_000))]
    assert rows_of(sent) == sent


def test_instances_of_a_class_that_cannot_be_imported_arrive() -> None:
    # As with classes of the user's main program, which the workers know only by value.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("class Local:\n    def __init__(self, x): self.x = x\n", namespace)
    local = namespace["Local"]
    for sent in ([local(1), local(2)], [0, local(3)], [Row(a=local(4))]):
        received = rows_of(sent)
        last = received[-1]
        assert (last["a"] if isinstance(last, Row) else last).x in (2, 3, 4)


def test_a_value_that_cannot_travel_raises() -> None:
    with pytest.raises((TypeError, pickle.PicklingError)):
        encode_chunk_body([threading.Lock()], None)


@pytest.mark.parametrize(("flat", "times"), [(True, 2), (False, 1)])
def test_flat_values_are_written_without_a_memo(flat: bool, times: int) -> None:
    # That it is off shows in the repeated text.
    text = "a text that is written twice"
    _, body = encode_chunk_body([(text, 1), (text, 2)], None, flat=flat)
    assert body.count(text.encode()) == times
    assert wire_format.HEADER_SIZE == 15


@pytest.mark.parametrize("first", [1, (1, 2), {"a": 1}], ids=str)
def test_what_is_in_a_record_twice_arrives_as_one_object(first: Any) -> None:
    shared = [1]
    received = rows_of([first, {"here": shared, "there": (shared,)}])[1]
    assert received["here"] is received["there"][0]
