"""Which declared types promise values that nothing can change, checked against what their converters give."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import NamedTuple

import pytest

from firesteel.common import Instant, Row, Types
from firesteel.common._serialized_type import SerializedTypeInfo
from firesteel.common._type_basics import BasicType, InstantTypeInfo
from firesteel.common._values import is_immutable
from firesteel.common.serializer import TypeSerializer
from firesteel.common.typeinfo import (
    BasicTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    immutable_type,
)


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyStr(str):
    pass


class MyBytes(bytes):
    def __bytes__(self):
        return self


class MyDecimal(Decimal):
    pass


class MyDate(date):
    pass


class MyTime(time):
    pass


class MyDatetime(datetime):
    pass


class Pair(NamedTuple):
    first: object
    second: object


class MyTuple(tuple):
    pass


class MySerializer(TypeSerializer):
    def serialize(self, element, stream):
        stream.write(b"")

    def deserialize(self, stream):
        return []


LOCAL = LocalTimeTypeInfo.TimeType
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
TIMES = [
    time(1),
    time(1, 2, 3, 4567),
    time(1, tzinfo=UTC),
    MyTime(1),
    MyTime(1, 2, 3, 4567, tzinfo=UTC),
    None,
]
TIMESTAMPS = [
    datetime(2020, 1, 1), datetime(2020, 1, 1, 2, 3, 4, 5678, tzinfo=UTC), MyDatetime(2020, 1, 1),
    MyDatetime(2020, 1, 1, 2, 3, 4, 5678), MyDatetime(2020, 1, 1, tzinfo=UTC, fold=1), None,
]  # fmt: skip
DATES = [date(2020, 1, 1), datetime(2020, 1, 1), MyDate(2020, 1, 1), MyDatetime(2020, 1, 1), None]

IMMUTABLE = [
    (Types.STRING(), ["a", MyStr("a"), None]),
    (Types.BYTE(), [1, 200, True, MyInt(1), MyInt(300), 1.5]),
    (Types.BOOLEAN(), [True, 1, MyInt(0)]),
    (Types.SHORT(), [1, 2**20, MyInt(1)]),
    (Types.INT(), [1, 2**40, MyInt(1), MyFloat(1)]),
    (Types.LONG(), [1, 2**70, MyInt(1)]),
    (Types.FLOAT(), [1.5, 1, MyFloat(1.5), MyInt(1), Decimal(1)]),
    (Types.DOUBLE(), [1.5, 1, MyFloat(1.5), MyInt(1), Decimal(1)]),
    (Types.CHAR(), ["a", MyStr("a")]),
    (Types.BIG_INT(), [2**70, True, MyInt(2**70), None]),
    (Types.BIG_DEC(), [Decimal(1), 1, 1.5, "1.5", MyDecimal("1.5"), None]),
    (Types.SQL_DATE(), DATES),
    (Types.SQL_TIME(), TIMES),
    (Types.SQL_TIMESTAMP(), TIMESTAMPS),
    (BYTES, [b"a", bytearray(b"a"), memoryview(b"a"), MyBytes(b"a")]),
    (Types.TUPLE([]), [(), []]),
    (
        Types.TUPLE([Types.STRING(), Types.BIG_DEC()]),
        [("a", Decimal(1)), ["a", 1], Row("a", 1), Pair("a", 1), MyTuple(("a", 1)), (MyStr("a"), MyDecimal(1))],
    ),
    (Types.TUPLE([Types.TUPLE([BYTES]), Types.INT()]), [((bytearray(b"a"),), 1), [[b"a"], MyInt(1)]]),
    (LocalTimeTypeInfo(LOCAL.LOCAL_DATE), DATES),
    (LocalTimeTypeInfo(LOCAL.LOCAL_TIME), TIMES),
    (LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME), TIMESTAMPS),
    (ExternalTypeInfo(Types.INT()), [1, MyInt(1)]),
    (ExternalTypeInfo(Types.TUPLE([Types.STRING()])), [("a",), [MyStr("a")]]),
]  # fmt: skip
MUTABLE = [
    (Types.INSTANT(), Instant(1, 2)),
    (BasicTypeInfo(BasicType.INSTANT), Instant(1, 2)),
    (Types.PICKLED_BYTE_ARRAY(), [1]),
    (Types.ROW([Types.INT()]), (1,)),
    (Types.ROW_NAMED(["a"], [Types.INT()]), (1,)),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1]),
    (Types.BASIC_ARRAY(Types.BYTE()), [1]),
    (Types.OBJECT_ARRAY(Types.INT()), [1]),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}),
    (Types.LIST(Types.INT()), [1]),
    (Types.TUPLE([Types.INT(), Types.LIST(Types.INT())]), (1, [1])),
    (Types.TUPLE([Types.TUPLE([Types.PICKLED_BYTE_ARRAY()])]), (([],),)),
    (Types.TUPLE([Types.INSTANT()]), (Instant(1, 2),)),
    (ExternalTypeInfo(Types.LIST(Types.INT())), [1]),
    (ExternalTypeInfo(Types.PICKLED_BYTE_ARRAY()), [1]),
    (SerializedTypeInfo(MySerializer()), [1]),
    (TypeInformation(), [1]),
]


def converted(kind, values):
    convert = kind.batch_converter()
    return convert(values) if convert else values


@pytest.mark.parametrize(("kind", "values"), IMMUTABLE, ids=[str(kind) for kind, _ in IMMUTABLE])
def test_values_of_an_immutable_type_cannot_change(kind, values):
    assert immutable_type(kind)
    for value in values:
        assert all(map(is_immutable, converted(kind, [value])))
    assert all(map(is_immutable, converted(kind, values))), "all at once"


@pytest.mark.parametrize(("kind", "value"), MUTABLE, ids=[str(kind) for kind, _ in MUTABLE])
def test_values_of_all_other_types_can_change(kind, value):
    assert not immutable_type(kind)
    assert not is_immutable(converted(kind, [value])[0])


def test_every_type_was_looked_at():
    looked_at = {(type(kind), getattr(kind, "basic_type", None)) for kind, _ in [*IMMUTABLE, *MUTABLE]}
    without_arguments = [
        make()
        for name in dir(Types)
        if name.isupper() and (make := getattr(Types, name)).__code__.co_argcount == 0
    ]
    assert len(without_arguments) == 16
    for kind in without_arguments:
        assert (type(kind), getattr(kind, "basic_type", None)) in looked_at


def test_a_type_of_the_users_own_promises_nothing():
    class Anything(TupleTypeInfo):
        def batch_converter(self):
            return None

    assert not immutable_type(Anything([Types.INT()]))
    assert not immutable_type(InstantTypeInfo())
    assert not immutable_type(None)


def test_times_of_a_subclass_keep_their_value():
    for kind, value in [
        (Types.SQL_TIME(), MyTime(1, 2, 3, 4000, fold=1)),
        (Types.SQL_TIMESTAMP(), MyDatetime(2020, 1, 2, 3, fold=1)),
    ]:
        (seen,) = converted(kind, [value])
        assert (seen, seen.fold) == (value, 1)
