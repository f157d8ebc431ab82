"""Functions that provably change nothing in place: what they have emitted stays what it was.

What a function emits is protected by a copy, since the function may keep the object and change it later. Most
functions with state never do: they put new values into managed state, and yield tuples. `changes_nothing` decides
that from the bytecode, of plain functions as well as of methods of opened objects. It says yes only when every
instruction on every path is known to be harmless, and no in every other case: a wrong yes gives wrong results, a wrong
no costs a copy.

What a yes means: no call of the function changes, in place, any object that existed before the call or that was
emitted by it. Setting attributes of the function's own object, managed state and timers do not count. For a method,
the answer is for everything that the engine calls on the object while records flow (``process_element`` together with
``on_timer`` and ``snapshot_state``), because one may change what another has emitted. ``open`` and ``close`` are left
out: before and after them there are no records.

What is allowed, beyond reading and computing:

- Containers that were made in the same call may be changed until something is emitted.
- Attributes of the object may be set, and read. One that nobody sets after ``open`` may hold managed state, or
  a container of constants as a table to look things up in; the table itself must not get into a result, as
  it is changed elsewhere if at all. Of others nothing is known, unless only numbers and text are ever stored in them:
  then ``self.count += 1`` works, which would otherwise change a list.
- What list and map state give to iterate over may be iterated over, or copied; it is not emitted itself, because it
  may be the very container in which the state is kept.
- Functions of the user, methods of the same object and globals that are constants.

What it rests on is what `keeps_nothing` rests on: operators and methods such as ``a + b`` or ``a.get(k)`` mean for
classes of the user what they mean for built-in ones (`harmless.meets_unusual` tells when there are others); globals
are looked up once; and other threads that change the object behind the engine's back are on their own. Looking at something is not taken for a change of it, though iterators
move on when somebody goes through them, and a defaultdict grows when it is asked for what it has not. And of the
engine's own states it is taken for granted that they copy the lists and dicts they are given: ``update`` of a list
state, ``add_all``, ``put_all``.
"""

from __future__ import annotations

import copy
import dis
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import MISSING
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    MapState,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    ValueState,
)
from firesteel.runtime.code_walk import (
    FRESH,
    IMMUTABLE,
    LIVE,
    UNKNOWN,
    CodeWalk,
    Rules,
    Sort,
    Unproven,
    Value,
    parameters,
    plain,
)
from firesteel.runtime.harmless import (
    CHANGING_METHODS,
    IMMUTABLE_CLASSES,
    KEYWORDS_OF_FUNCTIONS,
    PURE_METHODS,
    attribute_of_global,
    is_constant,
    may_be_used,
    words,
)

__all__ = ["changes_nothing", "prove"]


def changes_nothing(call: Callable[..., Any], *, attributes_are_parts: bool = False) -> bool:
    """Whether it is certain that no call changes, in place, what was there before or what has been emitted.

    ``call`` is a function, or a method of an object that has been opened. With ``attributes_are_parts`` it is taken for
    granted that attributes of records (``order.price``) are parts of them, and that reading one changes nothing.
    Without, functions that read them are refused: the attribute may be one of the class, which all its
    objects share and somebody else changes, or a property that does more than to read.

    >>> changes_nothing(lambda pair: (pair[0], pair[1] + 1))
    True
    >>> changes_nothing(lambda seen: seen.append(1))
    False
    """
    try:
        prove(call, attributes_are_parts=attributes_are_parts)
    except Exception:  # noqa: BLE001 - mostly Unproven; whatever else surprises the proof must not stop the job
        return False
    return True


def prove(call: Callable[..., Any], *, attributes_are_parts: bool = False) -> None:
    """Return when nothing is changed for certain, else raise `Unproven`, which says what was found."""
    if type(call) is types.MethodType:
        _prove_method(call, attributes_are_parts)
    elif type(call) is types.FunctionType:
        _Proof(None, attributes_are_parts).prove(call, [UNKNOWN] * len(parameters(call.__code__)))
    else:
        raise Unproven("neither a function nor a method")


