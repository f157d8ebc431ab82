"""Finds what it is in an object that cannot be pickled, by the name that the program has for it.

Python's message names the type of the innermost thing (``cannot pickle '_thread.lock' object``), which is often deep in
a library's object. What helps is the way to it from the function: ``self.db``, or the global ``session``.
"""

from __future__ import annotations

import functools
import inspect
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle

__all__ = ["path_to_unpicklable"]

_DEEPEST = 6
_MOST_PARTS = 1000  # of each object; a mistake is looked for, not every element of a large collection
_IMMUTABLE = (
    1 << 8
)  # Py_TPFLAGS_IMMUTABLETYPE: a class written in C; pickling one would make it a class of the program
_Member = tuple[str, Any]


def path_to_unpicklable(thing: Any) -> tuple[str, Any] | None:
    """The way to the part of ``thing`` that a program knows by name and that cannot be pickled, and the part itself.

    >>> import threading
    >>> class Lookup:
    ...     def __init__(self):
    ...         self.db = {"lock": threading.Lock()}
    >>> path_to_unpicklable(Lookup())[0]
    "self.db['lock']"
    >>> path_to_unpicklable(len) is None
    True
    """
    named_part: tuple[str, Any] | None = None
    part, path, seen = thing, "", {id(thing)}
    for _ in range(_DEEPEST):
        unseen = (each for each in _parts(part, path) if id(each[1]) not in seen)
        bad = next((each for each in unseen if _fails(each[1])), None)
        if bad is None:
            break
        named_part = path, part = bad
        seen.add(id(part))
        # How an object of a library is made inside is not what the program has to change.
        if not _is_plain(part) and _is_of_library(type(part)):
            break
    return named_part


def _parts(thing: Any, path: str) -> Iterator[_Member]:
    """What the object holds, named as the program names it."""
    for count, part in enumerate(_all_parts(thing, path)):
        if count >= _MOST_PARTS:
            return
        yield part


def _all_parts(thing: Any, path: str) -> Iterator[_Member]:
    if isinstance(thing, functools.partial):
        yield from _all_parts(thing.func, path)
        yield from ((f"argument {index + 1} of the partial", each) for index, each in enumerate(thing.args))
        yield from ((f"argument {name!r} of the partial", each) for name, each in thing.keywords.items())
    elif isinstance(thing, types.MethodType):
        yield from _all_parts(thing.__self__, path)
    elif isinstance(thing, types.FunctionType):
        yield from _parts_of_function(thing)
    elif isinstance(thing, dict):
        yield from ((f"{path}[{key!r}]", each) for key, each in thing.items())
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from ((f"{path}[{index}]", each) for index, each in enumerate(thing))
    elif isinstance(thing, type):
        yield from _parts_of_class(thing)
    else:
        yield from ((f"{path or 'self'}.{name}", each) for name, each in _attributes(thing))
        yield from _parts_of_class(type(thing))


def _parts_of_function(function: types.FunctionType) -> Iterator[_Member]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"the variable {name!r} around it", cell.cell_contents
        except ValueError:  # nothing has been assigned yet
            continue
    if _travels_by_value(function):
        for name in _names_in(function.__code__):
            if name in function.__globals__:
                yield f"the global {name!r}", function.__globals__[name]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    yield from (("a default argument", each) for each in defaults)


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _parts_of_class(kind: type) -> Iterator[_Member]:
    """What a class holds, when it is sent as a whole."""
    if not _travels_by_value(kind):
        return
    for name, value in vars(kind).items():
        if isinstance(value, types.FunctionType):
            yield from _parts_of_function(value)
        elif not name.startswith(("__", "_abc_")) and not inspect.isroutine(value):
            yield f"{kind.__name__}.{name}", value
    for base in kind.__bases__:
        yield from _parts_of_class(base)


def _attributes(thing: Any) -> Iterator[_Member]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                yield name, getattr(thing, name)


def _travels_by_value(thing: Any) -> bool:
    """Whether a function or class is sent itself, not by its name in a module that the tasks import."""
    if isinstance(thing, type) and thing.__flags__ & _IMMUTABLE:
        return False
    try:
        return bool(cloudpickle.cloudpickle._should_pickle_by_reference(thing) is False)
    except Exception:  # noqa: BLE001 - a guess for a message only
        return False


def _is_of_library(kind: type) -> bool:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None:
        return kind.__module__ != "__main__"
    return file.startswith(_LIBRARY) or "site-packages" in file or "dist-packages" in file


_LIBRARY = sysconfig.get_path("stdlib")


def _is_plain(thing: Any) -> bool:
    kinds = (dict, list, tuple, set, frozenset, functools.partial, types.MethodType, types.FunctionType, type)
    return isinstance(thing, kinds)


def _fails(thing: Any) -> bool:
    try:
        cloudpickle.dumps(thing)
    except Exception:  # noqa: BLE001 - that it fails is the question
        return True
    return False
