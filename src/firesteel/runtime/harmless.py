"""What the proofs about user functions know of Python: values, classes, functions and methods that are harmless.

`keeps_nothing` and `changes_nothing` read bytecode; what the names in it stand for is decided here.
"""

from __future__ import annotations

import builtins
import collections
import copy
import dataclasses
import datetime
import decimal
import dis
import fractions
import inspect
import json
import math
import operator
import re
import sys
import time
import types
import uuid
from collections.abc import Sequence
from typing import Any

from firesteel.common._values import ATOMIC, MET, MISSING
from firesteel.common.types import Row

__all__ = [
    "CHANGING_METHODS",
    "IMMUTABLE_CLASSES",
    "KEYWORDS_OF_FUNCTIONS",
    "PURE_METHODS",
    "TRUSTED_CLASSES",
    "are_as_usual",
    "attribute_is_part",
    "attribute_of_global",
    "is_as_usual",
    "is_constant",
    "may_be_used",
    "meets_unusual",
    "notice",
    "reads_attribute",
    "reads_method",
    "words",
]

#: Classes whose calls make a new object that holds nothing but the arguments, and whose attributes are parts of the
#: object. Dataclasses and named tuples need not be here, they are looked at.
TRUSTED_CLASSES: set[type] = {Row}


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Values and classes


def is_constant(value: Any) -> bool:
    """Whether nothing about the value can ever change."""
    if type(value) in (tuple, frozenset):
        return all(map(is_constant, value))
    if type(value) is slice:
        return all(map(is_constant, (value.start, value.stop, value.step)))
    return type(value) in _CONSTANT_TYPES


_CONSTANT_TYPES = frozenset({int, float, complex, str, bytes, bool, type(None), type(...)})


def _makes_new_objects(kind: type) -> bool:
    """Whether calling the class runs nobody's code and gives a new object with the arguments in it."""
    if kind in TRUSTED_CLASSES:
        return True
    return type(kind) is type and (_is_plain_dataclass(kind) or _is_named_tuple(kind)) and is_as_usual(kind)


def _is_plain_dataclass(kind: Any) -> bool:
    if "__dataclass_fields__" not in kind.__dict__ or hasattr(kind, "__post_init__"):
        return False
    init = kind.__dict__.get("__init__")
    if not isinstance(init, types.FunctionType):
        return False
    # The one that @dataclass wrote, rather than one in the class statement, which it would have left alone.
    if init.__code__.co_filename != "<string>" or not init.__code__.co_qualname.startswith("__create_fn__."):
        return False
    frozen = kind.__dataclass_params__.frozen
    if kind.__new__ is not object.__new__ or not (frozen or kind.__setattr__ is object.__setattr__):
        return False
    for field in dataclasses.fields(kind):
        if _is_given(field.default) and not is_constant(field.default):
            return False
        if _is_given(field.default_factory) and field.default_factory not in (list, dict, set):
            return False
    return all(_holds_attribute(kind, field.name) for field in dataclasses.fields(kind))


def _is_given(value: Any) -> bool:
    """Whether a field says something; its class is compared, since a class pickled by value has copies of MISSING."""
    return type(value) is not type(dataclasses.MISSING)


def _is_named_tuple(kind: Any) -> bool:
    make = kind.__new__
    return (
        issubclass(kind, tuple)
        and hasattr(kind, "_fields")
        and kind.__init__ is object.__init__
        and isinstance(make, types.FunctionType)
        and make.__code__.co_names == ("_tuple_new",)
        and make.__globals__.get("_tuple_new") is tuple.__new__
        and all(map(is_constant, make.__defaults__ or ()))
    )


def _holds_attribute(kind: type, name: str) -> bool:
    """Whether an attribute of this name is the instance's own, or a constant."""
    for base in kind.__mro__:
        if name in base.__dict__:
            member = base.__dict__[name]
            return is_constant(member) or type(member) in _FIELD_DESCRIPTORS
    return True


