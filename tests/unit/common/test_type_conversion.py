"""What `batch_converter` does to whole batches, against examples and against a model that looks at single values."""

import struct
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common import Instant, Row, RowKind, Types
from firesteel.common.errors import TypeMismatchError
from firesteel.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def convert(kind, values):
    return kind.batch_converter()(values)


# Examples.


def test_untyped_values_pass_without_a_converter():
    assert Types.PICKLED_BYTE_ARRAY().batch_converter() is None


@pytest.mark.parametrize(
    ("kind", "given", "seen"),
    [
        (Types.BYTE(), 200, -56),
        (Types.SHORT(), 43878, -21658),
        (Types.INT(), 2**31 + 5, -(2**31) + 5),
        (Types.LONG(), 2**63, -(2**63)),
        (Types.INT(), True, 1),
        (Types.INT(), 1.9, 1),
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.FLOAT(), 1e40, float("inf")),
        (Types.DOUBLE(), 1, 1.0),
        (Types.DOUBLE(), Decimal("1.5"), 1.5),
        (Types.BOOLEAN(), 1, True),
        (Types.BIG_INT(), 2**70, 2**70),
        (Types.BIG_DEC(), 1, Decimal("1")),
        (Types.BIG_DEC(), 1.5, Decimal("1.5")),
        (Types.SQL_DATE(), datetime(2020, 1, 2, 3), date(2020, 1, 2)),
        (Types.SQL_TIME(), time(1, 2, 3, 456789), time(1, 2, 3, 456000)),
        (Types.SQL_TIMESTAMP(), datetime(2020, 1, 2, 3, 4, 5, 678901), datetime(2020, 1, 2, 3, 4, 5, 678000)),
        (Types.SQL_TIMESTAMP(), datetime(2020, 1, 2, tzinfo=UTC), datetime(2020, 1, 2)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), (1, 2**31), [1, -(2**31)]),
        (Types.BASIC_ARRAY(Types.INT()), [1, None], [1, None]),
        (Types.OBJECT_ARRAY(PERSON), [("a", 1), None], [Row(name="a", age=1), None]),
        (Types.LIST(Types.FLOAT()), [1, None], [1.0, None]),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 2**31, "b": None}, {"a": -(2**31), "b": None}),
        (Types.TUPLE([Types.INT(), Types.STRING()]), [1, None], (1, None)),
        (Types.TUPLE([Types.INT(), Types.STRING()]), Row(1, "a"), (1, "a")),
        (PERSON, ("a", 1), Row(name="a", age=1)),
        (PERSON, ["a", 1], Row(name="a", age=1)),
        (PERSON, {"name": "a"}, Row(name="a", age=None)),
        (PERSON, Row("a", 1), Row(name="a", age=1)),
        (PERSON, Row(age=1, name="a", more=2), Row(name="a", age=1)),
        (PERSON, Row.of_kind(RowKind.DELETE, "a", 1), Row.of_kind(RowKind.DELETE, name="a", age=1)),
        (Types.ROW([PERSON]), Row({"name": "a", "age": 1}), Row(f0=Row(name="a", age=1))),
        (Types.ROW([PERSON]), Row(None), Row(f0=None)),
        (ExternalTypeInfo(Types.SHORT()), 43878, -21658),
        (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), time(1, 2, 3, 4), time(1, 2, 3, 4)),
    ],
)
def test_value_is_seen_as_declared(kind, given, seen):
    (result,) = convert(kind, [given])
    assert result == seen
    assert type(result) is type(seen)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.INT(), "5"),
        (Types.INT(), None),
        (Types.INT(), float("nan")),
        (Types.DOUBLE(), "1.5"),
        (Types.FLOAT(), None),
        (Types.BOOLEAN(), "true"),
        (Types.STRING(), 5),
        (Types.STRING(), b"a"),
        (Types.CHAR(), "ab"),
        (Types.CHAR(), ""),
        (Types.BIG_DEC(), "one"),
        (Types.INSTANT(), 5),
        (Types.SQL_DATE(), "2020-01-02"),
        (Types.SQL_TIMESTAMP(), date(2020, 1, 2)),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1, 2]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None]),
        (Types.LIST(Types.INT()), {1, 2}),
        (Types.LIST(Types.INT()), "12"),
        (Types.MAP(Types.STRING(), Types.INT()), [("a", 1)]),
        (Types.MAP(Types.STRING(), Types.INT()), {None: 1}),
        (Types.TUPLE([Types.INT()]), (1, 2)),
        (Types.TUPLE([Types.INT()]), ()),
        (Types.TUPLE([Types.INT()]), (None,)),
        (Types.TUPLE([Types.INT()]), None),
        (PERSON, ("a",)),
        (PERSON, "ab"),
        (PERSON, None),
        (PERSON, Row(name="a")),
        (PERSON, object()),
    ],
)
def test_misfit_is_refused_with_its_position(kind, value):
    with pytest.raises(TypeMismatchError) as caught:
        convert(kind, [value])
    assert caught.value.index == 0
    assert caught.value.got_type in ("object", type(value).__name__, "NoneType")


