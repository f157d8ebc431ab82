"""Classes as schemas of records: dataclasses, named tuples, typed dicts and msgspec structs.

A class says which fields there are and what is in them. Values of a field are converted a whole column at a time.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import msgspec

from firesteel.common.errors import ProgramError
from firesteel.common.types import Row

__all__ = [
    "Misfit",
    "RecordClass",
    "classes_in",
    "clean",
    "column_converter",
    "is_record_class",
    "plain_values",
    "record_class",
    "to_dict",
]


class Misfit(ValueError):
    """A value does not fit its field; ``index`` is its position in the column, ``path`` where in it."""

    def __init__(self, reason: str, index: int = 0, path: str = "") -> None:
        super().__init__(reason)
        self.index = index
        self.path = path


@dataclasses.dataclass(frozen=True)
class RecordClass:
    """A class of records: the names of its fields, their types, and how records are made of columns."""

    cls: type
    names: tuple[str, ...]
    hints: tuple[Any, ...]
    #: Fields that may be missing in the input.
    optional: frozenset[str]

    def records(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
        """One record for each position of the columns, which are those of the named fields."""
        if typing.is_typeddict(self.cls):
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if tuple(names) == self.names and not _keyword_only(self.cls):
            return list(map(self.cls, *columns))
        cls = self.cls
        return [cls(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def is_record_class(given: Any) -> bool:
    """Whether a class can be a schema."""
    return isinstance(given, type) and (
        dataclasses.is_dataclass(given)
        or typing.is_typeddict(given)
        or issubclass(given, msgspec.Struct)
        or (issubclass(given, tuple) and hasattr(given, "_fields"))
    )


def record_class(cls: type) -> RecordClass:
    """What a class says about its records."""
    try:
        hints = typing.get_type_hints(cls)
        names, optional = _fields(cls, hints)
    except (NameError, TypeError) as error:
        raise ProgramError(
            f"the fields of {cls.__qualname__} cannot be told: {error}; its annotations must be types that can be found"
        ) from error
    for name in names:
        _check(cls, name, hints[name])
    return RecordClass(cls, names, tuple(hints[name] for name in names), optional)


def _fields(cls: type, hints: dict[str, Any]) -> tuple[tuple[str, ...], frozenset[str]]:
    if typing.is_typeddict(cls):
        return tuple(hints), frozenset(cls.__optional_keys__)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(cls):
        fields = [field for field in dataclasses.fields(cls) if field.init]
        missing = dataclasses.MISSING
        given = {f.name for f in fields if f.default is not missing or f.default_factory is not missing}
        return tuple(field.name for field in fields), frozenset(given)
    if issubclass(cls, msgspec.Struct):
        described = msgspec.structs.fields(cls)
        return tuple(field.name for field in described), frozenset(
            f.name for f in described if not f.required
        )
    names = cls._fields  # type: ignore[attr-defined]
    return names, frozenset(cls._field_defaults)  # type: ignore[attr-defined]


def _keyword_only(cls: type) -> bool:
    if issubclass(cls, tuple):
        return False
    parameters = inspect.signature(cls).parameters.values()
    return any(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters)


def classes_in(hint: Any, found: dict[type, None] | None = None) -> list[type]:
    """The classes with fields, and the enums, that a type is made of."""
    found = {} if found is None else found
    if hint not in found and (is_record_class(hint) or _is_enum(hint)):
        found[hint] = None
        inner = typing.get_type_hints(hint).values() if is_record_class(hint) else ()
    else:
        inner = typing.get_args(hint)
    for each in inner:
        classes_in(each, found)
    return list(found)


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, enum.Enum)


def clean(classes: Sequence[type]) -> None:
    """Take away what msgspec keeps in classes: with it those of a program's main module cannot be pickled any more."""
    for cls in classes:
        if _CACHE in cls.__dict__ and not issubclass(cls, msgspec.Struct):
            delattr(cls, _CACHE)


_CACHE = "__msgspec_cache__"


def _check(cls: type, name: str, hint: Any) -> None:
    try:
        msgspec.json.Decoder(hint)
        clean(classes_in(hint))
    except TypeError as error:
        raise ProgramError(
            f"field {name!r} of {cls.__qualname__} has the type {hint!r}, of which no values can be made: {error}"
        ) from error


#: What a column may have in it without being looked at, by the type of the field.
_PLAIN: dict[Any, set[type]] = {int: {int}, str: {str}, bool: {bool}, bytes: {bytes}}


def column_converter(hint: Any, from_text: bool = False) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Converts the values of a column to a type; ``from_text``: also texts of numbers, truths and so on.

    Raises `Misfit` for a value that does not fit.
    """
    if hint is Any:
        return _unchanged
    plain = _PLAIN.get(hint)
    column_type = list[hint]
    classes = classes_in(hint)

    def convert(column: Sequence[Any]) -> Sequence[Any]:
        if plain is not None and set(map(type, column)) <= plain:
            return column
        try:
            converted: list[Any] = msgspec.convert(
                column, column_type, strict=not from_text, from_attributes=True
            )
        except msgspec.ValidationError as error:
            _raise_misfit(str(error))
        finally:
            clean(classes)
        return converted

    return convert


def _unchanged(column: Sequence[Any]) -> Sequence[Any]:
    return column


def _raise_misfit(message: str) -> NoReturn:
    """Msgspec says where: ``Expected `int`, got `str` - at `$[3].inner```."""
    reason, _, place = message.partition(" - at `$")
    index, path = 0, ""
    if place.startswith("["):
        number, _, path = place[1:].rstrip("`").partition("]")
        index = int(number) if number.isdigit() else 0
    text = reason.replace("`", "")
    raise Misfit(text[:1].lower() + text[1:], index, path.lstrip(".")) from None


def plain_values(column: Sequence[Any]) -> list[Any]:
    """Values as JSON would have them: texts for UUIDs, decimals and times, values for members of enums."""
    plain: list[Any] = msgspec.to_builtins(list(column))
    return plain


def to_dict(record: Any) -> Any:
    """The fields of a row, named tuple or instance by name, also of those inside of it; dicts and values as they are."""
    if isinstance(record, Row):
        names = record._fields or tuple(f"f{index}" for index in range(len(record)))
        return {name: to_dict(value) for name, value in zip(names, record._values, strict=True)}
    if isinstance(record, dict):
        return {key: to_dict(value) for key, value in record.items()}
    if isinstance(record, list):
        return [to_dict(value) for value in record]
    if is_record_class(type(record)):
        names = _names_of(cast(Any, type(record)))
        return {name: to_dict(getattr(record, name)) for name in names}
    if isinstance(record, enum.Enum):
        return record.value
    return record


@functools.lru_cache(maxsize=256)
def _names_of(cls: Any) -> tuple[str, ...]:
    return record_class(cls).names
