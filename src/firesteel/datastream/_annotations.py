"""What the annotations of a user's function say about its results: read to check field names, never to change values.

``def parse(line: str) -> Order`` says that results are Orders, and so does ``class Parse(MapFunction[str, Order])`` when
its method says nothing; so ``key_by("custmer")`` is refused where the program says it, and `AnnotatedTypeInfo` is the
type of the stream. PyFlink does not read annotations, and Python does not enforce them; so they convert nothing, check no value
and are no part of the types that saved state must fit: ``output_type`` is for that.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from firesteel.common.errors import InvalidFieldError, describe_function
from firesteel.common.typeinfo import AnnotatedTypeInfo, TypeInformation, name_of_kind
from firesteel.contracts.functions import Function
from firesteel.contracts.output_tag import OutputTag
from firesteel.datastream._fields import WHOLE, position_in_name
from firesteel.datastream.utils import ResultTypeQueryable

__all__ = ["Annotation", "produced_type"]

_MANY = frozenset(
    {
        collections.abc.Iterable, collections.abc.Iterator, collections.abc.Generator, collections.abc.Sequence,
        collections.abc.Collection, collections.abc.Set, list, set, frozenset,
    }
)  # fmt: skip

#: Nothing in them has a position that a program could mean.
_SINGLE = frozenset({int, float, bool, complex, decimal.Decimal, datetime.date, datetime.datetime, datetime.time, datetime.timedelta})  # fmt: skip

_UNKNOWN = object()
#: Of a method that emits nothing, because it returns None or nobody wrote it.
_NOTHING = object()


def produced_type(function: object) -> TypeInformation | None:
    """The type that a function says it produces, as a `ResultTypeQueryable`: a declaration like ``output_type``."""
    return function.get_produced_type() if isinstance(function, ResultTypeQueryable) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Annotation:
    """What the results of a function are, by its annotation."""

    kind: Any
    function: str

    @classmethod
    def of_results(cls, function: Any, *methods: str) -> Annotation | None:
        """That of a function with one result for each call; None when there is none, or it says nothing.

        ``methods`` are those of a function object whose results are the stream's.
        """
        return cls._of(function, methods, lambda returned: returned)

    @classmethod
    def of_each_result(cls, function: Any, *methods: str) -> Annotation | None:
        """That of a function whose results are in an iterable; what goes to side outputs does not count."""
        return cls._of(function, methods, lambda returned: _element(_the_one(returned)))

    @classmethod
    def _of(
        cls, function: Any, methods: tuple[str, ...], result_of: Callable[[Any], Any]
    ) -> Annotation | None:
        returned = [
            annotation for method in methods if (annotation := _returned(function, method)) is not _NOTHING
        ]
        kinds = [_the_one(result_of(each)) for each in returned]
        kind = kinds[0] if kinds and all(each == kinds[0] for each in kinds) else _UNKNOWN
        if kind is _UNKNOWN or kind is Any:
            kind = _the_one(_parameter(function))
        known = kind is not _UNKNOWN and kind is not Any and not isinstance(kind, typing.TypeVar)
        return cls(kind, describe_function(function)) if known else None

    @classmethod
    def of_all(cls, annotations: Iterable[Annotation | None]) -> Annotation | None:
        """That of several streams that become one, when it is the same for all."""
        first, *others = annotations
        same = first is not None and all(each is not None and each.kind == first.kind for each in others)
        return first if same else None

    def type_info(self) -> TypeInformation:
        """What the results are, as a type that converts and checks nothing."""
        return AnnotatedTypeInfo(self.kind)

    def check_field(self, field: int | str, used_by: str) -> None:
        """Refuse a field that results cannot have; what is not known passes."""
        parts: list[int | str] = [field] if isinstance(field, int) else [*field.split(".")]
        kind = self.kind
        for part in parts:
            if part in WHOLE or part == "":
                return
            problem = _missing(kind, part)
            if problem is not None:
                raise InvalidFieldError(
                    f"{used_by}: no field {part!r} in {name_of_kind(kind)}{problem}, which {self.function} returns according "
                    "to its annotation; name a field that there is, or correct the annotation"
                )
            kind = _the_one(_step(kind, part))


def _returned(function: Any, method: str) -> Any:
    """The annotation of what a function, or a method of a function object, returns."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, Function):
        function = getattr(type(function), method, None)
        if getattr(function, "__module__", "").startswith("firesteel.contracts."):
            return _NOTHING  # that of the base class, such as an on_timer() that the user did not write
    elif not inspect.isroutine(function):
        function = getattr(type(function), "__call__", None)  # noqa: B004 - looked up for its annotation
    try:
        returned = typing.get_type_hints(function).get("return", _UNKNOWN)
        return _NOTHING if returned is type(None) else returned
    except Exception:  # noqa: BLE001 - an annotation may say anything, also names that exist for type checkers only
        return _UNKNOWN


