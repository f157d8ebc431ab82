"""Types, where programs get declared types from, and every class of declared type under PyFlink's import path.

>>> Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
RowTypeInfo(name: String, age: Integer)
>>> Types.LIST(Types.LONG()) == Types.LIST(Types.LONG())
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from firesteel.common._type_basics import BasicType, BasicTypeInfo, InstantTypeInfo, TypeInformation
from firesteel.common._type_composites import (
    AnnotatedTypeInfo,
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    name_of_kind,
)
from firesteel.common._type_times import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from firesteel.common._type_variables import TypeVar
from firesteel.common.time import Instant

if TYPE_CHECKING:
    import datetime
    from decimal import Decimal

__all__ = [
    "AnnotatedTypeInfo",
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "flat_type",
    "immutable_type",
    "name_of_kind",
]

E = TypeVar("E", default=Any)
K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


class Types:
    """One static method per declared type. The name says what Java has, the docstring what Python sees."""

    @staticmethod
    def STRING() -> TypeInformation[str]:  # noqa: N802 - Flink's names, here and below
        """`str`, or None."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation[int]:  # noqa: N802
        """`int` of 8 bits; larger ones wrap around."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:  # noqa: N802
        """`bool`."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation[int]:  # noqa: N802
        """`int` of 16 bits; larger ones wrap around."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation[int]:  # noqa: N802
        """`int` of 32 bits; larger ones wrap around."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation[int]:  # noqa: N802
        """`int` of 64 bits; larger ones wrap around."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation[float]:  # noqa: N802
        """`float` rounded to 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:  # noqa: N802
        """`float`."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation[str]:  # noqa: N802
        """`str` of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:  # noqa: N802
        """`int` of any size, or None."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:  # noqa: N802
        """`decimal.Decimal`, or None."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:  # noqa: N802
        """`Instant`, or None."""
        return InstantTypeInfo(BasicType.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation[datetime.date]:  # noqa: N802
        """`datetime.date`, or None."""
        return DateTypeInfo()

    @staticmethod
    def SQL_TIME() -> TypeInformation[datetime.time]:  # noqa: N802
        """`datetime.time` exact to the millisecond, or None."""
        return TimeTypeInfo()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[datetime.datetime]:  # noqa: N802
        """`datetime.datetime` exact to the millisecond, or None."""
        return TimestampTypeInfo()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation[Any]:  # noqa: N802
        """Any Python object, as it is."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """`Row` with fields f0, f1 and so on."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """`Row` with named fields."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:  # noqa: N802
        """`tuple`."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:  # noqa: N802
        """`list` without None; `bytes` when the elements are BYTE."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[E]) -> TypeInformation[list[E]]:  # noqa: N802
        """`list` of numbers, truths or texts."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[E]) -> TypeInformation[list[E]]:  # noqa: N802
        """`list` of values of any one type."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(  # noqa: N802
        key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]
    ) -> TypeInformation[dict[K, V]]:
        """`dict`."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation[E]) -> TypeInformation[list[E]]:  # noqa: N802
        """`list` of values of any one type."""
        return ListTypeInfo(element_type_info)


#: Their converters give exactly date, time, datetime or None, and no time zones, which may be of any class.
_IMMUTABLE_TIMES = (DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, LocalTimeTypeInfo)


def immutable_type(type_info: TypeInformation | None) -> bool:
    """Whether nothing in a value can change once `TypeInformation.batch_converter` of the type let it pass.

    Instants can change, because their attributes can be set; so can rows, whose fields can be replaced.

    >>> immutable_type(Types.TUPLE([Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())]))
    True
    >>> immutable_type(Types.LIST(Types.STRING()))
    False
    """
    # Exactly these classes: what a converter of any other gives, nobody has looked at.
    kind = type(type_info)
    if kind is TupleTypeInfo:
        assert isinstance(type_info, TupleTypeInfo)
        return all(map(immutable_type, type_info.get_field_types()))
    if kind is ExternalTypeInfo:
        assert isinstance(type_info, ExternalTypeInfo)
        return immutable_type(type_info.type_info)
    if kind is PrimitiveArrayTypeInfo:
        assert isinstance(type_info, PrimitiveArrayTypeInfo)
        return type_info.is_bytes
    if kind is BasicTypeInfo:
        assert isinstance(type_info, BasicTypeInfo)
        return type_info.basic_type is not BasicType.INSTANT
    return kind in _IMMUTABLE_TIMES


def flat_type(type_info: TypeInformation | None) -> bool:
    """Whether a value of the type, once converted, has no parts that can change: nothing in it can be shared.

    >>> flat_type(Types.ROW([Types.STRING(), Types.LONG()]))
    True
    >>> flat_type(Types.ROW([Types.LIST(Types.LONG())]))
    False
    """
    if type(type_info) is RowTypeInfo:
        return all(map(immutable_type, type_info.get_field_types()))
    return immutable_type(type_info)
