"""The rule for keys, function by function."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from firesteel.common.errors import InvalidKeyError, TypeMismatchError
from firesteel.common.typeinfo import Types
from firesteel.common.types import Row
from firesteel.plan.key_groups import stable_hash
from firesteel.plan.keys import KeyForm, KeyRule, fast_reader, subscript
from firesteel.plan.value_key import ValueKey, shown

OFFSET = 1


def of_def(record: Any) -> Any:
    return record[0]


@pytest.mark.parametrize(
    ("function", "index"),
    [
        (of_def, 0),
        (lambda record: record[2], 2),
        (lambda record: record["name"], "name"),
        (lambda record: record[-1], -1),
        (lambda record: record[OFFSET], None),
        (lambda record, more=1: record[0], None),
        (lambda *record: record[0], None),
        (lambda record, *, named: record[0], None),
        (lambda record: (record[0],), None),
        (lambda record: record[None], None),
        (len, None),
    ],
)
def test_subscripts_are_read_off_and_nothing_else(function: Any, index: Any) -> None:
    assert subscript(function) == index


@pytest.mark.parametrize("read", [lambda record: record[0], lambda record: next(iter(record))])
@pytest.mark.parametrize(
    ("key_type", "key", "expected"),
    [
        (None, 5, 5),
        (None, 2.0, 2.0),
        (None, ("a", 1), ("a", 1)),
        (None, Row(a=1), Row(a=1)),
        (None, [1], ValueKey([1])),
        (Types.LONG(), -(2**63), -(2**63)),
        (Types.LONG(), 2**63, -(2**63)),
        (Types.INT(), 2**31 - 1, 2**31 - 1),
        (Types.INT(), True, 1),
        (Types.BYTE(), -129, 127),
        (Types.STRING(), "a", "a"),
        (Types.STRING(), None, None),
        (Types.BOOLEAN(), 0, False),
        (Types.LIST(Types.DOUBLE()), [1], ValueKey([1.0])),
    ],
)
def test_keys_by_type(read: Any, key_type: Any, key: Any, expected: Any) -> None:
    key_of = fast_reader(read, KeyRule(read, key_type))
    for _ in range(2):  # the second time it is known
        found = key_of((key,))
        assert (type(found), found, repr(found)) == (type(expected), expected, repr(expected))
        assert KeyForm(key_type)(key) == expected


@pytest.mark.parametrize("read", [lambda record: record[0], lambda record: next(iter(record))])
def test_what_fits_no_rule_is_refused_every_time(read: Any) -> None:
    key_of = fast_reader(read, KeyRule(read))
    for bad in (float("nan"), object(), [object()], {"a": float("nan")}, ({1: 2}, object())):
        for _ in range(2):
            with pytest.raises(InvalidKeyError):
                key_of((bad,))
    with pytest.raises(TypeMismatchError, match="key: expected String"):
        fast_reader(read, KeyRule(read, Types.STRING()))((1,))
    with pytest.raises((IndexError, TypeError)):
        key_of(3)


def test_keys_of_a_field_with_its_type_are_read_as_they_are() -> None:
    def read(record: Any) -> Any:
        return record[0]

    assert fast_reader(read, KeyRule(read, Types.LONG(), fits=True)) is read
    assert fast_reader(read, KeyRule(read, Types.TUPLE([Types.LONG()]), fits=True)) is read
    assert fast_reader(read, KeyRule(read, Types.DOUBLE(), fits=True)) is not read  # it may be NaN


def test_stand_ins_are_equal_by_value_also_after_a_journey() -> None:
    one, other = ValueKey({"a": [1, {2}], "b": 1.0}), ValueKey({"b": 1, "a": [True, {2.0}]})
    assert one == other
    assert hash(one) == hash(other)
    assert stable_hash(one) == stable_hash(other)
    travelled = pickle.loads(pickle.dumps(one))
    assert travelled == one
    assert shown(travelled) == {"a": [1, {2}], "b": 1.0}
    assert shown(one) is not one.value
    assert (
        len({ValueKey([1]), ValueKey((1, [])), ValueKey({1}), ValueKey({1: 1}), ValueKey(bytearray(b"\1"))})
        == 5
    )