def _parameter(function: Any) -> Any:
    """What the class of a function object says with its parameters: ``class Parse(MapFunction[str, Order])``."""
    for kind in type(function).__mro__:
        for base in vars(kind).get("__orig_bases__", ()):
            origin = typing.get_origin(base)
            if not (isinstance(origin, type) and origin.__module__.startswith("firesteel.contracts.")):
                continue
            names = [variable.__name__ for variable in getattr(origin, "__parameters__", ())]
            if "OUT" in names:
                argument = typing.get_args(base)[names.index("OUT")]
                return _UNKNOWN if isinstance(argument, typing.ForwardRef) else argument
    return _UNKNOWN


def _element(kind: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in _MANY and arguments:
        return arguments[0]
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return arguments[0]
    return _UNKNOWN


def _the_one(kind: Any) -> Any:
    """The one thing that a value is, if it is not None and no pair for a side output; unknown for several."""
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    candidates = [
        each
        for each in (typing.get_args(kind) if is_union else (kind,))
        if each is not type(None) and not _is_for_side_output(each)
    ]
    return candidates[0] if len(candidates) == 1 else _UNKNOWN


def _is_for_side_output(kind: Any) -> bool:
    """Whether it is a pair of a tag, with or without its parameter, and a value."""
    first, *_ = typing.get_args(kind) or (None,)
    return typing.get_origin(kind) is tuple and OutputTag in (first, typing.get_origin(first))


def _fields(kind: Any) -> dict[str, Any] | None:
    """The fields of a data class, named tuple or typed dict; None for anything else."""
    if not isinstance(kind, type):
        return None
    is_record = dataclasses.is_dataclass(kind) or hasattr(kind, "_fields") or typing.is_typeddict(kind)
    if not is_record:
        return None
    try:
        return typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001 - as above
        return None


def _missing(kind: Any, part: int | str) -> str | None:
    """What there is instead, when there is no such field for sure; None when it may be there."""
    position = part if isinstance(part, int) else position_in_name(part)
    if typing.get_origin(kind) is tuple:
        count = len(typing.get_args(kind))
        if ... in typing.get_args(kind) or (position is not None and position < count):
            return None
        return f" (fields 0 to {count - 1})"
    fields = _fields(kind)
    if fields is not None and not hasattr(kind, "__getattr__"):
        positions = len(fields) if hasattr(kind, "_fields") else 0
        if part in fields or hasattr(kind, str(part)) or (position is not None and position < positions):
            return None
        return f" ({', '.join(fields)})"
    if kind in _SINGLE and not hasattr(kind, str(part)) and part not in (0, "0"):
        return ""
    return None


def _step(kind: Any, part: int | str) -> Any:
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and ... not in arguments:
        position = part if isinstance(part, int) else position_in_name(part)
        return arguments[position] if position is not None else _UNKNOWN
    return (_fields(kind) or {}).get(str(part), _UNKNOWN)
