"""Looks at the methods of a user's class before they are called: can they be, do they give what their caller needs.

The base class says how a method is called. A method that cannot be called so, one that is ``async``, one that yields
where a value is wanted or never returns one would fail in a task, or not fail at all and give wrong results. All of it
is known when the program is built.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from firesteel.common._function_code import does_nothing, forgets_return, is_async, python_function
from firesteel.common.errors import WrongArgumentError, describe_function

__all__ = ["check_function", "check_methods", "uncallable"]

_OWN = "firesteel."
_ASYNC = (
    "is async def: calling it gives a coroutine, which nobody awaits; write a plain def (asyncio.run() in it runs "
    "something asynchronous); the place for async functions is AsyncDataStream"
)


@dataclass(frozen=True, slots=True)
class _Missing:
    """What a forgotten ``return`` does, and what to write."""

    consequence: str
    remedy: str
    #: None may be meant where nothing but a result depends on it: then it is a warning.
    is_error: bool = True


#: By the method, whose name is also that of plain functions in its place.
_NEEDED: dict[str, _Missing] = {
    "filter": _Missing("would drop every record", "return whether to keep the record, or write 'return False' if that is meant"),
    "get_key": _Missing("would give all records the one key None", "return the key (a constant, if they shall share one)"),
    "reduce": _Missing("would reduce everything to None", "return the combination of the two"),
    "add": _Missing("would make the accumulator None", "return the accumulator"),
    "create_accumulator": _Missing("would make the accumulator None", "return it, or write 'return None' if that is meant"),
    "partition": _Missing("would name no subtask", "return the number of one"),
    "extract_timestamp": _Missing("would give no timestamp", "return milliseconds since 1970"),
    "select": _Missing("would name no output", "return their names"),
    "assign_windows": _Missing("would assign no windows", "return a list of them"),
    "get_default_trigger": _Missing("would give no trigger", "return one"),
    "on_element": _Missing("would decide nothing", "return a TriggerResult"),
    "on_event_time": _Missing("would decide nothing", "return a TriggerResult"),
    "on_processing_time": _Missing("would decide nothing", "return a TriggerResult"),
    "create_writer": _Missing("would give no writer", "return one"),
    "create_reader": _Missing("would give no reader", "return one"),
    "with_state": _Missing("would give neither an output nor a state", "return both: output, state"),
    "map": _Missing(
        "makes every record None",
        "return what replaces the record, or annotate it '-> None' if that is meant",
        is_error=False,
    ),
    "get_result": _Missing(
        "makes every result None", "return the result, or annotate it '-> None' if that is meant", is_error=False
    ),
    "flat_map": _Missing(
        "gives no outputs", "yield them, or annotate it '-> None' if that is meant", is_error=False
    ),
}  # fmt: skip

#: Methods that many programs have because they must, and that nobody calls there: an empty one is no mistake.
_SELDOM_CALLED = frozenset(
    {
        *(
            "merge",
            "on_merge",
            "on_timer",
            "clear",
            "can_merge",
            "get_window_serializer",
            "create_accumulator",
        ),
        *("on_event_time", "on_processing_time", "timeout"),
    }
)
#: Methods whose body never runs when it yields.
_NO_YIELD = frozenset({*_NEEDED, "open", "close", "invoke", "merge"}) - {
    "flat_map",
    "select",
    "assign_windows",
}
#: Parameters that a method may leave out, because its caller looks for them.
_MAY_LACK: dict[str, str] = {"invoke": "context"}


def check_methods(thing: Any, used_by: str) -> None:
    """Refuse an object (or a class of which tasks make objects) whose methods cannot do what they are called for."""
    kind = thing if isinstance(thing, type) else type(thing)
    if kind.__module__.startswith(_OWN):
        return
    replaced = {} if isinstance(thing, type) else getattr(thing, "__dict__", {})
    for method in _overridden(kind):
        if method.name not in replaced:
            _check_method(method, used_by)


def check_function(function: Any, used_by: str, method: str) -> None:
    """Refuse a plain callable in the place of ``method`` that is async, or never returns the value that is needed."""
    code = python_function(function)
    if code is None:
        return
    shown = describe_function(function)
    if is_async(code):
        raise WrongArgumentError(f"{used_by}: {shown} {_ASYNC}")
    _check_return(code, used_by, method, shown)


def uncallable(function: Callable[..., Any], arguments: int) -> str | None:
    """Why a function cannot be called with that many arguments; None when it can."""
    try:
        inspect.signature(function, follow_wrapped=False).bind(*range(arguments))
    except TypeError as error:
        return str(error)
    except ValueError:  # it does not say what it takes
        return None
    return None


@dataclass(frozen=True, slots=True)
class _Method:
    """A method as a user has written it, and as its base class declares it."""

    kind: type
    name: str
    declared: types.FunctionType
    attribute: Any

    def function(self) -> types.FunctionType | None:
        """The user's function; None for what is no plain method."""
        attribute: Any = self.attribute
        if isinstance(attribute, staticmethod | classmethod):
            attribute = attribute.__func__
        return attribute if isinstance(attribute, types.FunctionType) else None

    @property
    def shown(self) -> str:
        return f"{self.name}() of {describe_function(self.kind)}"

    @property
    def parameters(self) -> list[str]:
        """The names of what it is called with, without ``self``."""
        return [*inspect.signature(self.declared).parameters][1:]

    def refusal(self) -> str | None:
        """Why it cannot be called as declared."""
        function, wanted = self.function(), len(self.parameters)
        assert function is not None
        bound = 0 if isinstance(self.attribute, staticmethod) else 1
        why = uncallable(function, wanted + bound)
        may_lack = _MAY_LACK.get(self.name) in self.parameters[-1:]
        return None if may_lack and uncallable(function, wanted - 1 + bound) is None else why


