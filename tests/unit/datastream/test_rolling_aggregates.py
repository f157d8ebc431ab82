from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import cloudpickle
import pytest

from firesteel.common import Row, RowKind
from firesteel.common.errors import ProgramError
from firesteel.datastream._rolling_aggregates import RollingExtreme, RollingExtremeBy, RollingSum


@dataclass(frozen=True)
class Reading:
    sensor: str
    value: int


class Pair(NamedTuple):
    sensor: str
    value: int


class Plain:
    def __init__(self, sensor, value):
        self.sensor, self.value = sensor, value

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


MAKERS = {
    "tuple by position": (lambda s, v: (s, v), 1),
    "tuple by name": (lambda s, v: (s, v), "f1"),
    "list": (lambda s, v: [s, v], 1),
    "row by position": (lambda s, v: Row(s, v), 1),
    "row by name": (lambda s, v: Row(sensor=s, value=v), "value"),
    "dict": (lambda s, v: {"sensor": s, "value": v}, "value"),
    "dataclass": (Reading, "value"),
    "named tuple by name": (Pair, "value"),
    "named tuple by position": (Pair, 1),
    "object": (Plain, "value"),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
def kind(request):
    return request.param


def aggregate(function, values):
    return reduce(cloudpickle.loads(cloudpickle.dumps(function)).reduce, values)


def test_sum_keeps_the_other_fields_of_the_first_record(kind):
    make, field = kind
    assert aggregate(RollingSum(field), [make("a", 1), make("b", 2), make("c", 4)]) == make("a", 7)


def test_min_and_max_keep_the_other_fields_of_the_first_record(kind):
    make, field = kind
    values = [make("a", 2), make("b", 1), make("c", 3)]
    assert aggregate(RollingExtreme(field, largest=False), values) == make("a", 1)
    assert aggregate(RollingExtreme(field, largest=True), values) == make("a", 3)


def test_min_by_and_max_by_return_the_record(kind):
    make, field = kind
    values = [make("a", 2), make("b", 1), make("c", 3), make("d", 1), make("e", 3)]
    assert aggregate(RollingExtremeBy(field, largest=False), values) == make("b", 1)
    assert aggregate(RollingExtremeBy(field, largest=True), values) == make("c", 3)
    assert aggregate(RollingExtremeBy(field, largest=False, first=False), values) == make("d", 1)
    assert aggregate(RollingExtremeBy(field, largest=True, first=False), values) == make("e", 3)


def test_earlier_results_are_not_changed(kind):
    make, field = kind
    function = RollingSum(field)
    first = make("a", 1)
    second = function.reduce(first, make("b", 2))
    function.reduce(second, make("c", 3))
    assert (first, second) == (make("a", 1), make("a", 3))


def test_plain_values_are_their_own_field():
    assert aggregate(RollingSum(0), [1, 2, 3]) == 6
    assert aggregate(RollingExtreme(0, largest=False), [2, 1, 3]) == 1
    assert aggregate(RollingExtremeBy(0, largest=True), [2, 1, 3]) == 3


def test_row_kind_and_named_tuple_class_stay():
    row = Row.of_kind(RowKind.UPDATE_AFTER, "a", 1)
    assert RollingSum(1).reduce(row, Row("a", 2)).get_row_kind() is RowKind.UPDATE_AFTER
    assert type(RollingSum("value").reduce(Pair("a", 1), Pair("a", 2))) is Pair


def test_a_field_of_a_plain_value_is_refused():
    with pytest.raises(ProgramError, match="field 1 of 5: a single value has no fields; use position 0"):
        RollingSum(1).reduce(5, 6)


def test_an_unknown_name_is_refused():
    with pytest.raises(ProgramError, match=r"no field 'age' in \('a', 1\)"):
        RollingSum("age").reduce(("a", 1), ("a", 2))


@pytest.mark.parametrize("record", [("a", 1), ["a", 1], Row("a", 1), Pair("a", 1)], ids=repr)
@pytest.mark.parametrize("position", [2, -3])
def test_a_position_behind_the_last_field_is_refused(record, position):
    for aggregate in (RollingSum(position), RollingExtreme(position, True), RollingExtremeBy(position, True)):
        with pytest.raises(ProgramError, match=rf"no field {position} in .*; it has fields 0 to 1"):
            aggregate.reduce(record, record)
