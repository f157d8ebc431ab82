"""Functions that provably keep nothing: what they return needs no copy, because nobody else holds it.

What a function emits is protected by a copy, since the function may keep the object and change it later, or return it
once more. Most small functions can do neither: ``lambda order: {"id": order["id"], "total": order["n"] * 2}`` makes
something new in every call. `keeps_nothing` decides that from the bytecode. It says yes only when every single
instruction is known to be harmless, and no in every other case: a wrong yes gives wrong results, a wrong no costs a
copy.

What a yes means, for a function whose arguments nobody else holds: after the call no reference to an argument, to the
result or to a part of them is left anywhere but in the result and with the caller, and every object in the result that
can change was made in this call or is (a part of) an argument. So the result is as private as the arguments were.

What a yes does not mean:

- The result may *be* an argument or contain parts of it. Where the argument has other holders (two operators that get
  the same record, a value that is also in the state), the result has them, too.
- The same object may be in one result twice: ``lambda x: [x, x]`` keeps nothing, but where each element becomes a
  record of its own, two records are one object.

What it rests on: instructions and calls run Python code of the arguments' own classes (``a + b``, ``a[0]``, ``for x in
a``, ``str(a)``, ``a.get(k)``). The answer holds where these mean what they mean for built-in types: they give something
new or a part of the operands and keep nothing. `harmless.meets_unusual` tells whether there are classes that
define any of them anew, and whoever uses the answer has to ask. Plain attributes are another matter, because
an attribute of a class is shared by all instances and enums hand out the same object every time: ``lambda order:
order.tags`` is accepted only together with the class of the argument, which is then looked at. And globals are looked
up once: whoever replaces ``json.loads`` or ``len`` later is on their own. So are variables of outer functions: those
that hold constants when the question is asked may be read, as another function that would set them was pickled apart
from this one.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common._values import MISSING
from firesteel.runtime.harmless import (
    CHANGING_METHODS,
    KEYWORDS_OF_FUNCTIONS,
    PURE_METHODS,
    TRUSTED_CLASSES,
    attribute_is_part,
    attribute_of_global,
    is_as_usual,
    is_constant,
    may_be_used,
    reads_attribute,
    reads_method,
    words,
)

__all__ = ["TRUSTED_CLASSES", "keeps_nothing"]


def keeps_nothing(
    function: Callable[..., Any], kind: type | None = None, *, may_change_arguments: bool = False
) -> bool:
    """Whether it is certain that the function keeps nothing and returns no object that it returned before.

    With ``kind``, the answer is for calls whose arguments are all of exactly this class: then attributes of the
    arguments may be read. With ``may_change_arguments`` the function may also change its arguments and what it made
    itself in place (``x["n"] += 1``, ``x.append(1)``); without, a yes means that it changes nothing that it was given.

    >>> keeps_nothing(lambda x: {"n": x["n"] + 1})
    True
    >>> keeps_nothing(lambda x, seen=[]: seen)
    False
    """
    if kind is not None and not is_as_usual(kind):
        return False
    if type(function) is types.MethodType and _never_looks_at_its_object(function):
        function = function.__func__
    if type(function) is not types.FunctionType or not _closes_over_constants(function):
        return False
    if function.__code__.co_flags & (
        inspect.CO_GENERATOR
        | inspect.CO_COROUTINE
        | inspect.CO_ASYNC_GENERATOR
        | inspect.CO_ITERABLE_COROUTINE
    ):
        return False
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if not all(map(is_constant, defaults)):
        return False
    check = _Check(function, kind, may_change_arguments)
    return check.is_harmless(function.__code__, _never_stored_parameters(function.__code__))


# Instructions, by their names in Python 3.11 to 3.14. What is not here is not harmless.

_HARMLESS = words(
    # locals and constants; a cell is a local that a comprehension or lambda within the function uses, too
    "LOAD_CONST LOAD_SMALL_INT RETURN_CONST LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST "
    "LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST "
    "STORE_FAST_MAYBE_NULL DELETE_FAST MAKE_CELL LOAD_CLOSURE LOAD_DEREF STORE_DEREF COPY_FREE_VARS "
    # operators
    "UNARY_NEGATIVE UNARY_NOT UNARY_INVERT UNARY_POSITIVE TO_BOOL COMPARE_OP IS_OP CONTAINS_OP BINARY_SUBSCR "
    "BINARY_SLICE "
    # new objects; the last ones only ever add to what the same expression has just made
    "BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_SET BUILD_STRING BUILD_SLICE BUILD_CONST_KEY_MAP LIST_TO_TUPLE "
    "FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE LIST_APPEND LIST_EXTEND SET_ADD SET_UPDATE MAP_ADD "
    "DICT_UPDATE "
    # parts
    "GET_ITER FOR_ITER END_FOR POP_ITER UNPACK_SEQUENCE UNPACK_EX GET_LEN MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS "
    # calls of what LOAD_GLOBAL and LOAD_METHOD let pass; calls of anything else need PUSH_NULL
    "PRECALL CALL "
    # exceptions
    "PUSH_EXC_INFO CHECK_EXC_MATCH POP_EXCEPT RERAISE RAISE_VARARGS LOAD_ASSERTION_ERROR LOAD_COMMON_CONSTANT "
    # generator expressions; functions that are generators are refused before
    "RETURN_GENERATOR YIELD_VALUE "
    # the rest moves things on the stack or does nothing
    "RETURN_VALUE POP_TOP COPY SWAP NOP RESUME CACHE EXTENDED_ARG NOT_TAKEN"
)
_IN_PLACE = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})
_NESTED = frozenset({"<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_HARMLESS_INTRINSICS = frozenset(
    {"INTRINSIC_LIST_TO_TUPLE", "INTRINSIC_UNARY_POSITIVE", "INTRINSIC_STOPITERATION_ERROR"}
)
_LOADS_OF_LOCALS = frozenset(
    {"LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"}
)
_CLOSURE = 8  # argument of MAKE_FUNCTION (3.11, 3.12) and SET_FUNCTION_ATTRIBUTE (3.13 on)
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})


class _Check:
    """Looks at the instructions of one function and of the lambdas and comprehensions in it."""

    def __init__(self, function: Any, kind: type | None, may_change_arguments: bool) -> None:
        self._globals = function.__globals__
        self._builtins = function.__builtins__
        self._kind = kind
        self._harmless = _HARMLESS | _IN_PLACE if may_change_arguments else _HARMLESS
        self._methods = PURE_METHODS | CHANGING_METHODS if may_change_arguments else PURE_METHODS
        self._in_place = may_change_arguments

    def is_harmless(self, code: types.CodeType, arguments: frozenset[str]) -> bool:
        """Whether every instruction is; ``arguments`` are the names that always stand for an argument."""
        steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]
        known: Any = MISSING  # what the step before has put on the stack, when that is a global
        for at, step in enumerate(steps):
            if isinstance(known, types.ModuleType) and (step.is_jump_target or not reads_attribute(step)):
                return False  # the module itself is used as a value
            if step.is_jump_target:
                known = MISSING
            if step.opname == "LOAD_GLOBAL":
                known = self._global(step.argval)
                is_for_call = bool((step.arg or 0) & 1)
                if known is MISSING or (is_for_call and not _calls_this(steps, at)):
                    return False
            elif reads_attribute(step) and known is not MISSING:
                known = attribute_of_global(known, step.argval)
                if known is MISSING:
                    return False
            else:
                known = MISSING
                if not self._is_harmless_step(code, steps, at, arguments):
                    return False
        return True

    def _is_harmless_step(
        self, code: types.CodeType, steps: list[dis.Instruction], at: int, arguments: frozenset[str]
    ) -> bool:
        step = steps[at]
        name = step.opname
        if reads_attribute(step):
            if reads_method(step):
                return step.argval in self._methods
            before = steps[at - 1]
            is_argument = before.opname in _LOADS_OF_LOCALS and _last(before.argval) in arguments
            if self._kind is None or not is_argument or step.is_jump_target:
                return False
            return attribute_is_part(self._kind, step.argval)
        if name in ("LOAD_CONST", "RETURN_CONST"):
            if isinstance(step.argval, types.CodeType):
                # A function with a name could be the one that a decorator, itself an argument, is called with.
                return step.argval.co_name in _NESTED and self.is_harmless(step.argval, frozenset())
            return is_constant(step.argval)
        if name == "PUSH_NULL":
            return _calls_function_of_module(steps, at)
        if name == "BINARY_OP":
            return self._in_place or not step.argrepr.endswith("=")
        if name == "MAKE_FUNCTION":
            return step.arg in (None, 0, _CLOSURE)
        if name == "SET_FUNCTION_ATTRIBUTE":
            return step.arg == _CLOSURE
        if name == "CALL_INTRINSIC_1":
            return step.argrepr in _HARMLESS_INTRINSICS
        if name == "KW_NAMES":
            return _calls_no_part(code.co_consts[step.arg or 0], steps[at - 1])
        if name == "CALL_KW":
            return _calls_no_part(steps[at - 1].argval, steps[at - 2])
        return name in self._harmless or (step.opcode in _JUMPS and name != "SEND")

    def _global(self, name: str) -> Any:
        """The global of this name when it may be used, else MISSING."""
        value = self._globals[name] if name in self._globals else self._builtins.get(name, MISSING)
        return value if may_be_used(value) else MISSING


def _calls_this(steps: list[dis.Instruction], at: int) -> bool:
    """Whether the global that is loaded for a call is itself what is called.

    Up to Python 3.12 a call starts with LOAD_GLOBAL, marked, whenever its function is an expression that *starts* with
    a global: also ``(len, x)[1](y)``, which calls x. So follow the stack: nothing may touch the function until the
    call takes it. Where there are jumps, the answer is no.
    """
    if sys.version_info >= (3, 13):
        return True  # there the mark comes after the whole expression
    at += 1
    while steps[at].opname == "LOAD_ATTR" and not reads_method(steps[at]) and not steps[at].is_jump_target:
        at += 1  # json.loads
    depth = 0  # of the stack above the function
    for step in steps[at:]:
        count = step.arg or 0
        if step.is_jump_target or step.opcode in _JUMPS or step.opname.startswith("UNPACK"):
            return False
        if step.opname == "CALL":
            if depth == count:
                return True
            taken, effect = count + 2, -1 - count
        elif step.opname in ("COPY", "SWAP"):
            taken, effect = count, int(step.opname == "COPY")
        elif step.opname in ("PRECALL", "KW_NAMES"):
            continue
        else:
            effect = dis.stack_effect(step.opcode, step.arg)
            taken = (2 if reads_attribute(step) and reads_method(step) else 1) - effect
        if taken > depth:
            return False
        depth += effect
    return False


def _calls_function_of_module(steps: list[dis.Instruction], at: int) -> bool:
    """Whether PUSH_NULL is for the call of a module's function, like ``json.loads(x)``.

    From Python 3.13 on, functions of modules that are imported in the same file are called this way. Whether the
    function is harmless is decided where it is loaded.
    """
    if sys.version_info < (3, 13) or at < 2:
        return False
    holder, attribute = steps[at - 2], steps[at - 1]
    return (
        holder.opname == "LOAD_GLOBAL"
        and attribute.opname == "LOAD_ATTR"
        and not attribute.is_jump_target
        and not steps[at].is_jump_target
    )


def _calls_no_part(names: tuple[str, ...], last_value: dis.Instruction) -> bool:
    """Whether a call with these keywords hands no part of an argument over as a function to be called."""
    functions = KEYWORDS_OF_FUNCTIONS.intersection(names)
    if not functions:
        return True
    return (
        functions == {names[-1]}
        and not last_value.is_jump_target
        and last_value.opname in ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE", "LOAD_GLOBAL")
    )


def _never_looks_at_its_object(method: types.MethodType) -> bool:
    """Whether a method never uses ``self``: then it is a plain function of its other arguments."""
    code = getattr(method.__func__, "__code__", None)
    if code is None or not code.co_argcount:
        return False
    own = code.co_varnames[0]
    return own not in code.co_cellvars and not any(
        own in (step.argval if isinstance(step.argval, tuple) else (step.argval,))
        for step in dis.get_instructions(code)
        if "FAST" in step.opname
    )


def _closes_over_constants(function: types.FunctionType) -> bool:
    """Whether the variables of outer functions are constants now, and the function sets none of them."""
    outer = frozenset(function.__code__.co_freevars)
    if outer.intersection(_stored_in_cells(function.__code__)):
        return False
    try:
        return all(is_constant(cell.cell_contents) for cell in function.__closure__ or ())
    except ValueError:  # not set yet
        return False


def _stored_in_cells(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_DEREF", "DELETE_DEREF"):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _stored_in_cells(constant)


def _never_stored_parameters(code: types.CodeType) -> frozenset[str]:
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return frozenset(parameters).difference(_stored(code), code.co_cellvars)


def _stored(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname.startswith(("STORE_FAST", "DELETE_FAST")):
            yield from step.argval if isinstance(step.argval, tuple) else (step.argval,)


def _last(name: Any) -> Any:
    return name[-1] if isinstance(name, tuple) else name