_FIELD_DESCRIPTORS = (
    types.MemberDescriptorType,  # a name in __slots__
    type(inspect.getattr_static(inspect.FullArgSpec, "args")),  # a field of a named tuple
)


def attribute_is_part(kind: Any, name: str) -> bool:
    """Whether reading the attribute of an instance gives a part of the instance and runs nobody's code."""
    if kind in TRUSTED_CLASSES:
        return True
    return (
        kind.__getattribute__ in (object.__getattribute__, tuple.__getattribute__)
        and not hasattr(kind, "__getattr__")
        and _holds_attribute(kind, name)
    )


# Classes whose operators and methods mean what they mean for Python's own classes

_USUAL: set[type] = {*ATOMIC, tuple, list, dict, set, frozenset, bytearray, Row}
_UNUSUAL: set[type] = set()
#: What a class may say itself: how its objects are made, copied and pickled, and what gives text, a number or a verdict.
_MAY_BE_OWN = words(
    "__init__ __new__ __post_init__ __init_subclass__ __class_getitem__ __set_name__ __del__ __repr__ __str__ __format__ "
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__ __bool__ __len__ __sizeof__ __dir__ __reduce__ __reduce_ex__ "
    "__getstate__ __setstate__ __getnewargs__ __getnewargs_ex__ __copy__ __deepcopy__ __replace__ __call__ __enter__ "
    "__exit__ __setattr__ __delattr__ __annotate__ __annotate_func__"
)
#: Where functions come from that a dataclass and a named tuple get without saying anything.
_GIVEN_IN = (dataclasses.dataclass.__code__.co_filename, collections.namedtuple.__code__.co_filename)


def are_as_usual(values: Sequence[Any]) -> bool:
    """Whether `is_as_usual` is true of the classes of all values; what is in them is not looked at."""
    if not values:
        return True
    kinds = [*map(type, values)]
    if kinds.count(kinds[0]) == len(kinds):
        return kinds[0] in _USUAL or is_as_usual(kinds[0])
    return all(map(is_as_usual, set(kinds)))


def is_as_usual(kind: type) -> bool:
    """Whether operators and methods that the proofs know by name mean for a class what they mean for Python's own.

    They do for classes that define none of them: then they are those of built-in bases, or there are none.
    """
    if kind in _USUAL or kind in TRUSTED_CLASSES:
        return True
    if kind in _UNUSUAL:
        return False
    found = not any(
        _is_own(name, member)
        for base in kind.__mro__
        if not _is_of_python(base)
        for name, member in base.__dict__.items()
    )
    (_USUAL if found else _UNUSUAL).add(kind)
    return found


class _Noticed:
    """What is known of the classes that this process has met; every one of them is asked about once."""

    unusual = False
    looked_at = 0  # of `MET`


def notice(values: Sequence[Any]) -> None:
    """Take note of the classes of records that come from elsewhere, and that nobody here has copied."""
    if not _Noticed.unusual and not are_as_usual(values):
        _Noticed.unusual = True


def meets_unusual() -> bool:
    """Whether this process has met a class that is not `is_as_usual`.

    It has met those of records that came from elsewhere (`notice`), and of all that was copied. What functions make of
    other classes is copied, because they are not proven: so they are met before anybody else gets them.
    """
    while _Noticed.looked_at < len(MET) and not _Noticed.unusual:
        _Noticed.unusual = not is_as_usual(MET[_Noticed.looked_at])
        _Noticed.looked_at += 1
    return _Noticed.unusual


def _is_of_python(kind: type) -> bool:
    root = kind.__module__.partition(".")[0]
    return root in sys.stdlib_module_names or root == "firesteel"


def _is_own(name: str, member: Any) -> bool:
    """Whether a class defines in Python what the proofs take to be known."""
    by_name = name in PURE_METHODS or name in CHANGING_METHODS
    if not by_name and (name in _MAY_BE_OWN or not (name.startswith("__") and name.endswith("__"))):
        return False
    if isinstance(member, types.FunctionType):
        code = member.__code__
        made = code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__.")
        return not (made or code.co_filename in _GIVEN_IN)
    return isinstance(member, staticmethod | classmethod | property) or (by_name and callable(member))


