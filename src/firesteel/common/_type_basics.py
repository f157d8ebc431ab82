"""The base of declared types, and the types of single values; import them from `firesteel.common.typeinfo`.

A declared type says what a downstream function sees. `TypeInformation.batch_converter` makes it true for whole
batches; `to_internal_type` and `from_internal_type` exist because PyFlink programs may call them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic

from firesteel.common import _type_conversion as conversion
from firesteel.common._override import override
from firesteel.common._type_conversion import Converter
from firesteel.common._type_variables import TypeVar
from firesteel.common.time import Instant

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = ["BasicType", "BasicTypeInfo", "InstantTypeInfo", "TypeInformation"]

T = TypeVar("T", covariant=True, default=Any)


class TypeInformation(Generic[T]):
    """The declared type of a stream or field; ``TypeInformation[int]`` is one whose values are ints.

    >>> convert = BasicTypeInfo.SHORT_TYPE_INFO().batch_converter()
    >>> convert([1, 43878])
    [1, -21658]
    >>> convert([1, "a"])
    Traceback (most recent call last):
    ...
    firesteel.common.errors.TypeMismatchError: value does not fit its declared type: expected Short, got 'a' (str)
    """

    #: Whether None is a value of this type by itself; as a row field, list element or map value it always is.
    _accepts_none = False

    def need_conversion(self) -> bool:
        """Tell whether the internal form of a value differs from the value."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Return the internal form of a value."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Return the value of an internal form."""
        return obj

    def batch_converter(self) -> Callable[[list[Any]], list[Any]] | None:
        """Return the function that turns a list of user values into what downstream functions must see.

        None: values pass as they are. The function returns the very list it was given when nothing has to
        change, and raises TypeMismatchError, whose `index` is the position in the list, for a misfit.
        """
        converter = self._converter()
        return conversion.nullable(converter) if converter and self._accepts_none else converter

    def _converter(self) -> Converter | None:
        """Return the converter of columns without None."""
        return None

    def _nullable_converter(self) -> Converter | None:
        """Return the converter for places where None is always allowed."""
        converter = self._converter()
        return conversion.nullable(converter) if converter else None

    def _identity(self) -> tuple[Any, ...]:
        """Return what equality looks at, beside the class."""
        return ()

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypeInformation)
            and self._family() is other._family()
            and self._identity() == other._identity()
        )

    def _family(self) -> type:
        return type(self)

    @override
    def __hash__(self) -> int:
        return hash((self._family(), self._identity()))

    @override
    def __repr__(self) -> str:
        return type(self).__name__


class BasicType(Enum):
    """The kinds of single values."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_OBJECTS = (BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT)


class BasicTypeInfo(TypeInformation[T]):
    """A single value: number, text, truth."""

    def __init__(self, basic_type: BasicType) -> None:
        self._basic_type = basic_type
        self._accepts_none = basic_type in _OBJECTS

    @property
    def basic_type(self) -> BasicType:
        """Which kind of single value."""
        return self._basic_type

    @override
    def _converter(self) -> Converter | None:
        name = self._basic_type.value
        if self._basic_type in _BITS:
            return conversion.integers(name, _BITS[self._basic_type])
        return _BASIC_CONVERTERS[self._basic_type](name)

    @override
    def _identity(self) -> tuple[Any, ...]:
        return (self._basic_type,)

    @override
    def _family(self) -> type:
        return BasicTypeInfo  # an INSTANT built either way is the same type

    @override
    def __repr__(self) -> str:
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo[str]:  # noqa: N802 - Flink's name, here and below
        """Return the type of texts."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo[bool]:  # noqa: N802
        """Return the type of True and False."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """Return the type of 8-bit integers."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """Return the type of 16-bit integers."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """Return the type of 32-bit integers."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """Return the type of 64-bit integers."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo[float]:  # noqa: N802
        """Return the type of 32-bit numbers."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo[float]:  # noqa: N802
        """Return the type of 64-bit numbers."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo[str]:  # noqa: N802
        """Return the type of single characters."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo[int]:  # noqa: N802
        """Return the type of integers without bound."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo[Decimal]:  # noqa: N802
        """Return the type of decimals."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> InstantTypeInfo:  # noqa: N802
        """Return the type of points in time."""
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo[Instant]):
    """A point in time; internally microseconds since 1970."""

    def __init__(self, basic_type: BasicType = BasicType.INSTANT) -> None:
        super().__init__(basic_type)

    @override
    def need_conversion(self) -> bool:
        return True

    @override
    def to_internal_type(self, obj: Instant) -> int:
        """Return microseconds since 1970, exact to the millisecond."""
        return obj.to_epoch_milli() * 1000

    @override
    def from_internal_type(self, obj: int) -> Instant:
        """Return the point that many microseconds after 1970."""
        return Instant.of_epoch_milli(obj // 1000)


def _plain_str(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError


def _plain_int(value: Any) -> int:
    if isinstance(value, str) or not hasattr(type(value), "__index__"):
        raise TypeError
    return int(value)


def _refuse(value: Any) -> Any:
    raise TypeError


def _decimals(expected: str) -> Converter:
    from decimal import Decimal

    def one(value: Any) -> Any:
        if isinstance(value, Decimal):
            return value if type(value) is Decimal else Decimal(value)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return Decimal(str(value))
        raise TypeError

    return conversion.instances(expected, Decimal, one)


_BASIC_CONVERTERS: dict[BasicType, Callable[[str], Converter]] = {
    BasicType.STRING: lambda name: conversion.instances(name, str, _plain_str),
    BasicType.BOOLEAN: conversion.booleans,
    BasicType.FLOAT: conversion.floats,
    BasicType.DOUBLE: conversion.doubles,
    BasicType.CHAR: conversion.characters,
    BasicType.BIG_INT: lambda name: conversion.instances(name, int, _plain_int),
    BasicType.BIG_DEC: _decimals,
    BasicType.INSTANT: lambda name: conversion.instances(name, Instant, _refuse),
}
