"""Asking user code about a record that goes on: whatever it does to the record, nobody sees.

Key selectors, partitioners and timestamp assigners say something about a record; the record itself goes on to others.
How often they are asked, where, and how long before the record goes on follows from parallelism, state backend and
batches. So they are asked about a private copy, which they may keep and change as they like. One that provably only
looks is asked about the record itself: that costs nothing.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary

from firesteel.common._values import ATOMIC, private
from firesteel.contracts.functions import Function
from firesteel.runtime.changes_nothing import changes_nothing
from firesteel.runtime.keeps_nothing import keeps_nothing

__all__ = ["ByClass", "asked", "keeps_no_argument", "lets_go", "only_looks"]

_MOST_CLASSES = 64  # of records that are told apart


def only_looks(call: Callable[..., Any], kind: type | None = None) -> bool:
    """Whether it is certain that a call neither keeps nor changes what it is given.

    With ``kind``, the answer is for calls whose arguments are all of exactly this class. ``order["user"]`` only looks,
    ``order.pop("user")`` does not.
    """
    if type(call) is itemgetter or _is_of_firesteel(call):
        return True
    if keeps_nothing(call, kind):
        return True
    # Nothing is changed, and the only place where something could be kept are attributes of its own object.
    return _changes_nothing(call) and not _sets_attributes(call)


def _changes_nothing(call: Callable[..., Any]) -> bool:
    """`changes_nothing`, once for each function: senders and receivers ask, and it takes milliseconds for large modules."""
    if type(call) is not types.FunctionType:
        return changes_nothing(call)
    known = _KNOWN.get(call)
    if known is None:
        known = _KNOWN[call] = changes_nothing(call)
    return known


_KNOWN: WeakKeyDictionary[types.FunctionType, bool] = WeakKeyDictionary()


def lets_go(call: Callable[..., Any], kind: type | None = None) -> bool:
    """Whether it is certain that a call keeps nothing of what it is given; it may change it."""
    return keeps_nothing(call, kind, may_change_arguments=True) or only_looks(call, kind)


def keeps_no_argument(method: Callable[..., Any], kind: type | None = None) -> bool:
    """Whether a method neither keeps nor changes its first argument; others it may keep."""
    return _never_reads_its_first_argument(method) or only_looks(method, kind)


def asked(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The callable, so that nobody sees what it does to the record that it is asked about."""
    if isinstance(call, partial) and _is_of_firesteel(call.func):
        return partial(call.func, *map(_with_all_asked, call.args), **call.keywords)
    if not _is_opened_first(call):  # attributes of an object are not known before
        if only_looks(call):
            return call
        if not only_looks(call, _Anything):
            return _guarded(call)
    return _guarded_by_class(call)


class _Anything:
    """A class whose objects have any attributes."""


class ByClass:
    """An answer for whole batches that may depend on the class of their records: what their attributes are is known then.

    ``prove`` gives it for a class, and for None when it is the same for all.
    """

    def __init__(self, prove: Callable[[type | None], bool]) -> None:
        self._prove = prove
        #: Whether it holds whatever the class.
        self.always = prove(None)
        self._never = not self.always and not prove(_Anything)
        self._known: dict[type, bool] = {}

    def __call__(self, values: list[Any]) -> bool:
        """Whether it holds for all records of a batch; mixed ones are not looked at."""
        if self.always or self._never:
            return self.always
        kinds = set(map(type, values))
        if len(kinds) != 1:
            return False
        (kind,) = kinds
        if kind not in self._known and len(self._known) < _MOST_CLASSES:
            self._known[kind] = self._prove(kind)
        return self._known.get(kind, False)


def _guarded(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda record: call(private(record))


def _guarded_by_class(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    looks = dict.fromkeys(ATOMIC, True)

    def ask(record: Any) -> Any:
        return call(record if looks.get(type(record)) or learn(type(record)) else private(record))

    def learn(kind: type) -> bool:
        known = looks.get(kind)
        if known is None:
            if len(looks) >= len(ATOMIC) + _MOST_CLASSES:
                return False
            known = looks[kind] = only_looks(call, kind)
        return known

    return ask


def _with_all_asked(argument: Any) -> Any:
    """Callables that a function of Firesteel calls with the record."""
    if type(argument) is tuple and all(map(callable, argument)):
        return tuple(map(asked, argument))
    return argument


def _is_of_firesteel(call: Any) -> bool:
    """Whether it is a function, or a method, of this package: they only look."""
    holder = getattr(call, "__self__", None)
    module = getattr(call if holder is None else type(holder), "__module__", None) or ""
    return str(module).partition(".")[0] == "firesteel"


def _is_opened_first(call: Any) -> bool:
    holder = getattr(call, "__self__", None)
    return isinstance(holder, Function) and type(holder).open is not Function.open


#: Modules whose classes keep nothing of a record.
_BASES = frozenset({"abc", "builtins", "firesteel", "typing"})
#: Methods that run before the first record or after the last.
_SETUP = frozenset({"__init__", "__new__", "__setstate__", "open", "close"})


def _sets_attributes(call: Callable[..., Any]) -> bool:
    """Whether any method of the object that runs while records flow sets attributes."""
    holder = getattr(call, "__self__", None)
    if holder is None:
        return False  # and a function that sets attributes of anything is not proven to change nothing
    codes = [
        function.__code__
        for kind in type(holder).__mro__
        if kind.__module__.partition(".")[0] not in _BASES
        for name, member in kind.__dict__.items()
        if name not in _SETUP
        for function in _functions_of(member)
    ]
    return any(step.opname in _SETS for code in codes for step in _steps(code))


_SETS = frozenset({"STORE_ATTR", "DELETE_ATTR"})


def _functions_of(member: Any) -> Iterator[types.FunctionType]:
    parts = (member.fget, member.fset, member.fdel) if isinstance(member, property) else (member,)
    for part in parts:
        function = getattr(part, "__func__", part)
        if isinstance(function, types.FunctionType):
            yield function


def _steps(code: types.CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _steps(constant)


def _never_reads_its_first_argument(method: Any) -> bool:
    if type(method) is not types.MethodType or type(method.__func__) is not types.FunctionType:
        return False
    code = method.__func__.__code__
    if code.co_argcount < 2 or code.co_varnames[1] in code.co_cellvars:
        return False
    name = code.co_varnames[1]
    if not {"locals", "vars", "eval", "exec"}.isdisjoint(code.co_names):  # they read it by other ways
        return False
    return not any(
        name in (step.argval if isinstance(step.argval, tuple) else (step.argval,))
        for step in dis.get_instructions(code)
        if "FAST" in step.opname
    )
