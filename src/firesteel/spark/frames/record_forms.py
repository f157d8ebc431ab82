"""What the rows of a DataFrame become: rows, dicts, tuples or objects of a class of the program's."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from firesteel.common.errors import ProgramError, WrongArgumentError, short_repr
from firesteel.common.types import Row

Columns = Sequence[Sequence[Any]]
Maker = Callable[[Columns], list[Any]]


@dataclass(frozen=True)
class RecordForm:
    """The class of the records: `Row`, dict, tuple, or a dataclass, a named tuple or a ``TypedDict``."""

    kind: Any = Row

    def __post_init__(self) -> None:
        if self.kind not in (Row, dict, tuple) and _fields(self.kind) is None:
            raise WrongArgumentError(
                "records of a DataFrame can be Row, dict, tuple, or objects of a dataclass, a NamedTuple or a TypedDict, "
                f"got {short_repr(self.kind)}"
            )

    def inner(self, name: str) -> RecordForm:
        """The form of structs in a field: what a class says about it, rows when it says nothing."""
        if self.kind in (Row, dict, tuple):
            return self
        hints = typing.get_type_hints(self.kind)
        for candidate in _mentioned(hints.get(name)):
            if _fields(candidate) is not None:
                return RecordForm(candidate)
        return RecordForm(Row)

    def check(self, names: Sequence[str], what: str) -> None:
        """Raise unless the class has exactly these fields, or defaults for others."""
        fields = _fields(self.kind)
        if self.kind in (Row, dict, tuple) or fields is None:
            return
        unknown = [name for name in names if name not in fields]
        missing = [name for name, required in fields.items() if required and name not in names]
        if unknown or missing:
            problems = []
            if unknown:
                problems.append(f"it has no field for {', '.join(map(repr, unknown))}")
            if missing:
                problems.append(f"its fields {', '.join(map(repr, missing))} have no column")
            raise ProgramError(
                f"{what} cannot become objects of {self.kind.__name__}: {'; '.join(problems)}; use "
                "DataFrame.select() and alias() so that columns and fields agree"
            )

    def maker(self, names: tuple[str, ...]) -> Maker:
        """Makes records of columns with these names."""
        kind = self.kind
        if kind is Row:
            return lambda columns: Row._make_all(zip(*columns, strict=True), names)
        if kind is tuple:
            return lambda columns: list(zip(*columns, strict=True))
        if kind is dict or typing.is_typeddict(kind):
            return lambda columns: [
                dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)
            ]
        self.check(names, f"rows with the fields {', '.join(names)}")
        return lambda columns: [
            kind(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)
        ]


def _fields(kind: Any) -> dict[str, bool] | None:
    """The fields of a class, and whether each has to be given; None for what is no such class."""
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        return {field.name: _has_no_default(field) for field in dataclasses.fields(kind) if field.init}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = getattr(kind, "_field_defaults", {})
        return {name: name not in defaults for name in kind._fields}
    if typing.is_typeddict(kind):
        required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        return {name: name in required for name in kind.__annotations__}
    return None


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _mentioned(hint: Any) -> list[Any]:
    """A type and those inside: of ``list[Point] | None`` the class ``Point``, too."""
    return [hint, *(part for inner in typing.get_args(hint) for part in _mentioned(inner))]
