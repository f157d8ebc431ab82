"""Values: what nobody can change, and copies of what somebody can.

A record is what it was when it was emitted. `private` keeps that promise: it gives back what cannot change (numbers,
text, tuples of them) as it is, and a copy of everything else that no other holder can reach. Copies are deep and keep
what is shared *within* a value, as pickling does.

What cannot be copied at all - a generator, a lock, a connection - is given back as it is; of a value that has such a part
everything else is copied.
"""

from __future__ import annotations

import copy
import copyreg
import datetime
import decimal
import enum
import fractions
import pathlib
import pickle
import re
import types
import uuid
from array import array
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from itertools import chain
from typing import Any

from firesteel.common.types import Row, RowKind

__all__ = ["ATOMIC", "MET", "MISSING", "is_immutable", "private", "private_all", "private_batch"]

#: Stands for no value where None is one.
MISSING: Any = object()

Memo = dict[int, Any]
Copier = Callable[[Any, Memo], Any]

#: Exact types whose values never change, whatever is in them. Grows as classes are met that belong to it.
ATOMIC: set[type] = {
    int,
    float,
    str,
    bytes,
    bool,
    type(None),
    complex,
    range,
    slice,
    type(...),
    type(NotImplemented),
    type,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    pathlib.PurePosixPath,
    pathlib.PosixPath,
    re.Pattern,
    RowKind,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
}

_all_atomic = ATOMIC.issuperset
_JUST_TUPLES = {tuple}
_HEAP_TYPE = 1 << 9  # of type.__flags__: a class made by a class statement
#: All classes of which something was to be copied, in the order in which they came.
MET: list[type] = []
#: What is raised for what cannot be copied.
_UNCOPYABLE = (TypeError, copy.Error, pickle.PickleError)
_PASSED = -1  # in a memo, where no id is negative: something that cannot be copied was given back as it is
_DEEPEST = 100_000  # levels; an object that makes up its parts while it is copied may have no end of them


def private(value: Any) -> Any:
    """The value itself when nothing in it can change, otherwise a copy that nobody else holds.

    >>> pair = ("a", 1)
    >>> private(pair) is pair
    True
    >>> row = {"tags": ["x"]}
    >>> copied = private(row)
    >>> copied == row, copied["tags"] is row["tags"]
    (True, False)
    """
    kind = type(value)
    if kind in ATOMIC:
        return value
    # Flat values are most of all there are; nothing can be shared within them.
    if kind is tuple:
        if _all_atomic(map(type, value)):
            return value
    elif kind is dict:
        for key, part in value.items():
            if type(part) not in ATOMIC or type(key) not in ATOMIC:
                break
        else:
            return value.copy()
    elif kind is list:
        if _all_atomic(map(type, value)):
            return value.copy()
    elif _COPIERS.get(kind) is _copy_instance:
        attributes = value.__dict__
        for part in attributes.values():
            if type(part) not in ATOMIC:
                break
        else:
            copied = object.__new__(kind)
            copied.__dict__ = attributes.copy()
            return copied
    try:
        return _copied(value, {})
    except RecursionError:
        return _copied_deep(value)
    except _UNCOPYABLE:
        return value


def private_all(values: Iterable[Any]) -> list[Any]:
    """`private` of each, as it comes: what an iterator gives is copied before it is asked for the next one."""
    results: list[Any] = []
    append, atomic = results.append, ATOMIC
    for value in values:
        kind = type(value)
        if kind is tuple:  # written out, because calls are what costs
            for part in value:
                if type(part) not in atomic:
                    value = private(value)
                    break
        elif kind not in atomic:
            value = private(value)
        append(value)
    return results


def private_batch(values: list[Any]) -> list[Any]:
    """`private_all` of a list that is complete: what cannot change is found out for all of it together, in C."""
    if _all_atomic(map(type, values)):
        return values
    if _JUST_TUPLES.issuperset(map(type, values)) and _all_atomic(map(type, chain.from_iterable(values))):
        return values
    return private_all(values)


def is_immutable(value: Any) -> bool:
    """Whether `private` would give the value back as it is because nothing in it can change."""
    if type(value) in ATOMIC:
        return True
    memo: Memo = {}
    try:
        return _copied(value, memo) is value and _PASSED not in memo
    except (*_UNCOPYABLE, RecursionError):
        return False


def _copied(value: Any, memo: Memo) -> Any:
    kind = type(value)
    if kind in ATOMIC:
        return value
    copier = _COPIERS.get(kind) or _learn(kind)
    return copier(value, memo)


def _learn(kind: type) -> Copier:
    copier = _COPIERS[kind] = _choose_copier(kind)
    return copier


def _copied_deep(value: Any) -> Any:
    """`_copied` of what is nested deeper than Python calls functions: who waits for the copy of a part waits in a list."""
    memo: Memo = {}
    waiting, copied = [_steps(value, memo)], None
    while waiting:
        try:
            part = waiting[-1].send(copied)
        except StopIteration as done:
            waiting.pop()
            copied = done.value
        except _UNCOPYABLE:
            return value
        else:
            if len(waiting) > _DEEPEST:
                return value
            waiting.append(_steps(part, memo))
            copied = None
    return copied


