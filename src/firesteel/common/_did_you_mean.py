"""Names that do not exist: which one was meant.

Python guesses by spelling, and up to 3.11 only where it prints an error itself. People who come from Java or Spark have
other words for the same things, and no spelling leads from ``groupBy`` to ``key_by``. `SuggestsNames` knows both.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from firesteel.common.errors import UnknownOperationError

__all__ = ["SuggestsNames", "closest", "suggestion_for"]

_SIMILAR = 0.66
_LONGEST = 40  # comparing longer names takes long, and nobody types one wrong and nearly right


class SuggestsNames:
    """Base of what programs build: says which operation was meant by a name that does not exist.

    Only for objects of which nobody reads attributes record by record: a class with ``__getattr__`` is slower.
    """

    #: What there is instead of names of other systems, as the end of a sentence.
    _elsewhere: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # type checkers must go on seeing what is missing

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            # Names with an underscore are asked for by copy, pickle, notebooks and debuggers, not by programs.
            if name.startswith("_"):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            raise _unknown(kind, name)


def _unknown(kind: type[SuggestsNames], name: str) -> UnknownOperationError:
    names = _public_names(kind)
    match = _same(name, names)
    instead = None if match else kind._elsewhere.get(name) or kind._elsewhere.get(_snake_case(name))
    if instead is None:
        match = match or closest(name, names)
        instead = None if match is None else f"did you mean {_called(kind, match)}?"
    if instead is None:
        return UnknownOperationError(f"{kind.__name__!r} object has no attribute {name!r}", name=name)
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return UnknownOperationError(f"{article} {kind.__name__} has no {name!r}: {instead}", name=name)


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that was meant: the same in another style of writing, or one that is nearly the same.

    >>> closest("keyBy", ["key_by", "map"]), closest("flatmap", ["flat_map", "map"]), closest("fliter", ["filter"])
    ('key_by', 'flat_map', 'filter')
    >>> closest("withColumn", ["map", "filter"]) is None
    True
    """
    known = list(names)
    match = _same(name, known)
    if match is not None or len(name) > _LONGEST:
        return match
    import difflib  # late: most programs have no such mistake

    similar = difflib.get_close_matches(_snake_case(name), known, n=1, cutoff=_SIMILAR)
    return similar[0] if similar else None


def _same(name: str, names: list[str]) -> str | None:
    """The same name in another style of writing."""
    for form in (_snake_case, _letters):
        match = next((each for each in names if form(each) == form(name)), None)
        if match is not None:
            return match
    return None


def suggestion_for(error: BaseException) -> str | None:
    """The name that was meant where Python's own error names one that does not exist; None when nothing is near.

    From 3.12 on Python says it whoever prints the error.
    """
    if sys.version_info >= (3, 12) or isinstance(error, UnknownOperationError):
        return None
    try:
        return _suggested(error)
    except Exception:  # noqa: BLE001 - a user's __dir__ may raise, and the error itself must be told
        return None


def _suggested(error: BaseException) -> str | None:
    name = getattr(error, "name", None)
    if not isinstance(name, str):
        return None
    if isinstance(error, ImportError):
        wanted = re.match(r"cannot import name '(\w+)'", str(error))
        return closest(wanted[1], dir(sys.modules.get(name))) if wanted else None
    if isinstance(error, AttributeError) and error.obj is not None:
        return closest(name, [each for each in dir(error.obj) if not each.startswith("_")])
    if isinstance(error, NameError):
        return closest(name, _visible_names(error)) or closest(name, dir(builtins))
    return None


def _visible_names(error: BaseException) -> list[str]:
    step = error.__traceback__
    if step is None:
        return []
    while step.tb_next is not None:
        step = step.tb_next
    frame = step.tb_frame
    return [*frame.f_locals, *frame.f_globals]


def _public_names(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def _called(kind: type, name: str) -> str:
    return f"{name}()" if callable(getattr(kind, name, None)) else name


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _letters(name: str) -> str:
    return name.replace("_", "").lower()
