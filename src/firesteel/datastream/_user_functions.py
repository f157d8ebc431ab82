"""Takes a user's function at the line where the program uses it: right kind, right arity, fit to travel."""

from __future__ import annotations

import inspect
import types
from typing import Any

from firesteel.common._function_code import is_async, python_function
from firesteel.common._method_checks import check_function, check_methods, uncallable
from firesteel.common.errors import WrongArgumentError, describe_function, short_repr
from firesteel.common.watermark_strategy import CustomGenerator, WatermarkStrategy
from firesteel.contracts.checkpointing import CheckpointedFunction, CheckpointListener, ListCheckpointed
from firesteel.contracts.functions import (
    BroadcastProcessFunction,
    CoProcessFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from firesteel.contracts.stream_operators import (
    InputSelectable,
    OneInputStreamOperator,
    StreamOperator,
    TwoInputStreamOperator,
)
from firesteel.contracts.windows import Trigger
from firesteel.plan.shipped import Shipped

__all__ = [
    "WrongArgumentError",
    "check_callable",
    "check_parts",
    "refuse_checkpointed",
    "refuse_checkpointed_parts",
    "ship_callable",
    "ship_function",
    "ship_operator",
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
        raise wrong_argument(used_by, _names(kinds), function, _missing_step(function, kinds))
    check_methods(function, used_by)
    return Shipped.of(function, used_by)


def ship_operator(name: Any, operator: Any, used_by: str, kind: type[StreamOperator]) -> Shipped:
    """Ship an operator that the user wrote whole, and check the name that it is given."""
    if not isinstance(name, str) or not name:
        raise wrong_argument(used_by, "a name for the operator as its first argument", name)
    shipped = ship_function(operator, used_by, kind)
    if isinstance(operator, InputSelectable) and not isinstance(operator, TwoInputStreamOperator):
        raise wrong_argument(
            used_by,
            "an operator with two inputs when it is InputSelectable",
            operator,
            "with one input there is nothing to choose: leave InputSelectable out",
        )
    return shipped


def _missing_step(function: Any, kinds: tuple[type[Function], ...]) -> str:
    """What a program forgot that has the right function for another kind of stream."""
    if isinstance(function, KeyedProcessFunction) and ProcessFunction in kinds:
        return "call key_by() first"
    if isinstance(function, KeyedBroadcastProcessFunction) and BroadcastProcessFunction in kinds:
        return "call key_by() first"
    if isinstance(function, KeyedCoProcessFunction) and CoProcessFunction in kinds:
        return "call key_by() on both streams first"
    if isinstance(function, TwoInputStreamOperator):
        return "it has two inputs: use a.connect(b).transform(...)"
    if isinstance(function, OneInputStreamOperator):
        in_two = TwoInputStreamOperator in kinds
        return (
            "it has one input: use it on one stream" if in_two else "attach it with transform(name, operator)"
        )
    wants_broadcast = isinstance(function, BroadcastProcessFunction | KeyedBroadcastProcessFunction)
    if wants_broadcast and not {BroadcastProcessFunction, KeyedBroadcastProcessFunction} & {*kinds}:
        return "connect() it with a stream that broadcast(descriptor) gave"
    return ""


def ship_callable(function: Any, used_by: str, kind: type[Function], arguments: int = 1) -> Shipped:
    """Ship an object of ``kind`` or a plain callable of that many ``arguments``; the callable is not wrapped."""
    check_callable(function, used_by, kind, arguments)
    return Shipped.of(function, used_by)


def ship_plain_callable(function: Any, used_by: str, arguments: int) -> Shipped:
    """Ship a callable of that many ``arguments``, where there is no function class for it."""
    expected = f"a function of {arguments} values"
    is_class = isinstance(function, type) and issubclass(function, Function)
    if is_class or isinstance(function, Function) or not callable(function):
        raise wrong_argument(used_by, expected, function)
    _check_signature(function, used_by, expected, arguments)
    check_function(function, used_by, "with_state")
    return Shipped.of(function, used_by)


def refuse_checkpointed(thing: Any, used_by: str, instead: str) -> None:
    """Refuse what wants to take part in checkpoints where nobody would call it; ``instead`` says what to do.

    ``thing`` is an object, or a class of which tasks make objects.
    """
    owner = thing.__self__ if isinstance(thing, types.MethodType) else thing
    made = owner if isinstance(owner, type) else type(owner)
    for kind, method in _CHECKPOINTED.items():
        if issubclass(made, kind):
            raise WrongArgumentError(
                f"{used_by}: {describe_function(owner)} is a {kind.__name__}, but has no part in checkpoints here: "
                f"its {method}() would never be called; {instead}"
            )


def refuse_checkpointed_parts(thing: Any, used_by: str, instead: str) -> None:
    """`refuse_checkpointed` of an object and of what it was made of: triggers within triggers, gaps of sessions."""
    refuse_checkpointed(thing, used_by, instead)
    for part in getattr(thing, "__dict__", {}).values():
        if isinstance(part, Trigger):
            refuse_checkpointed_parts(part, used_by, instead)
        else:
            refuse_checkpointed(part, used_by, instead)


def check_parts(thing: Any, used_by: str) -> None:
    """Look at the methods of an object of the user's and of what it was made of, as `refuse_checkpointed_parts` does."""
    check_methods(thing, used_by)
    for part in getattr(thing, "__dict__", {}).values():
        if isinstance(part, Trigger):
            check_parts(part, used_by)
        else:
            check_methods(part, used_by)


_CHECKPOINTED: dict[type, str] = {
    CheckpointedFunction: "snapshot_state",
    ListCheckpointed: "snapshot_state",
    CheckpointListener: "notify_checkpoint_complete",
}
_IN_A_MAP = "keep the state in a function of the stream, such as a map() before it"


def ship_strategy(strategy: Any, used_by: str) -> Shipped:
    """Ship a `WatermarkStrategy`, described by the user's code in it."""
    if not isinstance(strategy, WatermarkStrategy):
        raise wrong_argument(
            used_by, "a WatermarkStrategy", strategy, "for example WatermarkStrategy.no_watermarks()"
        )
    code: Any = strategy.timestamp_assigner
    if code is None and isinstance(strategy.generator, CustomGenerator):
        code = strategy.generator.supplier
    for part in (strategy.timestamp_assigner, getattr(strategy.generator, "supplier", None)):
        refuse_checkpointed(part, used_by, _IN_A_MAP)
    shipped = Shipped.of(strategy, used_by)
    return shipped if code is None else shipped.described(describe_function(code))


def check_callable(
    function: Any, used_by: str, kind: type[Function], arguments: int = 1, *, may_yield: bool = False
) -> None:
    """Refuse what is neither of ``kind`` nor a callable of that many ``arguments``."""
    _refuse_class(function, used_by, (kind,))
    if isinstance(function, kind):
        check_methods(function, used_by)
        return
    values = "one value" if arguments == 1 else f"{arguments} values"
    expected = f"{_names((kind,))} or a function of {values}"
    if isinstance(function, Function) or not callable(function):
        raise wrong_argument(used_by, expected, function)
    _check_signature(function, used_by, expected, arguments, may_yield)
    check_function(function, used_by, next(iter(kind.__abstractmethods__)))


def _check_signature(
    function: Any, used_by: str, expected: str, arguments: int, may_yield: bool = False
) -> None:
    """Refuse what cannot be called with that many ``arguments``, or yields where one value is wanted."""
    code = python_function(function)
    if code is None or is_async(code):  # of which `check_function` has more to say
        return
    may_yield = may_yield or used_by.startswith("flat_map")
    if inspect.isgeneratorfunction(code) and not may_yield:
        raise wrong_argument(
            used_by,
            expected,
            function,
            "it yields: return a value, or use flat_map() for any number of outputs",
        )
    why = uncallable(function, arguments)
    if why is not None:
        raise wrong_argument(used_by, expected, function, f"it cannot be called so: {why}")


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
