"""Declared types made of others: arrays, lists, maps, tuples, rows; import them from `firesteel.common.typeinfo`."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any

from firesteel.common import _type_conversion as conversion
from firesteel.common._override import override
from firesteel.common._type_basics import BasicType, BasicTypeInfo, TypeInformation
from firesteel.common._type_conversion import Converter
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import WrongArgumentError
from firesteel.common.types import Row, RowKind

__all__ = [
    "AnnotatedTypeInfo",
    "BasicArrayTypeInfo",
    "ExternalTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "TupleTypeInfo",
    "name_of_kind",
]

T = TypeVar("T", covariant=True, default=Any)


class PickledBytesTypeInfo(TypeInformation[Any]):
    """Any Python object; the type of streams that declare none."""

    @override
    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class AnnotatedTypeInfo(PickledBytesTypeInfo):
    """Any Python object, which is a ``python_type`` according to annotations: they convert nothing and check nothing.

    >>> AnnotatedTypeInfo(tuple[str, int])
    AnnotatedTypeInfo(tuple[str, int])
    >>> AnnotatedTypeInfo(int) == PickledBytesTypeInfo()
    True
    """

    def __init__(self, python_type: Any) -> None:
        #: A class, or what stands for one in annotations.
        self.python_type = python_type

    @override
    def _family(self) -> type:
        return PickledBytesTypeInfo  # it says more, but no record is treated differently

    @override
    def __repr__(self) -> str:
        return f"AnnotatedTypeInfo({name_of_kind(self.python_type)})"


def name_of_kind(kind: Any) -> str:
    """How an annotation is written."""
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


class _ElementsTypeInfo(TypeInformation[T]):
    """What the array types and ListTypeInfo share."""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = element_type

    @property
    def element_type(self) -> TypeInformation:
        """The type of the elements."""
        return self._element_type

    @override
    def _converter(self) -> Converter | None:
        return conversion.sequences(str(self), self._element_type._nullable_converter())

    @override
    def _identity(self) -> tuple[Any, ...]:
        return (self._element_type,)

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._element_type}>"


_PRIMITIVES = frozenset(BasicType) - {
    BasicType.STRING,
    BasicType.BIG_INT,
    BasicType.BIG_DEC,
    BasicType.INSTANT,
}


def _require_element(element_type: TypeInformation, allowed: frozenset[BasicType], array: str) -> None:
    if not isinstance(element_type, BasicTypeInfo) or element_type.basic_type not in allowed:
        names = ", ".join(sorted(kind.name for kind in allowed))
        raise WrongArgumentError(
            f"{array} takes elements of type {names}; got {element_type!r}; use Types.OBJECT_ARRAY"
        )


class PrimitiveArrayTypeInfo(_ElementsTypeInfo[Any]):
    """A list of numbers, truths or characters without None; of BYTE: a `bytes`."""

    def __init__(self, element_type: TypeInformation) -> None:
        _require_element(element_type, _PRIMITIVES, "a primitive array")
        super().__init__(element_type)

    @property
    def is_bytes(self) -> bool:
        """Whether values are `bytes` instead of lists."""
        return self._element_type == BasicTypeInfo(BasicType.BYTE)

    @override
    def _converter(self) -> Converter:
        if self.is_bytes:
            return conversion.instances(str(self), bytes, _to_bytes)
        return conversion.sequences(str(self), self._element_type._converter())


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(memoryview(value))  # plain bytes, also of a class with a __bytes__ of its own
    raise TypeError


class BasicArrayTypeInfo(_ElementsTypeInfo[list[Any]]):
    """A list of single values or None."""

    _accepts_none = True

    def __init__(self, element_type: TypeInformation) -> None:
        _require_element(element_type, _PRIMITIVES | {BasicType.STRING}, "a basic array")
        super().__init__(element_type)


class ObjectArrayTypeInfo(_ElementsTypeInfo[list[Any]]):
    """A list of values of any one type, or None."""

    _accepts_none = True


class ListTypeInfo(_ElementsTypeInfo[list[Any]]):
    """A list of values of any one type, or None."""

    _accepts_none = True

    @property
    def elem_type(self) -> TypeInformation:
        """The type of the elements, under PyFlink's name."""
        return self._element_type