#: Gives the parts of a value, is sent their copies, and returns the copy of the value.
Steps = Generator[Any, Any, Any]


def _steps(value: Any, memo: Memo) -> Steps:
    kind = type(value)
    if kind in ATOMIC:
        return value
    copier = _COPIERS.get(kind) or _learn(kind)
    if copier is _as_it_is:
        return value
    if copier is _copy_tuple:
        parts = []
        for part in value:
            parts.append((yield part))  # noqa: PERF401 - a comprehension cannot yield
        return _tuple_of(value, parts)
    return (yield from _steps_of_protocol(value, memo, deep=True))


# Copiers by type. The memo is that of copy.deepcopy: id of the original -> its copy.


def _copy_tuple(value: Any, memo: Memo) -> Any:
    return _tuple_of(value, [_copied(part, memo) for part in value])


def _tuple_of(value: Any, parts: list[Any]) -> Any:
    for old, new in zip(value, parts, strict=True):
        if old is not new:
            return tuple(parts) if type(value) is tuple else tuple.__new__(type(value), parts)
    return value


def _copy_list(value: list[Any], memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = []
        known += [_copied(part, memo) for part in value]
    return known


def _copy_dict(value: dict[Any, Any], memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = {}
        for key, part in value.items():
            known[_copied(key, memo)] = _copied(part, memo)
    return known


def _copy_set(value: set[Any], memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = {_copied(part, memo) for part in value}
    return known


def _copy_frozenset(value: frozenset[Any], memo: Memo) -> Any:
    parts = [_copied(part, memo) for part in value]
    return value if all(old is new for old, new in zip(value, parts, strict=True)) else type(value)(parts)


def _copy_row(value: Row, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = Row._make((), value._fields, value._row_kind)
        known._values = _copy_tuple(value._values, memo)
    return known


def _copy_sequence(value: Any, memo: Memo) -> Any:
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = value[:]
    return known


def _copy_instance(value: Any, memo: Memo) -> Any:
    """An object whose class leaves everything about copying to Python, and whose attributes are in a dictionary."""
    known = memo.get(id(value))
    if known is None:
        known = memo[id(value)] = object.__new__(type(value))
        attributes = value.__dict__
        if _all_atomic(map(type, attributes.values())):
            known.__dict__.update(attributes)
        else:
            known.__dict__.update({name: _copied(part, memo) for name, part in attributes.items()})
    return known


def _copy_frozen(value: Any, memo: Memo) -> Any:
    """An instance of a frozen dataclass: as immutable as its fields are."""
    parts = [getattr(value, name, None) for name in value.__dataclass_fields__]
    attributes = getattr(value, "__dict__", None)
    if attributes is not None:
        parts += attributes.values()
    if _all_atomic(map(type, parts)) or all(_copied(part, memo) is part for part in parts):
        return value
    return _copy_by_protocol(value, memo)


def _copy_by_protocol(value: Any, memo: Memo) -> Any:
    """As `copy.deepcopy` does it, but for parts that cannot be copied: there it would fail for the whole."""
    steps, copied = _steps_of_protocol(value, memo), None
    while True:
        try:
            part = steps.send(copied)
        except StopIteration as done:
            return done.value
        copied = _copied(part, memo)


def _steps_of_protocol(value: Any, memo: Memo, deep: bool = False) -> Steps:
    """An object that is copied as its class says, by ``__deepcopy__`` or as it is pickled; else it is passed as it is."""
    known = memo.get(id(value), MISSING)
    if known is not MISSING:
        return known
    failures = (*_UNCOPYABLE, RecursionError) if deep else _UNCOPYABLE
    alive = memo.setdefault(id(memo), [])  # as copy.deepcopy has it: what is in the memo must keep its id
    alive.append(value)
    if hasattr(type(value), "__deepcopy__"):
        known_before = len(memo)
        try:
            memo[id(value)] = copied = value.__deepcopy__(memo)
        except failures:
            # Of one part, perhaps. Then all are copied one by one, and what was copied by halves is forgotten.
            while len(memo) > known_before:
                memo.popitem()
        else:
            return copied
    # Until it is made it stands for itself, if it is among what it is made of.
    memo[id(value)] = value
    try:
        reduced = _reduced(value)
        if isinstance(reduced, str):  # a global
            return value
        make, given, state, elements, items, set_state = (*reduced, *(None,) * 4)[:6]
        alive.append(reduced)
        arguments = []
        for part in given:
            arguments.append((yield part))  # noqa: PERF401 - a comprehension cannot yield
        memo[id(value)] = copied = make(*arguments)
        if state is not None:
            _set_state(copied, (yield state), set_state)
        for element in elements or ():
            alive.append(element)
            copied.append((yield element))
        for key, part in items or ():
            alive.append((key, part))
            new_key = yield key
            copied[new_key] = yield part
    except failures:
        memo[id(value)] = value
        memo[_PASSED] = True
        return value
    return copied


def _reduced(value: Any) -> Any:
    """What an object is made of, in the form that pickle has for it."""
    reduce = _REDUCERS.get(type(value)) or copyreg.dispatch_table.get(type(value))
    return value.__reduce_ex__(4) if reduce is None else reduce(value)


def _set_state(made: Any, state: Any, set_state: Callable[[Any, Any], Any] | None) -> None:
    if set_state is not None:
        set_state(made, state)
    elif hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if attributes is not None:
            made.__dict__.update(attributes)
        parameters = getattr(type(made), "__dataclass_params__", None)
        set_slot = object.__setattr__ if parameters is not None and parameters.frozen else setattr
        for name, part in (slots or {}).items():
            set_slot(made, name, part)


# What pickle refuses, though it is made of what can be copied. The views are what cloudpickle makes of them.


def _keys(keys: list[Any]) -> Any:
    return dict.fromkeys(keys).keys()


def _values(values: list[Any]) -> Any:
    return dict(enumerate(values)).values()


def _items(items: list[Any]) -> Any:
    return dict(items).items()


def _memory(content: bytes, form: str, shape: tuple[int, ...], readonly: bool) -> Any:
    memory = memoryview(bytearray(content))
    memory = memory if form == "B" and len(shape) == 1 else memory.cast(form, shape)  # type: ignore[call-overload]
    return memory.toreadonly() if readonly else memory


_REDUCERS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((type({}.keys()), type(OrderedDict().keys())), lambda view: (_keys, ([*view],))),
    **dict.fromkeys((type({}.values()), type(OrderedDict().values())), lambda view: (_values, ([*view],))),
    **dict.fromkeys((type({}.items()), type(OrderedDict().items())), lambda view: (_items, ([*view],))),
    types.MappingProxyType: lambda proxy: (types.MappingProxyType, (proxy.copy(),)),
    memoryview: lambda view: (_memory, (view.tobytes(), view.format, view.shape, view.readonly)),
}


def _as_it_is(value: Any, memo: Memo) -> Any:
    return value


_COPIERS: dict[type, Copier] = {
    tuple: _copy_tuple,
    list: _copy_list,
    dict: _copy_dict,
    set: _copy_set,
    frozenset: _copy_frozenset,
    Row: _copy_row,
    bytearray: _copy_sequence,
    array: _copy_sequence,
}


def _choose_copier(kind: type) -> Copier:
    MET.append(kind)
    if issubclass(kind, enum.Enum | type) or kind.__module__.partition(".")[0] == "pyarrow":
        ATOMIC.add(kind)  # members of enums are single objects; Arrow's data never changes
        return _as_it_is
    if _is_numpy_scalar(kind):
        ATOMIC.add(kind)
        return _as_it_is
    if "__deepcopy__" in dir(kind) or kind in copyreg.dispatch_table:
        return _copy_by_protocol
    if _is_frozen(kind):
        return _copy_frozen
    if _copies_by_default(kind):
        if issubclass(kind, tuple):
            return _copy_tuple
        if all(base.__flags__ & _HEAP_TYPE for base in kind.__mro__[:-1]) and not _has_slots(kind):
            if kind.__dictoffset__:
                return _copy_instance
            if kind.__basicsize__ == object.__basicsize__:
                return _as_it_is  # there is nothing in it that could change
    return _copy_by_protocol


def _is_numpy_scalar(kind: type) -> bool:
    """Whether it is a number, text or time of numpy; records and objects can change."""
    return (
        kind.__module__ == "numpy"
        and kind.__name__ not in ("void", "record", "object_")
        and any(base.__name__ == "generic" for base in kind.__mro__)
    )


def _is_frozen(kind: Any) -> bool:
    """Whether it is a frozen dataclass that has nothing but its fields.

    A container stays one when a frozen class is derived from it, a slot of a base may be no field, and instances of a
    subclass that is not frozen itself can get other attributes.
    """
    parameters = kind.__dict__.get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        return False
    known = {*kind.__dataclass_fields__, "__dict__", "__weakref__"}
    return all(base.__flags__ & _HEAP_TYPE and known.issuperset(_slots(base)) for base in kind.__mro__[:-1])


def _slots(kind: type) -> Iterable[str]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


def _copies_by_default(kind: Any) -> bool:
    """Whether the class has nothing of its own that says how it is copied or pickled."""
    if issubclass(kind, tuple):
        # What typing.NamedTuple makes: no attributes besides the fields.
        return hasattr(kind, "_fields") and not kind.__dictoffset__ and kind.__reduce__ is object.__reduce__
    return (
        kind.__reduce_ex__ is object.__reduce_ex__
        and kind.__reduce__ is object.__reduce__
        and kind.__getstate__ is object.__getstate__
        and not hasattr(kind, "__setstate__")
        and not hasattr(kind, "__getnewargs__")
        and not hasattr(kind, "__getnewargs_ex__")
    )


def _has_slots(kind: type) -> bool:
    return any(base.__dict__.get("__slots__") for base in kind.__mro__)
