"""Identity of a side output: records yielded as ``tag, value`` leave by it instead of the main output."""

from __future__ import annotations

from collections.abc import Sequence

from firesteel.common.typeinfo import TypeInformation, Types


class OutputTag:
    """A named, typed side output. Tags with equal names are the same output.

    >>> late = OutputTag("late-data")
    >>> late == OutputTag("late-data")
    True
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(
        self, tag_id: str, type_info: TypeInformation | Sequence[TypeInformation] | None = None
    ) -> None:
        if not tag_id:
            raise ValueError("a side output needs a name: OutputTag('late-data')")
        self.tag_id = tag_id
        self.type_info = _as_type(type_info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"


def _as_type(given: TypeInformation | Sequence[TypeInformation] | None) -> TypeInformation:
    """A list of types means a tuple of them; nothing means any Python object."""
    if given is None:
        return Types.PICKLED_BYTE_ARRAY()
    return given if isinstance(given, TypeInformation) else Types.TUPLE(list(given))
