"""Saved objects of dataclasses and named tuples, read with a class whose fields have changed since.

`evolvable_fields` says which names are written with a class. `reading_class` takes those names when state is read:
it gives the class itself while nothing has changed, and otherwise a stand-in that pickle fills like the old
class and that turns each instance into one of today's class. So reading unchanged classes costs nothing.
"""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from firesteel.common.errors import IncompatibleStateError

__all__ = ["evolvable_fields", "reading_class"]

_known: weakref.WeakKeyDictionary[type, tuple[str, ...] | None] = weakref.WeakKeyDictionary()
#: Dataclasses with slots that are frozen get these two from the decorator; their state is a list in field order.
_LIST_STATE = (
    getattr(dataclasses, "_dataclass_getstate", None),
    getattr(dataclasses, "_dataclass_setstate", None),
)


def evolvable_fields(cls: type) -> tuple[str, ...] | None:
    """The names of the fields, for dataclasses and named tuples that pickle in the ordinary way; else None."""
    if cls not in _known:
        _known[cls] = _fields(cls)
    return _known[cls]


def reading_class(cls: type, written: tuple[str, ...]) -> type:
    """What pickle shall make instances of, when ``cls`` was saved with the fields ``written``."""
    current = evolvable_fields(cls)
    if current == written:
        return cls
    if current is None:
        raise IncompatibleStateError(
            f"state contains objects of {cls.__qualname__} with the fields {', '.join(written)}; the class of today "
            "is no dataclass or named tuple any more, or pickles itself; keep it a dataclass, or convert the state"
        )
    return _stand_in(cls, written)


def _fields(cls: type) -> tuple[str, ...] | None:
    if _is_named_tuple(cls):
        return tuple(cls._fields)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(cls) and _pickles_ordinarily(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return None


def _is_named_tuple(cls: type) -> bool:
    """Whether it is a named tuple, or derived from one without changing how instances are made."""
    named_tuple = next((base for base in cls.__mro__ if base.__bases__ == (tuple,)), None)
    if named_tuple is None or not isinstance(getattr(named_tuple, "_fields", None), tuple):
        return False
    derived = cls.__mro__[: cls.__mro__.index(named_tuple)]
    own = ("__new__", "__getnewargs__", "__getnewargs_ex__", "__reduce__", "__reduce_ex__", "__getstate__")
    return cls not in copyreg.dispatch_table and not any(
        name in vars(base) for base in derived for name in own
    )


def _pickles_ordinarily(cls: Any) -> bool:
    return (
        cls.__reduce_ex__ is object.__reduce_ex__
        and cls.__reduce__ is object.__reduce__
        and getattr(cls, "__getstate__", None) in (object.__getstate__, _LIST_STATE[0])
        and getattr(cls, "__setstate__", None) in (None, _LIST_STATE[1])
        and not hasattr(cls, "__getnewargs__")
        and not hasattr(cls, "__getnewargs_ex__")
        and cls not in copyreg.dispatch_table
    )


@functools.lru_cache(maxsize=256)
def _stand_in(cls: type, written: tuple[str, ...]) -> type:
    if issubclass(cls, tuple):
        return _named_tuple_stand_in(cls, written)
    return _dataclass_stand_in(cls, written)


def _named_tuple_stand_in(cls: Any, written: tuple[str, ...]) -> type:
    added = [name for name in cls._fields if name not in written]
    _refuse_missing(cls, [name for name in added if name not in cls._field_defaults])

    def make(_: type, *values: Any) -> Any:
        saved = dict(zip(written, values, strict=True))
        return cls(**{name: saved[name] for name in cls._fields if name in saved})

    return type(cls.__name__, (), {"__new__": make})


def _dataclass_stand_in(cls: Any, written: tuple[str, ...]) -> type:
    """A subclass without fields of its own, so that an instance can become one of ``cls`` when it is filled."""
    fields = dataclasses.fields(cls)
    current = {field.name for field in fields}
    removed = [name for name in written if name not in current]
    defaults = _defaults(cls, [field for field in fields if field.name not in written])

    def fill(instance: Any, state: Any) -> None:
        values = _saved_values(state, written)
        for name in removed:
            values.pop(name, None)
        for name, make in defaults.items():
            values[name] = make()
        for name, value in values.items():
            object.__setattr__(instance, name, value)  # a frozen class refuses the ordinary way
        object.__setattr__(instance, "__class__", cls)

    def make_without_state(_: type) -> Any:
        instance = cls.__new__(cls)
        for name, make in defaults.items():
            object.__setattr__(instance, name, make())
        return instance

    body: dict[str, Any] = {"__slots__": (), "__setstate__": fill, "__module__": cls.__module__}
    if not written:  # pickle hands over no state for an instance that had no fields
        body["__new__"] = make_without_state
    stand_in: type = type(cls)(cls.__name__, (cls,), body)
    return stand_in


def _defaults(cls: type, added: list[dataclasses.Field[Any]]) -> Mapping[str, Callable[[], Any]]:
    makers: dict[str, Callable[[], Any]] = {}
    missing = []
    for field in added:
        if not _is_missing(field.default_factory):
            makers[field.name] = field.default_factory  # type: ignore[assignment]
        elif not _is_missing(field.default):
            makers[field.name] = functools.partial(_same, field.default)
        elif field.init:
            missing.append(field.name)
    _refuse_missing(cls, missing)
    return makers


def _is_missing(default: Any) -> bool:
    # By type: a class that travelled by value brings a copy of the one object that means "no default".
    return isinstance(default, type(dataclasses.MISSING))


def _same(value: Any) -> Any:
    return value


def _refuse_missing(cls: type, names: list[str]) -> None:
    if names:
        raise IncompatibleStateError(
            f"state contains objects of {cls.__qualname__} from before its field "
            f"{' and '.join(map(repr, names))} was added; give the new field a default value"
        )


def _saved_values(state: Any, written: tuple[str, ...]) -> dict[str, Any]:
    """Values by name from the three shapes that pickle gives the state of an instance."""
    if isinstance(state, list):
        return dict(zip(written, state, strict=True))
    if isinstance(state, tuple):
        attributes, slots = state
        return {**(attributes or {}), **(slots or {})}
    return dict(state)
