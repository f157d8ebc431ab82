"""Functions that give few results, and none with a tag: theirs can be taken together.

A generator may give any number of results, so they are taken one by one, with a look at each of them. Where the code of
a function shows that a call gives only a handful, and that no side output is in its reach, they are taken by one call
into C. As with every proof here, a no costs a little time, and a wrong yes would cost memory or order: so it is no
unless everything is known.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.common._values import ATOMIC
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import State

__all__ = ["gives_few", "never_tags"]

_DEEPEST = 3


def gives_few(call: Callable[..., Any]) -> bool:
    """Whether it is a generator function whose yields are in no loop, so that they are as many as its lines at most.

    >>> def pair(n):
    ...     yield n
    ...     yield n + 1
    >>> def all_up_to(n):
    ...     for i in range(n):
    ...         yield i
    >>> gives_few(pair), gives_few(all_up_to)
    (True, False)
    """
    function = getattr(call, "__func__", call)
    if not inspect.isgeneratorfunction(function) or not isinstance(function, types.FunctionType):
        return False
    # ``yield from`` is a loop, too.
    return not any(
        "BACKWARD" in step.opname or step.opname == "SEND" for step in dis.get_instructions(function)
    )


def never_tags(call: Callable[..., Any]) -> bool:
    """Whether a function has no tag of a side output in its reach, given that it calls nothing but what is proven."""
    function = getattr(call, "__func__", call)
    if not isinstance(function, types.FunctionType):
        return False
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    held += _globals_of(function)
    owner = getattr(call, "__self__", None)
    if owner is not None:
        held += getattr(owner, "__dict__", {}).values()
        for kind in type(owner).__mro__[:-1]:
            if not kind.__module__.startswith("firesteel."):  # the classes to derive from have none
                held += _attributes_of(kind)
    return all(_holds_no_tag(value, 0) for value in held)


def _attributes_of(kind: type) -> Iterator[Any]:
    """What the methods of a class can reach through it."""
    for name, value in kind.__dict__.items():
        if isinstance(value, types.FunctionType):
            yield from _globals_of(value)
        elif not name.startswith(("__", "_abc_")):
            yield value


def _globals_of(function: types.FunctionType) -> list[Any]:
    names = [name for code in _codes(function.__code__) for name in code.co_names]
    return [function.__globals__[name] for name in names if name in function.__globals__]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _holds_no_tag(value: Any, depth: int) -> bool:
    kind = type(value)
    if isinstance(value, type):
        return value is not OutputTag
    if kind in ATOMIC and kind is not types.ModuleType:
        return True
    if isinstance(value, State | TypeInformation | property | staticmethod | classmethod):
        return True
    if kind is types.ModuleType:
        return value.__name__.partition(".")[0] in sys.stdlib_module_names
    if kind in (list, tuple, set, frozenset, dict) and depth < _DEEPEST:
        parts: Iterable[Any] = [*value.keys(), *value.values()] if kind is dict else value
        return all(_holds_no_tag(part, depth + 1) for part in parts)
    return False