class MapTypeInfo(TypeInformation[dict[Any, Any]]):
    """A dict with keys of one type and values of another, or None."""

    _accepts_none = True

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = key_type_info
        self._value_type_info = value_type_info

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys."""
        return self._key_type_info

    @property
    def value_type(self) -> TypeInformation:
        """The type of the values."""
        return self._value_type_info

    @override
    def _converter(self) -> Converter:
        key, value = self._key_type_info._converter(), self._value_type_info._nullable_converter()
        return conversion.maps(str(self), key, value)

    @override
    def _identity(self) -> tuple[Any, ...]:
        return self._key_type_info, self._value_type_info

    @override
    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"


class TupleTypeInfo(TypeInformation[tuple[Any, ...]]):
    """A tuple with a type per field.

    >>> from firesteel.common.typeinfo import Types
    >>> TupleTypeInfo([Types.STRING(), Types.INT()])
    TupleTypeInfo(String, Integer)
    """

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = list(field_types)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields, in order."""
        return self._field_types

    @override
    def need_conversion(self) -> bool:
        return True

    @override
    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """Return a tuple of internal forms."""
        if obj is None:
            return None
        if not isinstance(obj, list | tuple | Row):
            raise ValueError(f"expected a tuple, list or row for {self}, got {obj!r}")
        return _to_internal(self._field_types, obj)

    @override
    def from_internal_type(self, obj: Any) -> Any:
        """Return a tuple of values; a tuple or list is taken as already converted."""
        return _from_internal(self._field_types, obj)

    @override
    def _converter(self) -> Converter:
        return conversion.tuples(str(self), [field.batch_converter() for field in self._field_types])

    @override
    def _identity(self) -> tuple[Any, ...]:
        return tuple(self._field_types)

    @override
    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


def _to_internal(types: Sequence[TypeInformation], values: Any) -> tuple[Any, ...]:
    return tuple(field.to_internal_type(value) for field, value in zip(types, values, strict=False))


def _from_internal(types: Sequence[TypeInformation], obj: Any) -> Any:
    if obj is None or isinstance(obj, tuple | list):
        return obj
    return tuple(field.from_internal_type(value) for field, value in zip(types, obj, strict=False))


class RowTypeInfo(TypeInformation[Row]):
    """A row with a type and a name per field; names default to f0, f1 and so on.

    >>> from firesteel.common.typeinfo import Types
    >>> named = RowTypeInfo([Types.STRING(), Types.INT()], ["name", "age"])
    >>> named
    RowTypeInfo(name: String, age: Integer)
    >>> named.batch_converter()([("Ann", 5), {"name": "Bob", "age": 6}])
    [Row(name='Ann', age=5), Row(name='Bob', age=6)]
    """

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        if field_names is not None and len(field_names) != len(field_types):
            raise ValueError(
                f"{len(field_types)} field types but {len(field_names)} field names: {field_names!r}"
            )
        self._field_types = list(field_types)
        self._field_names = list(field_names) if field_names else None

    def get_field_names(self) -> list[str]:
        """Return the names of the fields, in order."""
        return self._field_names or [f"f{index}" for index in range(len(self._field_types))]

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field; ValueError when there is none of that name."""
        return self.get_field_names().index(field_name)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields, in order."""
        return self._field_types

    @override
    def need_conversion(self) -> bool:
        return True

    @override
    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """Return the number of the row kind, followed by the internal forms of the fields."""
        if obj is None:
            return None
        try:
            values = conversion.fields_of(obj, tuple(self.get_field_names()))
        except TypeError:
            raise ValueError(f"expected a row, dict, tuple, list or object for {self}, got {obj!r}") from None
        kind = obj.get_row_kind() if isinstance(obj, Row) else RowKind.INSERT
        return (kind.value, *_to_internal(self._field_types, values))

    @override
    def from_internal_type(self, obj: Any) -> Any:
        """Return a tuple of values; a tuple or list is taken as already converted."""
        return _from_internal(self._field_types, obj)

    @override
    def _converter(self) -> Converter:
        fields = [field._nullable_converter() for field in self._field_types]
        return conversion.rows(str(self), tuple(self.get_field_names()), fields)

    @override
    def _identity(self) -> tuple[Any, ...]:
        return tuple(self._field_types)  # names do not count, as in PyFlink

    @override
    def __repr__(self) -> str:
        if self._field_names is None:
            return f"RowTypeInfo({', '.join(map(str, self._field_types))})"
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {kind}' for name, kind in pairs)})"


class ExternalTypeInfo(TypeInformation):
    """Another type, marked as coming from a table."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = type_info
        self._accepts_none = type_info._accepts_none

    @property
    def type_info(self) -> TypeInformation:
        """The type that is marked."""
        return self._type_info

    @override
    def _converter(self) -> Converter | None:
        return self._type_info._converter()

    @override
    def _identity(self) -> tuple[Any, ...]:
        return (self._type_info,)

    @override
    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"