def _check_method(method: _Method, used_by: str) -> None:
    function = method.function()
    if function is None or _is_variadic(method.declared):
        return
    if is_async(function) and not is_async(method.declared):
        raise WrongArgumentError(f"{used_by}: {method.shown} {_ASYNC}")
    if method.name in _SELDOM_CALLED and does_nothing(function):
        return
    why = method.refusal()
    if why is not None:
        wanted = ", ".join(method.parameters)
        raise WrongArgumentError(
            f"{used_by}: {method.shown} is called as {method.name}({wanted}), and cannot be: {why}; "
            f"write def {method.name}({', '.join(['self', *method.parameters])})"
        )
    if method.name in _NO_YIELD and inspect.isgeneratorfunction(function):
        raise WrongArgumentError(
            f"{used_by}: {method.shown} yields, so that calling it runs nothing; return a value instead, or use "
            "flat_map() or process() for any number of outputs"
        )
    if method.declared.__annotations__.get("return") not in ("None", None):
        _check_return(function, used_by, method.name, method.shown)


def _check_return(function: types.FunctionType, used_by: str, method: str, shown: str) -> None:
    missing = _NEEDED.get(method)
    if missing is None or not forgets_return(function):
        return
    if not missing.is_error and function.__annotations__.get("return", "") in (None, "None"):
        return
    text = f"{used_by}: {shown} has no return with a value, so it {missing.consequence}; {missing.remedy}"
    if missing.is_error:
        raise WrongArgumentError(text)
    import logging  # late: importing this package loads nothing slow

    logging.getLogger(__name__).warning("%s", text)


def _overridden(kind: type) -> Iterator[_Method]:
    """The methods that classes of the program have in place of those of ours."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith(_OWN):
            continue
        for name, declared in vars(base).items():
            if name.startswith("_") or name in seen or not isinstance(declared, types.FunctionType):
                continue
            seen.add(name)
            owner = next(each for each in kind.__mro__ if name in vars(each))
            if not owner.__module__.startswith(_OWN):
                yield _Method(kind, name, declared, vars(owner)[name])


def _is_variadic(function: types.FunctionType) -> bool:
    return bool(function.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))