NULLABLE = [
    Types.STRING(), Types.BIG_INT(), Types.BIG_DEC(), Types.INSTANT(), Types.SQL_DATE(), Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(), Types.BASIC_ARRAY(Types.INT()), Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.INT()),
]  # fmt: skip


@pytest.mark.parametrize("kind", NULLABLE, ids=str)
def test_none_is_a_value_of_object_types(kind):
    assert convert(kind, [None, None]) == [None, None]


def test_none_may_stand_in_any_row_field():
    kinds = [Types.INT(), Types.FLOAT(), Types.BOOLEAN(), Types.TUPLE([Types.INT()]), PERSON]
    (row,) = convert(Types.ROW(kinds), [Row(None, None, None, None, None)])
    assert list(row) == [None] * 5


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Types.INT(), [1, -1]),
        (Types.STRING(), ["a", None]),
        (Types.DOUBLE(), [1.0]),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a"), (2, None)]),
        (PERSON, [Row(name="a", age=1), Row(name="b", age=None)]),
        (Types.LIST(Types.INT()), [[1], []]),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1}, {}]),
        (Types.INSTANT(), [Instant(1, 2)]),
    ],
    ids=str,
)
def test_batch_that_fits_is_returned_itself(kind, values):
    assert convert(kind, values) is values


@pytest.mark.parametrize(
    "kind", [Types.INT(), Types.TUPLE([Types.INT()]), PERSON, Types.LIST(Types.INT())], ids=str
)
def test_empty_batch_passes(kind):
    assert convert(kind, []) == []


def test_objects_with_attributes_become_rows():
    @dataclass
    class Plain:
        name: str
        age: int

    @dataclass(slots=True)
    class Slotted:
        name: str
        age: int

    pair = namedtuple("pair", "name age")
    assert convert(PERSON, [Plain("a", 1), Slotted("a", 1), pair("a", 1)]) == [Row(name="a", age=1)] * 3


def test_text_of_a_subclass_becomes_plain_text():
    class Colour(StrEnum):
        RED = "red"

    (seen,) = convert(Types.STRING(), [Colour.RED])
    assert type(seen) is str
    assert seen == "red"


def test_user_values_are_not_changed():
    row, items = Row(name="a", age=2**31), [2**31]
    convert(PERSON, [row])
    convert(Types.LIST(Types.INT()), [items])
    assert (row.age, items) == (2**31, [2**31])


def test_message_names_field_value_and_type():
    with pytest.raises(TypeMismatchError) as caught:
        convert(
            Types.ROW_NAMED(["sensor", "temperature"], [Types.STRING(), Types.DOUBLE()]),
            [("a", 1.0), ("b", None), ("c", "warm")],
        )
    assert str(caught.value) == (
        "value does not fit its declared type: field 'temperature' (index 1): expected Double, got 'warm' (str)"
    )
    assert caught.value.index == 2


def test_message_names_the_path_through_nested_types():
    kind = Types.ROW_NAMED(["readings"], [Types.LIST(Types.TUPLE([Types.MAP(Types.STRING(), Types.INT())]))])
    with pytest.raises(TypeMismatchError) as caught:
        convert(kind, [Row([]), Row([({"x": 1},), ({"x": 1, "y": "bad"},)])])
    assert caught.value.path == ("field 'readings' (index 0)", "element 1", "field 0", "value of key 'y'")
    assert caught.value.index == 1


def test_wrong_number_of_fields_is_said():
    with pytest.raises(TypeMismatchError, match="it has 3 fields instead of 2") as caught:
        convert(PERSON, [("a", 1), ("b", 2, 3)])
    assert caught.value.index == 1


# The model: what a single value becomes, written without regard to speed.