def _prove_method(method: types.MethodType, attributes_are_parts: bool) -> None:
    holder = method.__self__
    kind = type(holder)
    if isinstance(holder, type) or type(method.__func__) is not types.FunctionType:
        raise Unproven("not a method of an object")
    entries = {name: _looked_up(kind, name) for name in _called_by_the_engine(kind)}
    if not entries.keys().isdisjoint(_own_attributes(holder)):
        raise Unproven("a method of the class is hidden")
    if method.__func__ not in entries.values():
        entries[""] = method.__func__
    assumed_unknown: set[str] = set()
    while True:
        proof = _Proof(holder, attributes_are_parts, assumed_unknown)
        for name, function in entries.items():
            proof.prove(function, _arguments(kind, name, function))
        proof.check_attributes()
        # What was taken for a number may turn out to be anything: then everything is looked at once more.
        if proof.stores_of_anything <= assumed_unknown:
            return
        assumed_unknown |= proof.stores_of_anything


# Objects of the user, and who calls them


#: Methods that run before the first record or after the last.
_SETUP = words("__init__ __new__ __setstate__ open close initialize_state restore_state")
_NAMES_OF_CONTEXTS = frozenset({"ctx", "context"})
_NAMES_OF_CONTENTS = frozenset({"elements", "inputs"})  # of windows


def _called_by_the_engine(kind: type) -> list[str]:
    """The methods that the engine knows by name."""
    names = {
        name
        for base in kind.__mro__
        if _is_of_firesteel(base)
        for name, member in base.__dict__.items()
        if isinstance(member, types.FunctionType) and not name.startswith("_")
    }
    return sorted(names - _SETUP)


