import pickle
from datetime import UTC, date, datetime, time

import pytest

from firesteel.common import Instant, Row, RowKind, Types
from firesteel.common.typeinfo import (
    BasicTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
)

EVERY_TYPE = [
    Types.STRING(), Types.BYTE(), Types.BOOLEAN(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(),
    Types.DOUBLE(), Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.INSTANT(), Types.SQL_DATE(), Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(), Types.PICKLED_BYTE_ARRAY(), Types.ROW([Types.INT()]), Types.TUPLE([Types.INT()]),
    Types.PRIMITIVE_ARRAY(Types.INT()), Types.BASIC_ARRAY(Types.STRING()), Types.OBJECT_ARRAY(Types.ROW([Types.INT()])),
    Types.MAP(Types.STRING(), Types.INT()), Types.LIST(Types.INT()),
    LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), ExternalTypeInfo(Types.INT()),
]  # fmt: skip


@pytest.mark.parametrize("kind", EVERY_TYPE, ids=str)
def test_type_equals_its_pickled_copy_and_no_other_type(kind):
    twin = pickle.loads(pickle.dumps(kind))
    assert twin == kind
    assert hash(twin) == hash(kind)
    assert [other for other in EVERY_TYPE if other == kind] == [kind]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Types.INT(), "Integer"),
        (Types.CHAR(), "Char"),
        (Types.INSTANT(), "Instant"),
        (Types.ROW([Types.INT(), Types.STRING()]), "RowTypeInfo(Integer, String)"),
        (Types.ROW_NAMED(["a"], [Types.LIST(Types.INT())]), "RowTypeInfo(a: ListTypeInfo<Integer>)"),
        (Types.TUPLE([Types.STRING(), Types.INT()]), "TupleTypeInfo(String, Integer)"),
        (Types.MAP(Types.STRING(), Types.LONG()), "MapTypeInfo<String, Long>"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArrayTypeInfo<Byte>"),
        (Types.BASIC_ARRAY(Types.INT()), "BasicArrayTypeInfo<Integer>"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
        (Types.SQL_TIME(), "TimeTypeInfo"),
        (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME), "LocalTimeTypeInfo<LOCAL_DATE_TIME>"),
        (ExternalTypeInfo(Types.INT()), "ExternalTypeInfo<Integer>"),
    ],
)
def test_type_prints_as_in_pyflink(kind, text):
    assert str(kind) == repr(kind) == text


def test_older_constructors_give_the_same_types():
    assert BasicTypeInfo.INSTANT_TYPE_INFO() == Types.INSTANT()
    assert BasicTypeInfo.STRING_TYPE_INFO() == Types.STRING()
    assert SqlTimeTypeInfo.DATE() == Types.SQL_DATE()


def test_row_fields_are_named_f0_f1_by_default():
    kind = Types.ROW([Types.INT(), Types.STRING()])
    assert kind.get_field_names() == ["f0", "f1"]
    assert kind.get_field_index("f1") == 1


def test_row_types_with_other_names_are_equal():
    assert Types.ROW([Types.INT()]) == Types.ROW_NAMED(["a"], [Types.INT()])


def test_row_type_needs_as_many_names_as_types():
    with pytest.raises(ValueError, match="2 field types but 1"):
        RowTypeInfo([Types.INT(), Types.INT()], ["a"])


def test_primitive_array_refuses_elements_that_are_objects():
    with pytest.raises(TypeError, match="OBJECT_ARRAY"):
        Types.PRIMITIVE_ARRAY(Types.STRING())


def test_internal_form_of_a_row_starts_with_its_kind():
    kind = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.SQL_DATE()])
    day = date(1970, 1, 3)
    for value in (Row(a=1, b=day), Row(b=day, a=1), Row(1, day), {"a": 1, "b": day}, (1, day), [1, day]):
        assert kind.to_internal_type(value) == (0, 1, 2)
    assert kind.to_internal_type(Row.of_kind(RowKind.DELETE, 1, day)) == (3, 1, 2)
    with pytest.raises(ValueError, match="expected a row"):
        kind.to_internal_type(5)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.SQL_DATE(), date(2024, 2, 29)),
        (Types.SQL_TIME(), time(23, 59, 58, 123456)),
        (Types.SQL_TIMESTAMP(), datetime(2024, 2, 29, 1, 2, 3, 456789)),
        (Types.INSTANT(), Instant.of_epoch_milli(-1)),
        (Types.STRING(), "a"),
    ],
)
def test_internal_form_leads_back_to_the_value(kind, value):
    assert kind.from_internal_type(kind.to_internal_type(value)) == value
    assert kind.need_conversion() == (kind != Types.STRING())


def test_zone_of_a_timestamp_counts_in_its_internal_form():
    assert Types.SQL_TIMESTAMP().to_internal_type(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)) == 1_000_005
    assert Types.SQL_TIME().to_internal_type(time(0, 0, 1, tzinfo=UTC)) == 1_000_000