def wrap(value, bits):
    return int.from_bytes((value % 2**bits).to_bytes(bits // 8, "big"), "big", signed=True)


def to_float32(value):
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


TEXTS = st.text("abé", max_size=4)  # a small alphabet: the whole of Unicode takes a second to prepare

LEAVES = [
    (Types.BYTE(), st.integers(), lambda v: wrap(v, 8)),
    (Types.SHORT(), st.integers(), lambda v: wrap(v, 16)),
    (Types.INT(), st.integers(-(2**40), 2**40), lambda v: wrap(v, 32)),
    (Types.LONG(), st.integers(), lambda v: wrap(v, 64)),
    (Types.FLOAT(), st.floats(allow_nan=False), to_float32),
    (Types.DOUBLE(), st.floats(allow_nan=False) | st.integers(-(2**53), 2**53), float),
    (Types.STRING(), TEXTS, str),
    (Types.BOOLEAN(), st.booleans() | st.sampled_from([0, 1]), bool),
    (Types.PICKLED_BYTE_ARRAY(), st.integers() | TEXTS | st.none(), lambda v: v),
]


def optional(model):
    return lambda value: None if value is None else model(value)


def list_case(case):
    kind, values, model = case
    elements = optional(model)
    return Types.LIST(kind), st.lists(values | st.none(), max_size=4), lambda v: [elements(x) for x in v]


def tuple_case(cases):
    def model(value):
        return tuple(m(x) for (_, _, m), x in zip(cases, value, strict=True))

    values = st.tuples(*(v for _, v, _ in cases))
    return Types.TUPLE([k for k, _, _ in cases]), values | values.map(list), model


def row_case(cases):
    names = [f"n{index}" for index in range(len(cases))]

    def model(value):
        fields = [value[n] for n in names] if isinstance(value, dict) else list(value)
        seen = [optional(m)(x) for (_, _, m), x in zip(cases, fields, strict=True)]
        return Row(**dict(zip(names, seen, strict=True)))

    values = st.tuples(*(v | st.none() for _, v, _ in cases))
    forms = values | values.map(list) | values.map(lambda v: Row(*v))
    named = values.map(lambda v: dict(zip(names, v, strict=True)))
    return (
        Types.ROW_NAMED(names, [k for k, _, _ in cases]),
        forms | named | named.map(lambda d: Row(**d)),
        model,
    )


def map_case(case):
    kind, values, model = case
    kinds = Types.MAP(Types.STRING(), kind)
    seen = optional(model)
    dicts = st.dictionaries(TEXTS, values | st.none(), max_size=3)
    return kinds, dicts, lambda v: {k: seen(x) for k, x in v.items()}


CASES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        inner.map(list_case)
        | inner.map(map_case)
        | st.lists(inner, min_size=1, max_size=3).map(tuple_case)
        | st.lists(inner, min_size=1, max_size=3).map(row_case)
    ),
    max_leaves=5,
)


@st.composite
def batches(draw):
    kind, values, model = draw(CASES)
    return kind, draw(st.lists(values, max_size=6)), model


@given(batches())
def test_batch_conversion_agrees_with_the_model(batch):
    kind, values, model = batch
    converter = kind.batch_converter()
    seen = values if converter is None else converter(values)
    expected = [model(value) for value in values]
    assert seen == expected
    assert list(map(type, seen)) == list(map(type, expected))


@given(batches())
def test_converting_twice_is_converting_once(batch):
    kind, values, _ = batch
    converter = kind.batch_converter() or (lambda v: v)
    once = converter(values)
    assert converter(once) == once


@given(st.lists(st.integers(), min_size=1), st.sampled_from([(Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32), (Types.LONG(), 64)]))  # fmt: skip
def test_integers_wrap_like_java(values, kind_and_bits):
    kind, bits = kind_and_bits
    seen = convert(kind, values)
    assert all(-(2 ** (bits - 1)) <= v < 2 ** (bits - 1) for v in seen)
    assert all((a - b) % 2**bits == 0 for a, b in zip(values, seen, strict=True))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.data())
def test_misfit_is_found_where_it_is(values, data):
    place = data.draw(st.integers(0, len(values) - 1))
    records = [(value, "x") for value in values]
    records[place] = (values[place], 5)
    with pytest.raises(TypeMismatchError) as caught:
        convert(Types.TUPLE([Types.INT(), Types.STRING()]), records)
    assert (caught.value.index, caught.value.path) == (place, ("field 1",))
