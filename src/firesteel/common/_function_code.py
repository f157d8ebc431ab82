"""What the code of a user's function proves about it: whether it ever returns a value, whether it does anything.

Everything here is careful in one direction: what cannot be proven is not claimed. Both the compiled code and the source
have to agree, because compiled code cannot tell a forgotten ``return`` from a ``return None`` that somebody meant, and
the source may have changed since.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["does_nothing", "forgets_return", "is_async", "python_function"]

_YIELDS = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
)
_SETTING_UP = frozenset({"RESUME", "NOP", "COPY_FREE_VARS", "MAKE_CELL", "CACHE"})


def python_function(thing: Any) -> types.FunctionType | None:
    """The function that a call of ``thing`` runs: itself, a method, what a partial calls, ``__call__``; None for others.

    >>> python_function(len) is None, python_function(functools.partial(textwrap.dedent, "x")).__name__
    (True, 'dedent')
    """
    while isinstance(thing, functools.partial):
        thing = thing.func
    if isinstance(thing, types.MethodType):
        thing = thing.__func__
    if not isinstance(thing, types.FunctionType) and not isinstance(thing, type):
        thing = getattr(type(thing), "__call__", None)  # noqa: B004 - looked up for its code
    return thing if isinstance(thing, types.FunctionType) else None


def is_async(function: types.FunctionType) -> bool:
    """Whether it is an ``async def``: a call of it runs nothing by itself."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def forgets_return(function: types.FunctionType) -> bool:
    """Whether it provably gives None however it ends, and nothing says that this is meant.

    >>> from firesteel.common import _function_code
    >>> forgets_return(_function_code.forgets_return)
    False
    """
    if function.__name__ == "<lambda>" or hasattr(function, "__wrapped__"):
        return False
    code = function.__code__
    return not code.co_flags & _YIELDS and _returns_none_only(code) and _says_no_return(code)


def does_nothing(function: types.FunctionType) -> bool:
    """Whether its body is a placeholder: ``pass``, a docstring, or an error that it raises."""
    steps = [step for step in dis.get_instructions(function.__code__) if step.opname not in _SETTING_UP]
    names = [step.opname for step in steps]
    if not any(name.startswith("RETURN") for name in names):
        return "RAISE_VARARGS" in names
    return all(step.opname == "RETURN_VALUE" or _is_none(step) for step in steps)


def _returns_none_only(code: types.CodeType) -> bool:
    """Whether there are returns, and each gives the constant None; with none at all the function only raises."""
    before: dis.Instruction | None = None
    returns = 0
    for step in dis.get_instructions(code):
        if step.opname in ("RETURN_VALUE", "RETURN_CONST"):
            given = step if step.opname == "RETURN_CONST" else before
            if given is None or not _is_none(given):
                return False
            returns += 1
        if step.opname not in _SETTING_UP:
            before = step
    return returns > 0


def _is_none(step: dis.Instruction) -> bool:
    """Whether it loads or returns the constant None."""
    return step.opname in ("LOAD_CONST", "RETURN_CONST") and step.argval is None


def _says_no_return(code: types.CodeType) -> bool:
    """Whether no ``return`` in the source has a value, not even None; False when the source is not there."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(code))).body
    except (OSError, SyntaxError, ValueError, TypeError):
        return False
    if not isinstance(definition, ast.FunctionDef) or definition.name != code.co_name:
        return False
    return all(step.value is None for step in _own_returns(definition.body))


def _own_returns(statements: list[Any]) -> Iterator[ast.Return]:
    for statement in statements:
        if isinstance(statement, ast.Return):
            yield statement
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own_returns(list(ast.iter_child_nodes(statement)))
