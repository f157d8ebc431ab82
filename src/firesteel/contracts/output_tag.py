"""Identity of a side output: records yielded as ``tag, value`` leave by it instead of the main output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, overload

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import InvalidArgumentError, WrongArgumentError, short_repr
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.common.types import Row

T = TypeVar("T", default=Any)


class OutputTag(Generic[T]):
    """A named, typed side output. Tags with equal names are the same output.

    >>> late = OutputTag("late-data")
    >>> late == OutputTag("late-data")
    True
    """

    __slots__ = ("tag_id", "type_info")

    @overload
    def __init__(self, tag_id: str, type_info: TypeInformation[T] | None = None) -> None: ...

    @overload
    def __init__(self: OutputTag[Row], tag_id: str, type_info: Sequence[TypeInformation]) -> None: ...

    def __init__(
        self, tag_id: str, type_info: TypeInformation[Any] | Sequence[TypeInformation] | None = None
    ) -> None:
        if not tag_id:
            raise InvalidArgumentError("a side output needs a name: OutputTag('late-data')")
        self.tag_id = tag_id
        self.type_info = _as_type(type_info)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    @override
    def __hash__(self) -> int:
        return hash(self.tag_id)

    @override
    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"


def _as_type(given: TypeInformation | Sequence[TypeInformation] | None) -> TypeInformation:
    """A list of types means a row of them, as in PyFlink; nothing means any Python object."""
    if given is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(given, TypeInformation):
        return given
    if isinstance(given, (list, tuple)) and all(isinstance(each, TypeInformation) for each in given):
        return Types.ROW(list(given))
    raise WrongArgumentError(
        f"OutputTag() needs a TypeInformation such as Types.INT() or a list of them, got {short_repr(given)}"
    )