# Globals

_PURE_BUILTINS = words(
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate float format frozenset "
    "hash hex int isinstance issubclass len list max min oct ord pow range repr reversed round set slice sorted str "
    "sum tuple type zip"
)
IMMUTABLE_CLASSES: tuple[type, ...] = (
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
)
#: Their public attributes are functions that keep nothing, or constants.
_CLASSES_WITH_PURE_METHODS = (*IMMUTABLE_CLASSES, bool, bytes, float, int, str)
_PURE_FUNCTIONS: list[Any] = [
    *(getattr(builtins, name) for name in _PURE_BUILTINS),
    *(
        value
        for value in vars(builtins).values()
        if isinstance(value, type) and issubclass(value, BaseException)
    ),
    *(value for name, value in vars(math).items() if not name.startswith("_")),
    *IMMUTABLE_CLASSES,
    copy.copy,
    copy.deepcopy,
    json.dumps,
    json.loads,
    operator.itemgetter,
    re.compile,
    re.escape,
    re.findall,
    re.fullmatch,
    re.match,
    re.search,
    re.split,
    time.monotonic,
    time.sleep,
    time.time,
]
#: By identity: an object that equals one of them is not one of them. The list above keeps the objects alive.
_PURE = frozenset(map(id, _PURE_FUNCTIONS))
_MODULES: tuple[types.ModuleType, ...] = (
    builtins,
    copy,
    datetime,
    decimal,
    fractions,
    json,
    math,
    operator,
    re,
    time,
    uuid,
)

#: Methods of text, bytes, dates and mappings that give something new (or, for mappings, a part) and change nothing.
#: Names that classes often have with a meaning of their own (group, date, title, count ...) are left out: the object
#: whose method is called may be of any class.
PURE_METHODS = words(
    "_asdict _replace as_dict capitalize casefold copy decode encode endswith expandtabs format format_map fromhex get "
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isoformat isprintable isspace istitle "
    "isupper items join keys ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust "
    "rpartition rsplit rstrip split splitlines startswith strftime strip swapcase timestamp toordinal total_seconds "
    "translate upper utctimetuple values weekday zfill"
)
#: Methods of lists, dicts and sets that change the object and put nothing anywhere else.
CHANGING_METHODS = words(
    "add append clear discard extend insert pop popitem remove reverse setdefault sort update"
)
#: Keywords of sorted, min, max, json.loads and json.dumps whose values are called.
KEYWORDS_OF_FUNCTIONS = words(
    "key default cls object_hook object_pairs_hook parse_float parse_int parse_constant"
)


def attribute_of_global(holder: Any, name: str) -> Any:
    """The attribute of a global that may be used, when it may be used itself, else `MISSING`."""
    if name.startswith("_"):
        return MISSING
    if isinstance(holder, types.ModuleType):
        value = vars(holder).get(name, MISSING)
        return value if may_be_used(value) else MISSING
    if any(holder is kind for kind in _CLASSES_WITH_PURE_METHODS):
        return getattr(holder, name, MISSING)
    return MISSING


def may_be_used(value: Any) -> bool:
    """Whether a global is a function, class or module from the list of harmless ones, or a class that was looked at."""
    if id(value) in _PURE:
        return True
    if isinstance(value, types.ModuleType):
        return any(value is module for module in _MODULES)
    return isinstance(value, type) and _makes_new_objects(value)


# Instructions


def reads_attribute(step: dis.Instruction) -> bool:
    """Whether the instruction reads an attribute, for whatever use."""
    return step.opname in ("LOAD_ATTR", "LOAD_METHOD")


def reads_method(step: dis.Instruction) -> bool:
    """Whether the attribute is read to be called, and for nothing else."""
    if sys.version_info >= (3, 12):
        return bool((step.arg or 0) & 1)
    return step.opname == "LOAD_METHOD"
