"""Follows what the instructions of a function do with values, along all paths at once, without running them.

`CodeWalk` keeps, for every instruction, what is known of each value on the stack and in each local there: its `Sort`.
Where paths meet, what is known is what holds on all of them. Every instruction that is not known, or that gets
a value of a sort it should not get, ends the walk with `Unproven`. What attributes, globals and calls mean is decided by
the `Rules`.

The instructions are those of Python 3.11 to 3.14. How many values an instruction takes and gives is written here, and
compared with what the running Python says about it: where they differ, nothing is proven.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from firesteel.runtime.harmless import is_constant, reads_method, words

__all__ = [
    "FRESH",
    "IMMUTABLE",
    "LIVE",
    "NULL",
    "UNKNOWN",
    "CodeWalk",
    "Rules",
    "Sort",
    "Unproven",
    "Value",
    "parameters",
    "plain",
]


class Unproven(Exception):
    """Something was found of which nobody knows that it is harmless."""


class Sort(IntEnum):
    """What is known of a value. The first five are ordinary values, from what is known best to what is known least."""

    UNBOUND = 0  # a local that was not set on any path up to here
    IMMUTABLE = 1  # nothing about it can change, and it has no operators that work in place
    FRESH = 2  # a built-in container that was made in this call and has not been emitted since
    UNKNOWN = 3  # a record, a part of one, a stored value: it may be looked at, but not changed
    LIVE = 4  # a container that others change: its parts may be used, but it must not get into a result
    FUNCTION = 5  # a Python function of the user, a lambda, or a comprehension, all of which were walked
    HARMLESS = 6  # a function or class from the list of harmless ones
    MODULE = 7
    METHOD = 8  # what is called next; `holder` says of what
    CODE = 9
    NULL = 10  # the gap that calls have on the stack
    SELF = 11
    CONTEXT = 12
    TIMERS = 13
    STATE = 14
    MIXED = 15  # one of the others on one path, something else on another


class Value(NamedTuple):
    """A sort, and of which object it is; only some sorts have one."""

    sort: Sort
    of: Any = None
    name: str = ""
    holder: Sort = Sort.UNBOUND

    def is_same(self, other: Value) -> bool:
        """Whether both stand for the same; objects are compared by identity, as they may be of any class."""
        return (
            self.sort is other.sort
            and self.of is other.of
            and self.name == other.name
            and self.holder is other.holder
        )


UNBOUND = Value(Sort.UNBOUND)
IMMUTABLE = Value(Sort.IMMUTABLE)
FRESH = Value(Sort.FRESH)
UNKNOWN = Value(Sort.UNKNOWN)
LIVE = Value(Sort.LIVE)
NULL = Value(Sort.NULL)
MIXED = Value(Sort.MIXED)

_CALLABLE = (Sort.FUNCTION, Sort.HARMLESS)


def joined(one: Value, other: Value) -> Value:
    """What is known of a value that is either one or the other."""
    if one.is_same(other) or other.sort is Sort.UNBOUND:
        return one
    if one.sort is Sort.UNBOUND:
        return other
    one, other = (UNKNOWN if value.sort in _CALLABLE else value for value in (one, other))
    if one.sort <= Sort.LIVE and other.sort <= Sort.LIVE:
        return one if one.sort >= other.sort else other
    return MIXED


class Rules(ABC):
    """What names stand for and what calls do; each method raises `Unproven` for what it does not know."""

    @abstractmethod
    def global_value(self, walk: CodeWalk, name: str) -> Value:
        """What a global is."""

    @abstractmethod
    def attribute(self, holder: Value, name: str, *, called: bool) -> Value:
        """What an attribute is; ``called`` when it is read to be called and for nothing else."""

    @abstractmethod
    def store_attribute(self, holder: Value, name: str, value: Value) -> None:
        """An attribute is set."""

    @abstractmethod
    def subscript(self, holder: Value) -> Value:
        """What an element is."""

    @abstractmethod
    def store_subscript(self, holder: Value) -> None:
        """An element is set or deleted."""

    @abstractmethod
    def iterate(self, holder: Value) -> None:
        """Somebody goes through the elements."""

    @abstractmethod
    def contains(self, holder: Value) -> None:
        """Somebody asks whether an element is there."""

    @abstractmethod
    def call(self, walk: CodeWalk, called: Value, values: list[Value], names: tuple[str, ...]) -> Value:
        """A call; the last values belong to the names."""


class _Frame:
    """The stack and the locals before an instruction."""

    def __init__(self, stack: list[Value], local: dict[str, Value]) -> None:
        self.stack = stack
        self.local = local

    def copy(self) -> _Frame:
        return _Frame(self.stack.copy(), self.local.copy())

    def join(self, other: _Frame) -> bool:
        """Take in what is known on another path; whether that changed anything."""
        if len(self.stack) != len(other.stack):
            raise Unproven("the stack has two heights")
        stack = [joined(a, b) for a, b in zip(self.stack, other.stack, strict=True)]
        names = self.local.keys() | other.local.keys()
        local = {
            name: joined(self.local.get(name, UNBOUND), other.local.get(name, UNBOUND)) for name in names
        }
        changed = any(not a.is_same(b) for a, b in zip(stack, self.stack, strict=True)) or any(
            not value.is_same(self.local.get(name, UNBOUND)) for name, value in local.items()
        )
        self.stack, self.local = stack, local
        return changed

    def forget_fresh(self) -> None:
        """Something was emitted: what was made before may be a part of it."""
        self.stack[:] = [_no_longer_fresh(value) for value in self.stack]
        self.local = {name: _no_longer_fresh(value) for name, value in self.local.items()}


def _no_longer_fresh(value: Value) -> Value:
    if value.sort is Sort.FRESH:
        return UNKNOWN
    if value.holder is Sort.FRESH:
        return value._replace(holder=Sort.UNKNOWN)
    return value


_DO_NOTHING = words("RESUME NOP PRECALL KW_NAMES MAKE_CELL COPY_FREE_VARS NOT_TAKEN")
_ALWAYS_JUMP = words("JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT")
_END = words("RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE")
#: What the running Python says about the stack before and after them is not what happens: see the compiler's sources.
_NOT_COMPARED = _END | words("PRECALL CALL RETURN_GENERATOR")
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
#: Arguments of MAKE_FUNCTION (3.11, 3.12) and SET_FUNCTION_ATTRIBUTE (3.13 on): annotations, closure, and (3.14) the
#: function that makes annotations. The others are defaults.
_NO_DEFAULTS = (4, 8, 16)
_INTRINSICS = words("INTRINSIC_LIST_TO_TUPLE INTRINSIC_UNARY_POSITIVE INTRINSIC_STOPITERATION_ERROR")
_MOST_STEPS = 20_000
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
#: Instructions that look at ordinary values and give one of which nothing is known: how many they take and give.
_PLAIN: dict[str, tuple[int, int]] = {
    "COMPARE_OP": (2, 1),
    "BUILD_SLICE": (-1, 1),  # as many as the argument says
    "LIST_TO_TUPLE": (1, 1),
    "FORMAT_SIMPLE": (1, 1),
    "FORMAT_WITH_SPEC": (2, 1),
    "CONVERT_VALUE": (1, 1),
    "LIST_APPEND": (1, 0),
    "SET_ADD": (1, 0),
    "MAP_ADD": (2, 0),
    "GET_LEN": (0, 1),
    "MATCH_MAPPING": (0, 1),
    "MATCH_SEQUENCE": (0, 1),
    "MATCH_KEYS": (0, 1),
    "PUSH_EXC_INFO": (1, 2),
    "CHECK_EXC_MATCH": (1, 1),
    "POP_EXCEPT": (1, 0),
    "END_SEND": (2, 1),
    "CLEANUP_THROW": (3, 2),
    "RETURN_GENERATOR": (0, 1),
    "LOAD_CLOSURE": (0, 1),
}
_LOADS_OF_LOCALS = words(
    "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW "
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW"
)
_STORES_OF_LOCALS = words("STORE_FAST STORE_FAST_MAYBE_NULL STORE_FAST_STORE_FAST")
_UNARY = words("UNARY_NEGATIVE UNARY_INVERT UNARY_POSITIVE")
_EXTEND = words("LIST_EXTEND SET_UPDATE DICT_UPDATE")
_BUILD = {"BUILD_LIST": 1, "BUILD_SET": 1, "BUILD_MAP": 2, "BUILD_CONST_KEY_MAP": 1}


class CodeWalk:
    """The walk through one code object; comprehensions and lambdas in it are walked where they are made."""

    def __init__(
        self,
        rules: Rules,
        function: Any,
        code: types.CodeType,
        arguments: dict[str, Value],
        cells: dict[str, Value],
        *,
        nested: bool = False,
    ) -> None:
        self.rules = rules
        self.function = function  # whose globals are meant
        self.nested = nested
        self.emits = False  # whether something has left through the context
        self._code = code
        self._arguments = arguments
        own_cells = dict.fromkeys(code.co_cellvars, UNKNOWN)
        stored = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
        for name in code.co_cellvars:
            if name in arguments:
                argument = arguments[name]
                if name in stored:
                    plain(argument)
                elif argument.sort is not Sort.FRESH:
                    own_cells[name] = argument
        self._cells = {**cells, **own_cells}
        self._handlers: list[Any] = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]

    def run(self) -> None:
        """Walk all paths; raises `Unproven` when one of them may do harm, or when there is too much."""
        instructions = [step for step in dis.get_instructions(self._code) if step.opname != "CACHE"]
        self._steps = [step for step in instructions if step.opname != "EXTENDED_ARG"]
        self._index: dict[int, int] = {}  # by offset
        at = 0
        for step in instructions:  # a jump leads to the EXTENDED_ARG in front of an instruction
            self._index[step.offset] = at
            at += step.opname != "EXTENDED_ARG"
        frames = {0: _Frame([], dict(self._arguments))}
        waiting = [0]
        for _ in range(_MOST_STEPS):
            if not waiting:
                return
            at = waiting.pop()
            for way, frame in self._ways(at, frames[at]):
                if way not in frames:
                    frames[way] = frame
                    waiting.append(way)
                elif frames[way].join(frame):
                    waiting.append(way)
        raise Unproven("too long")

    def _ways(self, at: int, before: _Frame) -> list[tuple[int, _Frame]]:
        """Where an instruction may lead to, and with what on the stack and in the locals."""
        step = self._steps[at]
        ways = self._after(at, before.copy())
        if step.opname not in _NOT_COMPARED:
            for way, frame in ways:
                jumps = step.opcode in _JUMPS and way != at + 1
                effect = dis.stack_effect(step.opcode, step.arg, jump=jumps)
                if len(frame.stack) - len(before.stack) != effect:
                    raise Unproven(f"{step.opname} of this Python does something else")
        frames = [before, *(frame for _, frame in ways)]
        for handler in self._handlers:
            if handler.start <= step.offset < handler.end:
                for frame in frames:
                    if len(frame.stack) >= handler.depth:
                        stack = [*frame.stack[: handler.depth], *[UNKNOWN] * (1 + handler.lasti)]
                        ways.append((self._index[handler.target], _Frame(stack, frame.local.copy())))
        return ways

    def _after(self, at: int, frame: _Frame) -> list[tuple[int, _Frame]]:
        step = self._steps[at]
        name, stack = step.opname, frame.stack
        if name in _END:
            self._end(step, frame)
            return []
        if name in _ALWAYS_JUMP:
            return [(self._index[step.argval], frame)]
        if step.opcode in _JUMPS:
            return self._branch(at, frame)
        if name == "CALL":
            self._call(step.arg or 0, self._names_before(at), frame)
        elif name == "CALL_KW":
            stack.pop()
            self._call(step.arg or 0, self._names_before(at), frame)
        elif name not in _DO_NOTHING:
            doing = self._DOING.get(name)
            if doing is not None:
                doing(self, step, frame)
            elif name in _PLAIN:
                takes, gives = _PLAIN[name]
                self._take_plain(stack, (step.arg or 0) if takes < 0 else takes)
                stack += [UNKNOWN] * gives
            else:
                raise Unproven(name)
        return [(at + 1, frame)]

    # The ends of paths, and forks ------------------------------------------------------------------------

    def _end(self, step: dis.Instruction, frame: _Frame) -> None:
        if step.opname == "RETURN_CONST":
            self._constant(step.argval)
        elif step.opname == "RETURN_VALUE":
            plain(frame.stack.pop())
        elif step.opname == "RAISE_VARARGS":
            self._take_plain(frame.stack, step.arg or 0)

    def _branch(self, at: int, frame: _Frame) -> list[tuple[int, _Frame]]:
        step = self._steps[at]
        target, other = self._index[step.argval], frame.copy()
        if step.opname in ("FOR_ITER", "SEND"):
            stack = frame.stack
            if step.opname == "SEND":
                plain(stack.pop())
            stack.append(UNKNOWN)
            gone = dis.stack_effect(step.opcode, step.arg, jump=True)
            other.stack = [*other.stack[: len(other.stack) + min(gone, 0)], *[UNKNOWN] * max(gone, 0)]
            if step.opname == "SEND":
                other.stack[-1] = UNKNOWN  # what the generator returned
        elif step.opname in ("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
            _looked_at(frame.stack.pop())
        elif step.opname.startswith("POP_JUMP"):
            _looked_at(frame.stack.pop())
            other.stack.pop()
        else:
            raise Unproven(step.opname)
        return [(at + 1, frame), (target, other)]

    # Locals and constants ---------------------------------------------------------------------------------

    def _load_const(self, step: dis.Instruction, frame: _Frame) -> None:
        frame.stack.append(self._constant(step.argval))

    def _constant(self, value: Any) -> Value:
        if isinstance(value, types.CodeType):
            return Value(Sort.CODE, value)
        if is_constant(value):
            return IMMUTABLE
        raise Unproven("a constant that can change")

    def _load_fast(self, step: dis.Instruction, frame: _Frame) -> None:
        for name in _names(step):
            if (
                name in self._cells
            ):  # from Python 3.13 on, closures are made of cells that are loaded as locals
                frame.stack.append(UNKNOWN)
            else:
                frame.stack.append(frame.local.get(name, UNBOUND))
        if step.opname == "LOAD_FAST_AND_CLEAR":
            frame.local[step.argval] = UNBOUND

    def _store_fast(self, step: dis.Instruction, frame: _Frame) -> None:
        for name in _names(step):
            value = frame.stack.pop()
            if value.sort in (Sort.NULL, Sort.METHOD, Sort.CODE):
                raise Unproven("half of a call in a local")
            frame.local[name] = value

    def _store_load_fast(self, step: dis.Instruction, frame: _Frame) -> None:
        stored, loaded = step.argval
        frame.local[stored] = frame.stack.pop()
        frame.stack.append(UNKNOWN if loaded in self._cells else frame.local.get(loaded, UNBOUND))

    def _delete_fast(self, step: dis.Instruction, frame: _Frame) -> None:
        frame.local[step.argval] = UNBOUND

    def _load_deref(self, step: dis.Instruction, frame: _Frame) -> None:
        frame.stack.append(self._cells[step.argval])

    def _store_deref(self, step: dis.Instruction, frame: _Frame) -> None:
        if step.argval in self._code.co_freevars:
            raise Unproven("a variable of an outer function is set")
        plain(frame.stack.pop())

    def _load_global(self, step: dis.Instruction, frame: _Frame) -> None:
        value = self.rules.global_value(self, step.argval)
        is_for_call = bool((step.arg or 0) & 1)
        if not is_for_call:
            frame.stack.append(value)
        elif sys.version_info >= (3, 13):
            frame.stack += [value, NULL]
        else:
            frame.stack += [NULL, value]

    def _push_null(self, step: dis.Instruction, frame: _Frame) -> None:
        frame.stack.append(NULL)

    def _assertion_error(self, step: dis.Instruction, frame: _Frame) -> None:
        frame.stack.append(Value(Sort.HARMLESS, AssertionError))

    def _common_constant(self, step: dis.Instruction, frame: _Frame) -> None:
        if step.argval is not AssertionError and step.argrepr != "AssertionError":
            raise Unproven(step.opname)
        self._assertion_error(step, frame)

    # The stack --------------------------------------------------------------------------------------------

    def _pop_top(self, step: dis.Instruction, frame: _Frame) -> None:
        frame.stack.pop()

    def _end_for(self, step: dis.Instruction, frame: _Frame) -> None:
        del frame.stack[dis.stack_effect(step.opcode) :]

    def _copy(self, step: dis.Instruction, frame: _Frame) -> None:
        frame.stack.append(frame.stack[-(step.arg or 0)])

    def _swap(self, step: dis.Instruction, frame: _Frame) -> None:
        stack, depth = frame.stack, -(step.arg or 0)
        stack[-1], stack[depth] = stack[depth], stack[-1]

    # Operators --------------------------------------------------------------------------------------------

    def _unary(self, step: dis.Instruction, frame: _Frame) -> None:
        value = plain(frame.stack.pop())
        frame.stack.append(IMMUTABLE if value.sort is Sort.IMMUTABLE else UNKNOWN)

    def _truth(self, step: dis.Instruction, frame: _Frame) -> None:
        _looked_at(frame.stack.pop())
        frame.stack.append(IMMUTABLE)

    def _is(self, step: dis.Instruction, frame: _Frame) -> None:
        _looked_at(frame.stack.pop())
        _looked_at(frame.stack.pop())
        frame.stack.append(IMMUTABLE)

    def _binary(self, step: dis.Instruction, frame: _Frame) -> None:
        stack = frame.stack
        if step.argrepr == "[]":
            return self._subscript(step, frame)
        right, left = plain(stack.pop()), plain(stack.pop())
        both = left.sort is right.sort is Sort.IMMUTABLE
        if not step.argrepr.endswith("=") or left.sort is Sort.IMMUTABLE:
            stack.append(IMMUTABLE if both else UNKNOWN)
        elif left.sort is Sort.FRESH:
            # The right one has a say when the left one does not know what to do, and may give itself.
            stack.append(UNKNOWN if right.sort is Sort.UNKNOWN else FRESH)
        else:
            raise Unproven("an operator that may work in place")
        return None

    def _contains(self, step: dis.Instruction, frame: _Frame) -> None:
        holder = frame.stack.pop()
        plain(frame.stack.pop())
        self.rules.contains(holder)
        frame.stack.append(IMMUTABLE)

    def _subscript(self, step: dis.Instruction, frame: _Frame) -> None:
        plain(frame.stack.pop())
        if step.opname == "BINARY_SLICE":
            plain(frame.stack.pop())
        frame.stack.append(self.rules.subscript(frame.stack.pop()))

    def _store_subscript(self, step: dis.Instruction, frame: _Frame) -> None:
        self._take_plain(frame.stack, 2 if step.opname == "STORE_SLICE" else 1)
        self.rules.store_subscript(frame.stack.pop())
        if step.opname != "DELETE_SUBSCR":
            plain(frame.stack.pop())

    def _load_attribute(self, step: dis.Instruction, frame: _Frame) -> None:
        called = reads_method(step)
        frame.stack.append(self.rules.attribute(frame.stack.pop(), step.argval, called=called))
        if called:
            frame.stack.append(NULL)

    def _store_attribute(self, step: dis.Instruction, frame: _Frame) -> None:
        holder = frame.stack.pop()
        self.rules.store_attribute(holder, step.argval, plain(frame.stack.pop()))

    # New objects, and parts -------------------------------------------------------------------------------

    def _build(self, step: dis.Instruction, frame: _Frame) -> None:
        count = (step.arg or 0) * _BUILD[step.opname] + (step.opname == "BUILD_CONST_KEY_MAP")
        self._take_plain(frame.stack, count)
        frame.stack.append(FRESH)

    def _build_tuple(self, step: dis.Instruction, frame: _Frame) -> None:
        parts = self._take_plain(frame.stack, step.arg or 0)
        frame.stack.append(IMMUTABLE if all(part.sort is Sort.IMMUTABLE for part in parts) else UNKNOWN)

    def _build_string(self, step: dis.Instruction, frame: _Frame) -> None:
        self._take_plain(frame.stack, step.arg or 0)
        frame.stack.append(IMMUTABLE)

    def _format_value(self, step: dis.Instruction, frame: _Frame) -> None:
        self._take_plain(frame.stack, 2 if (step.arg or 0) & 4 else 1)
        frame.stack.append(UNKNOWN)

    def _extend(self, step: dis.Instruction, frame: _Frame) -> None:
        self.rules.iterate(frame.stack.pop())

    def _get_iterator(self, step: dis.Instruction, frame: _Frame) -> None:
        self.rules.iterate(frame.stack.pop())
        frame.stack.append(UNKNOWN)

    def _unpack(self, step: dis.Instruction, frame: _Frame) -> None:
        self.rules.iterate(frame.stack.pop())
        count = step.arg or 0
        frame.stack += [UNKNOWN] * (
            count if step.opname == "UNPACK_SEQUENCE" else (count & 0xFF) + 1 + (count >> 8)
        )

    def _yield(self, step: dis.Instruction, frame: _Frame) -> None:
        plain(frame.stack.pop())
        frame.forget_fresh()
        frame.stack.append(UNKNOWN)

    def _intrinsic(self, step: dis.Instruction, frame: _Frame) -> None:
        if step.argrepr not in _INTRINSICS:
            raise Unproven(step.argrepr)
        plain(frame.stack.pop())
        frame.stack.append(UNKNOWN)

    # Functions --------------------------------------------------------------------------------------------

    def _make_function(self, step: dis.Instruction, frame: _Frame) -> None:
        code = frame.stack.pop()
        if code.sort is not Sort.CODE:
            raise Unproven("code that is not constant")
        attributes = step.arg or 0
        for attribute in _NO_DEFAULTS:
            if attributes & attribute:
                plain(frame.stack.pop())
                attributes -= attribute
        if attributes:
            raise Unproven("a function with defaults")
        inner = code.of
        # What a generator expression goes through is handed to it when it is made, so the parameter is known.
        arguments = dict.fromkeys(parameters(inner), UNKNOWN)
        cells = {name: self._cells[name] for name in inner.co_freevars}
        CodeWalk(self.rules, self.function, inner, arguments, cells, nested=True).run()
        frame.stack.append(Value(Sort.FUNCTION, inner))

    def _set_function_attribute(self, step: dis.Instruction, frame: _Frame) -> None:
        if step.arg not in _NO_DEFAULTS:
            raise Unproven("a function with defaults")
        function = frame.stack.pop()
        plain(frame.stack.pop())
        frame.stack.append(function)

    def _names_before(self, at: int) -> tuple[str, ...]:
        """The names of the keywords of a call, which are a constant."""
        call, before = self._steps[at], self._steps[at - 1]
        if before.opname == "PRECALL":
            before = self._steps[at - 2]
        if call.opname == "CALL":  # up to Python 3.12
            names = self._code.co_consts[before.arg or 0] if before.opname == "KW_NAMES" else ()
        elif before.opname == "LOAD_CONST":
            names = before.argval
        else:
            raise Unproven("keywords that are not constant")
        if names and call.is_jump_target:
            raise Unproven("keywords of another call")
        return tuple(names)

    def _call(self, count: int, names: tuple[str, ...], frame: _Frame) -> None:
        stack = frame.stack
        values = [stack.pop() for _ in range(count)][::-1]
        second, first = stack.pop(), stack.pop()
        if first.sort is Sort.NULL:
            called = second
        else:
            called = first
            if second.sort is not Sort.NULL:
                values = [second, *values]  # how a comprehension gets what it goes through
        emitted, self.emits = self.emits, False
        if called.sort is Sort.FUNCTION and isinstance(called.of, types.CodeType):
            for value in values:
                plain(value)
            result = FRESH if called.of.co_name in _COMPREHENSIONS else UNKNOWN
        else:
            result = self.rules.call(self, called, values, names)
        if self.emits:
            if self.nested:
                raise Unproven("a nested function emits; when it does so is not known")
            frame.forget_fresh()
        self.emits = self.emits or emitted
        stack.append(result)

    def _take_plain(self, stack: list[Value], count: int) -> list[Value]:
        return [plain(stack.pop()) for _ in range(count)]

    _DOING: dict[str, Callable[[CodeWalk, dis.Instruction, _Frame], None]] = {
        "LOAD_CONST": _load_const,
        "LOAD_SMALL_INT": _load_const,
        **dict.fromkeys(_LOADS_OF_LOCALS, _load_fast),
        **dict.fromkeys(_STORES_OF_LOCALS, _store_fast),
        "STORE_FAST_LOAD_FAST": _store_load_fast,
        "DELETE_FAST": _delete_fast,
        "LOAD_DEREF": _load_deref,
        "STORE_DEREF": _store_deref,
        "LOAD_GLOBAL": _load_global,
        "PUSH_NULL": _push_null,
        "LOAD_ASSERTION_ERROR": _assertion_error,
        "LOAD_COMMON_CONSTANT": _common_constant,
        "POP_TOP": _pop_top,
        "POP_ITER": _pop_top,
        "END_FOR": _end_for,
        "COPY": _copy,
        "SWAP": _swap,
        **dict.fromkeys(_UNARY, _unary),
        "UNARY_NOT": _truth,
        "TO_BOOL": _truth,
        "IS_OP": _is,
        "BINARY_OP": _binary,
        "CONTAINS_OP": _contains,
        "BINARY_SUBSCR": _subscript,
        "BINARY_SLICE": _subscript,
        "STORE_SUBSCR": _store_subscript,
        "DELETE_SUBSCR": _store_subscript,
        "STORE_SLICE": _store_subscript,
        "LOAD_ATTR": _load_attribute,
        "LOAD_METHOD": _load_attribute,
        "STORE_ATTR": _store_attribute,
        **dict.fromkeys(_BUILD, _build),
        "BUILD_TUPLE": _build_tuple,
        "BUILD_STRING": _build_string,
        "FORMAT_VALUE": _format_value,
        **dict.fromkeys(_EXTEND, _extend),
        "GET_ITER": _get_iterator,
        "GET_YIELD_FROM_ITER": _get_iterator,
        "UNPACK_SEQUENCE": _unpack,
        "UNPACK_EX": _unpack,
        "YIELD_VALUE": _yield,
        "CALL_INTRINSIC_1": _intrinsic,
        "MAKE_FUNCTION": _make_function,
        "SET_FUNCTION_ATTRIBUTE": _set_function_attribute,
    }


def plain(value: Value) -> Value:
    """An ordinary value that may get anywhere, also into a result."""
    if value.sort in _CALLABLE:
        return UNKNOWN
    if value.sort > Sort.UNKNOWN or value.sort is Sort.UNBOUND:
        raise Unproven(f"{value.sort.name} as a value")
    return value


def _looked_at(value: Value) -> None:
    if value.sort is not Sort.LIVE:
        plain(value)


def parameters(code: types.CodeType) -> tuple[str, ...]:
    """The names of all parameters, those of ``*args`` and ``**kwargs`` included."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _names(step: dis.Instruction) -> tuple[str, ...]:
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)
