"""Takes a user's function at the line where the program uses it: right kind, right arity, fit to travel."""

from __future__ import annotations

import inspect
import types
from dataclasses import replace
from typing import Any

from firesteel.common.errors import WrongArgumentError, describe_function, short_repr
from firesteel.common.watermark_strategy import CustomGenerator, WatermarkStrategy
from firesteel.contracts.functions import Function
from firesteel.plan.shipped import Shipped

__all__ = [
    "WrongArgumentError",
    "ship_callable",
    "ship_function",
    "ship_plain_callable",
    "ship_strategy",
    "wrong_argument",
]


def wrong_argument(used_by: str, expected: str, got: object, remedy: str = "") -> WrongArgumentError:
    """The error for an argument of the wrong kind: what was expected, what came, what to do."""
    is_function = isinstance(got, types.FunctionType | types.MethodType | Function)
    shown = describe_function(got) if is_function else f"{short_repr(got)} ({type(got).__name__})"
    return WrongArgumentError(f"{used_by} needs {expected}, got {shown}{'; ' + remedy if remedy else ''}")


def ship_function(function: Any, used_by: str, *kinds: type[Function]) -> Shipped:
    """Ship an object that must be of one of ``kinds``."""
    _refuse_class(function, used_by, kinds)
    if not isinstance(function, kinds):
        raise wrong_argument(used_by, _names(kinds), function)
    return Shipped.of(function, used_by)


def ship_callable(function: Any, used_by: str, kind: type[Function], arguments: int = 1) -> Shipped:
    """Ship an object of ``kind`` or a plain callable of so many arguments; the callable is not wrapped."""
    check_callable(function, used_by, kind, arguments)
    return Shipped.of(function, used_by)


def ship_plain_callable(function: Any, used_by: str, arguments: int) -> Shipped:
    """Ship a callable of so many arguments, where there is no function class for it."""
    expected = f"a function of {arguments} values"
    is_class = isinstance(function, type) and issubclass(function, Function)
    if is_class or isinstance(function, Function) or not callable(function):
        raise wrong_argument(used_by, expected, function)
    if isinstance(function, types.FunctionType | types.MethodType):
        _check_signature(function, used_by, expected, arguments)
    return Shipped.of(function, used_by)


def ship_strategy(strategy: Any, used_by: str) -> Shipped:
    """Ship a `WatermarkStrategy`, described by the user's code in it."""
    if not isinstance(strategy, WatermarkStrategy):
        raise wrong_argument(
            used_by, "a WatermarkStrategy", strategy, "for example WatermarkStrategy.no_watermarks()"
        )
    code: Any = strategy.timestamp_assigner
    if code is None and isinstance(strategy.generator, CustomGenerator):
        code = strategy.generator.supplier
    shipped = Shipped.of(strategy, used_by)
    return shipped if code is None else replace(shipped, description=describe_function(code))


def check_callable(function: Any, used_by: str, kind: type[Function], arguments: int = 1) -> None:
    """Refuse what is neither of ``kind`` nor a callable of so many arguments."""
    _refuse_class(function, used_by, (kind,))
    if isinstance(function, kind):
        return
    values = "one value" if arguments == 1 else f"{arguments} values"
    expected = f"{_names((kind,))} or a function of {values}"
    if isinstance(function, Function) or not callable(function):
        raise wrong_argument(used_by, expected, function)
    if isinstance(function, types.FunctionType | types.MethodType):
        _check_signature(function, used_by, expected, arguments)


def _check_signature(
    function: types.FunctionType | types.MethodType, used_by: str, expected: str, arguments: int
) -> None:
    if inspect.iscoroutinefunction(function):
        raise wrong_argument(used_by, expected, function, "async functions run in AsyncDataStream")
    if inspect.isgeneratorfunction(function) and not used_by.startswith("flat_map"):
        raise wrong_argument(
            used_by,
            expected,
            function,
            "it yields: return a value, or use flat_map() for any number of outputs",
        )
    try:
        inspect.signature(function, follow_wrapped=False).bind(*range(arguments))
    except TypeError as error:
        raise wrong_argument(used_by, expected, function, f"it cannot be called so: {error}") from error


def _refuse_class(function: Any, used_by: str, kinds: tuple[type[Function], ...]) -> None:
    """A function class is callable, so a forgotten pair of parentheses would only show in the tasks."""
    if isinstance(function, type) and issubclass(function, Function):
        raise WrongArgumentError(
            f"{used_by} needs {_names(kinds)}, got the class {function.__name__} itself; "
            f"pass an instance: {function.__name__}()"
        )


def _names(kinds: tuple[type[Function], ...]) -> str:
    names = " or ".join(kind.__name__ for kind in kinds)
    return f"an {names}" if names[0] in "AEIOU" else f"a {names}"