def _is_of_firesteel(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "firesteel"


def _looked_up(kind: type, name: str) -> Any:
    """What a class has under a name, as it is; `MISSING` for nothing."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def _arguments(kind: type, name: str, function: Any) -> list[Value]:
    """What the engine calls a method with; which argument is the context, the base class says."""
    if not isinstance(function, types.FunctionType):
        raise Unproven(f"{name} is not a function")
    code = function.__code__
    own = parameters(code)
    if not code.co_argcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        raise Unproven(f"{name} takes any number of arguments")
    values = [Value(Sort.SELF), *[UNKNOWN] * (len(own) - 1)]
    for base in kind.__mro__:
        declared = base.__dict__.get(name)
        if _is_of_firesteel(base) and isinstance(declared, types.FunctionType):
            names = parameters(declared.__code__)
            if len(names) != len(own):
                raise Unproven(f"{name} has other parameters than it should have")
            for at, parameter in enumerate(names):
                if parameter in _NAMES_OF_CONTEXTS:
                    values[at] = Value(Sort.CONTEXT)
                elif parameter in _NAMES_OF_CONTENTS:
                    values[at] = LIVE
            break
    return values


# Values that are there already

_LARGEST_TABLE = 100_000  # looking through more takes longer than it may save


def _sort_of(value: Any) -> Value:
    """What is known of an object that a variable or an attribute holds now."""
    if _cannot_change(value):
        return IMMUTABLE
    if type(value) in (list, set, dict) and len(value) <= _LARGEST_TABLE:
        parts = [*value, *value.values()] if type(value) is dict else value
        if all(map(_cannot_change, parts)):
            return LIVE
    raise Unproven("an object that may be anything")


def _variable(value: Any) -> Value:
    """What is known of what a variable of an outer function holds now; functions can be called."""
    return Value(Sort.FUNCTION, value) if type(value) is types.FunctionType else _sort_of(value)


def _cannot_change(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_cannot_change, value))
    return (
        is_constant(value)
        or type(value) in IMMUTABLE_CLASSES
        or type(value) is OutputTag
        or isinstance(value, StateDescriptor)
    )


# Managed state: methods by kind of state, and what they give. LIVE is the container of the backend itself, perhaps.

_VALUE = {"value": UNKNOWN, "update": IMMUTABLE, "clear": IMMUTABLE}
_LIST = dict.fromkeys(("update", "add", "add_all", "clear"), IMMUTABLE) | {"get": LIVE}
_MAP = {
    **dict.fromkeys(("put", "put_all", "remove", "contains", "is_empty", "clear"), IMMUTABLE),
    **dict.fromkeys(("items", "keys", "values"), LIVE),
    "get": UNKNOWN,
}
_FOLDING = {"get": UNKNOWN, "add": IMMUTABLE, "clear": IMMUTABLE}
_STATES: list[tuple[tuple[type, ...], dict[str, Value]]] = [
    ((ValueState,), _VALUE),
    ((ListState,), _LIST),
    ((MapState, BroadcastState, ReadOnlyBroadcastState), _MAP),
    ((ReducingState, AggregatingState), _FOLDING),
]
_CONTEXT: dict[str, Value] = {
    **dict.fromkeys(("timestamp", "current_processing_time", "current_watermark"), IMMUTABLE),
    "get_current_key": UNKNOWN,
    "time_domain": UNKNOWN,
    "timer_service": Value(Sort.TIMERS),
    "get_broadcast_state": Value(Sort.STATE, _MAP),
    "output": IMMUTABLE,
}
_TIMERS = dict.fromkeys(
    (
        "current_processing_time",
        "current_watermark",
        "register_processing_time_timer",
        "register_event_time_timer",
        "delete_processing_time_timer",
        "delete_event_time_timer",
    ),
    IMMUTABLE,
)


# Harmless functions

#: They give something new.
_MAKE_CONTAINERS = frozenset(map(id, (list, dict, set, sorted, bytearray)))
_GIVE_NUMBERS = frozenset(
    map(id, (len, int, float, bool, hash, ord, isinstance, issubclass, callable, any, all))
)
#: They may be given a container that must not get into a result, and what they give does not refer to it.
_LEAVE_NOTHING = _MAKE_CONTAINERS | frozenset(map(id, (len, sum, tuple, frozenset, min, max, any, all)))
#: What these give goes through the container as long as it is used.
_GO_THROUGH = frozenset(map(id, (enumerate, reversed, zip)))


#: Of pandas and numpy, whose methods have the same names as those of text, and of copy.deepcopy.
_KEYWORDS_FOR_CHANGES = frozenset({"inplace", "out", "memo"})


class _Proof(Rules):
    """One object (or none), and all functions that are called on the way."""

    def __init__(self, holder: Any, attributes_are_parts: bool, assumed_unknown: Iterable[str] = ()) -> None:
        self._holder = holder
        self._attributes_are_parts = attributes_are_parts
        self._assumed_unknown = frozenset(assumed_unknown)
        self.stores_of_anything: set[str] = set()
        self._read: set[str] = set()
        self._proven: dict[Any, bool] = {}  # whether a function with such arguments emits
        self._under_way: set[Any] = set()
        self._functions: list[Any] = []  # the keys above hold their ids
        self._is_set_later: dict[str, set[Any]] = {}
        if holder is not None:
            kind: Any = type(holder)
            if (
                kind.__getattribute__ is not object.__getattribute__
                or kind.__setattr__ is not object.__setattr__
                or kind.__delattr__ is not object.__delattr__
                or _looked_up(kind, "__getattr__") is not MISSING
            ):
                raise Unproven("a class that decides itself what its attributes are")
            for function in _functions_of(kind):
                for name in _attributes_set(function.__code__):
                    self._is_set_later.setdefault(name, set()).add(function.__code__)

    def prove(self, function: types.FunctionType, arguments: list[Value]) -> bool:
        """Prove it for such arguments, one for each parameter; whether it emits through the context."""
        code = function.__code__
        if code.co_flags & (
            inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
        ):
            raise Unproven("a coroutine")
        key = (id(function), *((value.sort, id(value.of)) for value in arguments))
        if key in self._under_way:
            raise Unproven("a function that calls itself")
        if key in self._proven:
            return self._proven[key]
        self._functions.append((function, arguments))
        self._under_way.add(key)
        names = parameters(code)
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if not all(map(_cannot_change, defaults)):
            raise Unproven("a default that can change")
        cells = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                cells[name] = _variable(cell.cell_contents)
            except ValueError:
                raise Unproven("a variable that is not set yet") from None
        values = [UNKNOWN if value.sort is Sort.FRESH else value for value in arguments]
        walk = CodeWalk(self, function, code, dict(zip(names, values, strict=True)), cells)
        walk.run()
        self._under_way.discard(key)
        self._proven[key] = walk.emits
        return walk.emits

    # Globals ----------------------------------------------------------------------------------------------

    @override
    def global_value(self, walk: CodeWalk, name: str) -> Value:
        """Harmless functions, constants, tables of constants, and functions of the user."""
        namespace = walk.function.__globals__
        value = namespace[name] if name in namespace else walk.function.__builtins__.get(name, MISSING)
        if value is MISSING:
            raise Unproven(f"no global {name}")
        if isinstance(value, types.ModuleType):
            if not may_be_used(value):
                raise Unproven(f"module {name}")
            return Value(Sort.MODULE, value)
        if may_be_used(value):
            return Value(Sort.HARMLESS, value)
        if _is_set_by_somebody(namespace, name):
            raise Unproven(f"global {name} is set by a function")
        if type(value) is types.FunctionType:
            return Value(Sort.FUNCTION, value)
        return _sort_of(value)

    # Attributes and elements ------------------------------------------------------------------------------

    @override
    def attribute(self, holder: Value, name: str, *, called: bool) -> Value:
        """Of the object itself, of the engine's objects, of modules; of others only methods that are called."""
        sort = holder.sort
        if sort is Sort.SELF:
            return self._method_of_self(name) if called else self._attribute_of_self(name)
        if sort in (Sort.MODULE, Sort.HARMLESS):
            value = attribute_of_global(holder.of, name)
            if value is MISSING or isinstance(value, types.ModuleType):
                raise Unproven(f"attribute {name}")
            return Value(Sort.HARMLESS, value)
        if sort is Sort.UNKNOWN and not called and self._attributes_are_parts and not name.startswith("__"):
            return UNKNOWN
        if not called or sort is Sort.FUNCTION:
            raise Unproven(f"attribute {name} of anything")
        if sort in (Sort.CONTEXT, Sort.TIMERS, Sort.STATE):
            methods = {Sort.CONTEXT: _CONTEXT, Sort.TIMERS: _TIMERS}.get(sort, holder.of)
            if name not in methods:
                raise Unproven(f"method {name} of {sort.name}")
            return Value(Sort.METHOD, holder.of, name, sort)
        if sort is Sort.LIVE:
            if name not in ("get", "items", "keys", "values", "copy"):
                raise Unproven(f"method {name} of a container that others change")
        else:
            plain(holder)
            allowed = PURE_METHODS | CHANGING_METHODS if sort is Sort.FRESH else PURE_METHODS
            if name not in allowed:
                raise Unproven(f"method {name} of anything")
        return Value(Sort.METHOD, None, name, sort)

    def _method_of_self(self, name: str) -> Value:
        if name in self._is_set_later:
            raise Unproven(f"{name} is an attribute that is called")
        member = _looked_up(type(self._holder), name)
        attributes = _own_attributes(self._holder)
        if name in attributes and member is MISSING:
            member = staticmethod(attributes[name])  # called without the object
        elif name in attributes:
            raise Unproven(f"{name} of the class is hidden")
        if isinstance(member, staticmethod):
            member = member.__func__
            if type(member) is types.FunctionType:
                return Value(Sort.FUNCTION, member)
        if type(member) is not types.FunctionType:
            raise Unproven(f"{name} is not a method")
        return Value(Sort.METHOD, member, name, Sort.SELF)

    def _attribute_of_self(self, name: str) -> Value:
        member = _looked_up(type(self._holder), name)
        attributes = _own_attributes(self._holder)
        if member is MISSING or _cannot_change(member):
            value = attributes.get(name, member)
        elif type(member) is types.MemberDescriptorType:
            value = getattr(self._holder, name, MISSING)
        else:
            raise Unproven(f"{name} is computed")
        if name not in self._is_set_later:
            if value is MISSING:
                raise Unproven(f"no attribute {name}")
            return self._state(value) if isinstance(value, State) else _sort_of(value)
        self._read.add(name)
        if value is not MISSING and not _cannot_change(value):
            raise Unproven(f"{name} is set and holds something that can change")
        return UNKNOWN if name in self._assumed_unknown else IMMUTABLE

    def _state(self, state: State) -> Value:
        """A managed state; what its own functions do in place, it does in place."""
        if not _is_of_firesteel(type(state)):
            raise Unproven("a state of somebody else")
        if isinstance(state, ReducingState | AggregatingState):
            descriptor = getattr(state, "_descriptor", None)
            functions: list[Callable[..., Any]]
            if isinstance(descriptor, ReducingStateDescriptor):
                functions = [descriptor.get_reduce_function().reduce]
            elif isinstance(descriptor, AggregatingStateDescriptor):
                aggregate = descriptor.get_agg_function()
                functions = [
                    aggregate.create_accumulator,
                    aggregate.add,
                    aggregate.get_result,
                    aggregate.merge,
                ]
            else:
                raise Unproven("a state of which nobody knows what it calls")
            for function in functions:
                prove(function, attributes_are_parts=self._attributes_are_parts)
        for kinds, methods in _STATES:
            if isinstance(state, kinds):
                return Value(Sort.STATE, methods)
        raise Unproven("an unknown state")

    @override
    def store_attribute(self, holder: Value, name: str, value: Value) -> None:
        """Only the object's own, and no methods."""
        if holder.sort is not Sort.SELF:
            raise Unproven(f"{name} of something is set")
        if name not in self._is_set_later:
            raise Unproven(f"{name} is set by a function outside of the class")
        member = _looked_up(type(self._holder), name)
        if not (member is MISSING or _cannot_change(member) or type(member) is types.MemberDescriptorType):
            raise Unproven(f"{name} of the class is hidden, or more happens than that it is set")
        if value.sort is not Sort.IMMUTABLE:
            self.stores_of_anything.add(name)

    def check_attributes(self) -> None:
        """See that attributes that were read are set only by functions that were looked at."""
        looked_at = {function.__code__ for function, _ in self._functions}
        for name in self._read:
            if not self._is_set_later[name] <= looked_at:
                raise Unproven(f"{name} is set by a method that nobody looked at")

    @override
    def subscript(self, holder: Value) -> Value:
        """Elements of anything, and of maps in the state."""
        if holder.sort is Sort.STATE and holder.of is _MAP:
            return UNKNOWN
        if holder.sort is not Sort.LIVE:
            plain(holder)
        return UNKNOWN

    @override
    def store_subscript(self, holder: Value) -> None:
        """Only in what was made in this call, and in maps in the state."""
        if holder.sort is not Sort.FRESH and not (holder.sort is Sort.STATE and holder.of is _MAP):
            raise Unproven("an element is set")

    @override
    def iterate(self, holder: Value) -> None:
        """Anything may be gone through."""
        if holder.sort is Sort.STATE and (holder.of is _MAP or holder.of is _LIST):
            return
        if holder.sort is not Sort.LIVE:
            plain(holder)

    @override
    def contains(self, holder: Value) -> None:
        self.iterate(holder)

    # Calls ------------------------------------------------------------------------------------------------

    @override
    def call(self, walk: CodeWalk, called: Value, values: list[Value], names: tuple[str, ...]) -> Value:
        """Harmless functions, methods that are known by name, functions of the user and methods of the object."""
        if called.sort is Sort.HARMLESS:
            return self._call_harmless(called.of, values, names)
        if called.sort is Sort.FUNCTION:
            return self._call_function(walk, called.of, values, names)
        if called.sort is not Sort.METHOD:
            raise Unproven("something is called that may be anything")
        if called.holder is Sort.SELF:
            return self._call_function(walk, called.of, [Value(Sort.SELF), *values], names)
        _check_keywords(values, names)
        for value in values:
            if called.holder is Sort.FRESH and called.name in ("extend", "update"):
                self.iterate(value)
            else:
                plain(value)
        if called.holder in (Sort.CONTEXT, Sort.TIMERS, Sort.STATE):
            walk.emits |= called.holder is Sort.CONTEXT and called.name == "output"
            methods = {Sort.CONTEXT: _CONTEXT, Sort.TIMERS: _TIMERS}.get(called.holder, called.of)
            result: Value = methods[called.name]
            return result
        if called.holder is Sort.LIVE:
            return {"get": UNKNOWN, "copy": FRESH}.get(called.name, LIVE)
        if called.holder is not Sort.FRESH and called.name not in PURE_METHODS:
            raise Unproven("emitted since the method was read")
        return FRESH if called.holder is Sort.FRESH and called.name == "copy" else UNKNOWN

    def _call_harmless(self, function: Any, values: list[Value], names: tuple[str, ...]) -> Value:
        _check_keywords(values, names)
        if function is copy.deepcopy and len(values) > 1:
            raise Unproven("deepcopy adds to its memo")
        live = [value for value in values if value.sort is Sort.LIVE]
        for value in values:
            if value.sort is not Sort.LIVE:
                plain(value)
        if live and id(function) in _GO_THROUGH:
            return LIVE
        if live and id(function) not in _LEAVE_NOTHING:
            raise Unproven("a container that others change is handed over")
        if id(function) in _MAKE_CONTAINERS:
            return FRESH
        return IMMUTABLE if id(function) in _GIVE_NUMBERS else UNKNOWN

    def _call_function(
        self, walk: CodeWalk, function: types.FunctionType, values: list[Value], names: tuple[str, ...]
    ) -> Value:
        code = function.__code__
        if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            raise Unproven("a function with any number of arguments")
        own = parameters(code)
        given = dict(zip(own, values[: len(values) - len(names)], strict=False))
        given.update(zip(names, values[len(values) - len(names) :], strict=True))
        if len(given) != len(values) or not given.keys() <= set(own):
            raise Unproven("a call that fails")
        arguments = [given.get(name, IMMUTABLE) for name in own]  # defaults are constants
        for value in arguments:
            if value.sort in (Sort.MIXED, Sort.NULL, Sort.METHOD, Sort.CODE, Sort.MODULE, Sort.UNBOUND):
                raise Unproven(f"{value.sort.name} as an argument")
        emits = self.prove(
            function, [UNKNOWN if value.sort in (Sort.FRESH, Sort.FUNCTION) else value for value in arguments]
        )
        if emits and code.co_flags & inspect.CO_GENERATOR:
            raise Unproven("a generator emits through the context; when it does so is not known")
        walk.emits |= emits
        return UNKNOWN


def _check_keywords(values: list[Value], names: tuple[str, ...]) -> None:
    """No part of a record may be called as a key function or a hook, and nothing may be changed by request."""
    if not _KEYWORDS_FOR_CHANGES.isdisjoint(names):
        raise Unproven("something is changed in place, or gets the result")
    for name, value in zip(names, values[len(values) - len(names) :], strict=True):
        if name in KEYWORDS_OF_FUNCTIONS:
            nested = value.sort is Sort.FUNCTION and isinstance(value.of, types.CodeType)
            if not nested and value.sort not in (Sort.IMMUTABLE, Sort.HARMLESS):
                raise Unproven(f"{name} is a function that may be anything")


def _own_attributes(holder: Any) -> dict[str, Any]:
    return getattr(holder, "__dict__", {})


# What functions set


def _functions_of(kind: type) -> Iterator[types.FunctionType]:
    """All functions that a class has, those that run before the first record or after the last left out."""
    for base in kind.__mro__:
        for name, member in base.__dict__.items():
            if name not in _SETUP:
                yield from _functions_in(member)


def _functions_in(member: Any) -> Iterator[types.FunctionType]:
    if isinstance(member, types.FunctionType):
        yield member
    elif isinstance(member, staticmethod | classmethod):
        yield from _functions_in(member.__func__)
    elif isinstance(member, property):
        for part in (member.fget, member.fset, member.fdel):
            yield from _functions_in(part)


def _attributes_set(code: types.CodeType) -> Iterator[str]:
    for each in _with_nested(code):
        for step in dis.get_instructions(each):
            if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                yield step.argval


def _is_set_by_somebody(namespace: dict[str, Any], name: str) -> bool:
    """Whether a function that shares these globals sets one: then it will not stay what it is."""
    for value in list(namespace.values()):
        functions = _functions_of(value) if isinstance(value, type) else _functions_in(value)
        for function in functions:
            if function.__globals__ is namespace and any(
                name in each.co_names and _sets_global(each, name) for each in _with_nested(function.__code__)
            ):
                return True
    return False


def _sets_global(code: types.CodeType, name: str) -> bool:
    return any(
        step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") and step.argval == name
        for step in dis.get_instructions(code)
    )


def _with_nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_nested(constant)
