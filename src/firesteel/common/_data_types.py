"""The types of the Table API: `DataType`, the classes of its types, and `DataTypes`, which makes them.

File formats take them as schemas; the Table API itself will stand on them. What a type prints, compares and holds is as in
PyFlink. They live here because formats, which stand below the public packages, need them; `firesteel.table` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Self, overload

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError

__all__ = [
    "ArrayType",
    "AtomicType",
    "BigIntType",
    "BinaryType",
    "BooleanType",
    "CharType",
    "DataType",
    "DataTypes",
    "DateType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "FractionalType",
    "IntType",
    "IntegralType",
    "LocalZonedTimestampType",
    "MapType",
    "NullType",
    "NumericType",
    "RowField",
    "RowType",
    "SmallIntType",
    "TimeType",
    "TimestampType",
    "TinyIntType",
    "VarBinaryType",
    "VarCharType",
]

#: The length of STRING and BYTES: as long as one likes.
MAX_LENGTH = 0x7FFFFFFF


class DataType:
    """A type of values, which may be None unless it is `not_null`."""

    def __init__(self, nullable: bool = True) -> None:
        self._nullable = nullable

    @override
    def __repr__(self) -> str:
        inner = "".join(f"{part}, " for part in self._parts())
        return f"{type(self).__name__}({inner}{str(self._nullable).lower()})"

    def _parts(self) -> tuple[Any, ...]:
        """What stands before nullability in the constructor."""
        return ()

    @override
    def __str__(self) -> str:
        return self.type_name()

    @override
    def __hash__(self) -> int:
        return hash(str(self))

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.__dict__ == other.__dict__

    @classmethod
    def type_name(cls) -> str:
        """The name of the class without ``Type``, in capital letters."""
        return cls.__name__[:-4].upper()

    def not_null(self) -> Self:
        """The same type without None."""
        return self._with(False)

    def nullable(self) -> Self:
        """The same type with None."""
        return self._with(True)

    def _with(self, nullable: bool) -> Self:
        changed = copy(self)
        changed._nullable = nullable
        return changed


class AtomicType(DataType):
    """A type without parts."""


class NullType(AtomicType):
    """Only None."""


class NumericType(AtomicType):
    """Numbers."""


class IntegralType(NumericType):
    """Whole numbers."""


class FractionalType(NumericType):
    """Other numbers."""


class _Sized(AtomicType):
    def __init__(self, length: int = 1, nullable: bool = True) -> None:
        super().__init__(nullable)
        if length < 1:
            raise InvalidArgumentError(f"the length of {self.type_name()} must be at least 1, got {length}")
        self.length = length

    @override
    def _parts(self) -> tuple[Any, ...]:
        return (self.length,)


class CharType(_Sized):
    """Text of a fixed length."""


class VarCharType(_Sized):
    """Text up to a length."""


class BinaryType(_Sized):
    """Bytes of a fixed length."""


class VarBinaryType(_Sized):
    """Bytes up to a length."""


class BooleanType(AtomicType):
    """True and False."""


class TinyIntType(IntegralType):
    """`int` of 8 bits."""


class SmallIntType(IntegralType):
    """`int` of 16 bits."""


class IntType(IntegralType):
    """`int` of 32 bits."""


class BigIntType(IntegralType):
    """`int` of 64 bits."""


class FloatType(FractionalType):
    """`float` of 32 bits."""


class DoubleType(FractionalType):
    """`float`."""


class DecimalType(FractionalType):
    """`decimal.Decimal` with ``precision`` digits, ``scale`` of them behind the point."""

    def __init__(self, precision: int = 10, scale: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise InvalidArgumentError(
                f"DECIMAL has 1 to 38 digits, of which none to all are behind the point, got ({precision}, {scale})"
            )
        self.precision = precision
        self.scale = scale

    @override
    def _parts(self) -> tuple[Any, ...]:
        return (self.precision, self.scale)


class DateType(AtomicType):
    """`datetime.date`."""


class _Precise(AtomicType):
    def __init__(self, precision: int, nullable: bool = True) -> None:
        super().__init__(nullable)
        if not 0 <= precision <= 9:
            raise InvalidArgumentError(
                f"{self.type_name()} has 0 to 9 digits behind the second, got {precision}"
            )
        self.precision = precision

    @override
    def _parts(self) -> tuple[Any, ...]:
        return (self.precision,)


class TimeType(_Precise):
    """`datetime.time`."""

    def __init__(self, precision: int = 0, nullable: bool = True) -> None:
        super().__init__(precision, nullable)


class TimestampType(_Precise):
    """`datetime.datetime` without a zone: what a clock shows."""

    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        super().__init__(precision, nullable)


class LocalZonedTimestampType(_Precise):
    """A moment: `firesteel.common.Instant`."""

    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        super().__init__(precision, nullable)


class ArrayType(DataType):
    """`list`."""

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = _checked(element_type, "elements of an ARRAY")

    @override
    def _parts(self) -> tuple[Any, ...]:
        return (repr(self.element_type),)


class MapType(DataType):
    """`dict`."""

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type = _checked(key_type, "keys of a MAP")
        self.value_type = _checked(value_type, "values of a MAP")

    @override
    def _parts(self) -> tuple[Any, ...]:
        return (repr(self.key_type), repr(self.value_type))


class RowField:
    """A field of a `RowType`."""

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"the name of a field must be a text, got {name!r}")
        self.name = name
        self.data_type = _checked(data_type, f"field {name!r}")
        self.description = "..." if description is None else description

    @override
    def __repr__(self) -> str:
        return f"RowField({self.name}, {self.data_type!r}, {self.description})"

    @override
    def __str__(self) -> str:
        return f"RowField({self.name}, {self.data_type})"

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowField) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # as in PyFlink


class RowType(DataType):
    """`Row`, with named fields.

    >>> person = RowType([RowField("name", VarCharType(9)), RowField("age", IntType())])
    >>> person["age"], len(person), person.field_names()
    (RowField(age, IntType(true), ...), 2, ['name', 'age'])
    """

    def __init__(self, fields: Sequence[RowField] | None = None, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.fields = list(fields or ())
        for field in self.fields:
            if not isinstance(field, RowField):
                raise InvalidArgumentError(
                    f"the fields of a row must be made by DataTypes.FIELD(name, type), got {field!r}"
                )

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in self.fields]

    def add(self, field: RowField | str, data_type: DataType | None = None) -> RowType:
        """Add a field, or a name and a type, to this row type."""
        if isinstance(field, str):
            if data_type is None:
                raise InvalidArgumentError(f"field {field!r} needs a type")
            field = RowField(field, data_type)
        self.fields.append(field)
        return self

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @overload
    def __getitem__(self, key: str | int) -> RowField: ...
    @overload
    def __getitem__(self, key: slice) -> RowType: ...
    def __getitem__(self, key: str | int | slice) -> RowField | RowType:
        if isinstance(key, slice):
            return RowType(self.fields[key])
        if isinstance(key, int):
            return self.fields[key]
        for field in self.fields:
            if field.name == key:
                return field
        raise KeyError(f"no field named {key!r}; there are {', '.join(self.names)}")

    @override
    def __repr__(self) -> str:
        return f"RowType({','.join(map(repr, self.fields))})"

    def field_names(self) -> list[str]:
        """The names of the fields."""
        return self.names

    def field_types(self) -> list[DataType]:
        """The types of the fields."""
        return [field.data_type for field in self.fields]


def _checked(data_type: Any, what: str) -> DataType:
    if not isinstance(data_type, DataType):
        raise InvalidArgumentError(
            f"the type of {what} must be one of DataTypes, such as DataTypes.INT(), got {data_type!r} "
            f"({type(data_type).__name__})"
        )
    return data_type


class DataTypes:
    """Makes types.

    >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT())])
    RowType(RowField(id, IntType(true), ...))
    """

    @staticmethod
    def NULL() -> NullType:  # noqa: N802
        """Only None."""
        return NullType()

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> CharType:  # noqa: N802
        """Text of a fixed length."""
        return CharType(length, nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> VarCharType:  # noqa: N802
        """Text up to a length."""
        return VarCharType(length, nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> VarCharType:  # noqa: N802
        """Text."""
        return VarCharType(MAX_LENGTH, nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> BooleanType:  # noqa: N802
        """True and False."""
        return BooleanType(nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> BinaryType:  # noqa: N802
        """Bytes of a fixed length."""
        return BinaryType(length, nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> VarBinaryType:  # noqa: N802
        """Bytes up to a length."""
        return VarBinaryType(length, nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> VarBinaryType:  # noqa: N802
        """Bytes."""
        return VarBinaryType(MAX_LENGTH, nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DecimalType:  # noqa: N802
        """`decimal.Decimal` with ``precision`` digits, ``scale`` of them behind the point."""
        return DecimalType(precision, scale, nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> TinyIntType:  # noqa: N802
        """`int` of 8 bits."""
        return TinyIntType(nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> SmallIntType:  # noqa: N802
        """`int` of 16 bits."""
        return SmallIntType(nullable)

    @staticmethod
    def INT(nullable: bool = True) -> IntType:  # noqa: N802
        """`int` of 32 bits."""
        return IntType(nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> BigIntType:  # noqa: N802
        """`int` of 64 bits."""
        return BigIntType(nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> FloatType:  # noqa: N802
        """`float` of 32 bits."""
        return FloatType(nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DoubleType:  # noqa: N802
        """`float`."""
        return DoubleType(nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DateType:  # noqa: N802
        """`datetime.date`."""
        return DateType(nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TimeType:  # noqa: N802
        """`datetime.time`."""
        return TimeType(precision, nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TimestampType:  # noqa: N802
        """`datetime.datetime` without a zone."""
        return TimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(  # noqa: N802
        precision: int = 6, nullable: bool = True
    ) -> LocalZonedTimestampType:
        """A moment."""
        return LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> LocalZonedTimestampType:  # noqa: N802
        """A moment; the short name of `TIMESTAMP_WITH_LOCAL_TIME_ZONE`."""
        return LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> ArrayType:  # noqa: N802
        """`list`."""
        return ArrayType(element_type, nullable)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> MapType:  # noqa: N802
        """`dict`."""
        return MapType(key_type, value_type, nullable)

    @staticmethod
    def ROW(row_fields: Sequence[RowField | tuple[str, DataType]] = (), nullable: bool = True) -> RowType:  # noqa: N802
        """`Row`; fields are made by `FIELD`, or are pairs of a name and a type."""
        fields = [RowField(*field) if isinstance(field, tuple) else field for field in row_fields]
        return RowType(fields, nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> RowField:  # noqa: N802
        """A field of `ROW`."""
        return RowField(name, data_type, description)
