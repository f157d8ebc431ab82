"""Functions that provably keep nothing are told from all others; in doubt, the answer is no."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import enum
import functools
import json
import math
import operator
import pickle
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from json import loads
from typing import Any, NamedTuple

import cloudpickle
import pytest

from firesteel.common.types import Row
from firesteel.runtime import harmless
from firesteel.runtime.keeps_nothing import TRUSTED_CLASSES, keeps_nothing

SHARED: list[int] = []
CACHE: dict[Any, Any] = {}
RATE = 3
LATER = None


@dataclass
class Order:
    id: str
    n: int = 1
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    id: str
    n: int


class Pair(NamedTuple):
    key: str
    count: int = 0


class Colour(enum.Enum):
    RED = [255, 0, 0]


@dataclass
class CountsItself:
    id: str

    def __post_init__(self) -> None:
        SHARED.append(1)


@dataclass
class WritesItsOwnInit:
    id: str

    def __init__(self, id: str) -> None:
        SHARED.append(1)


@dataclass
class SharedFactory:
    tags: list[int] = field(default_factory=lambda: SHARED)


class Remembers(type):
    def __call__(cls, *args: Any) -> Any:
        return CACHE.setdefault(args, super().__call__(*args))


@dataclass
class Single(metaclass=Remembers):
    id: str


class SharesTags:
    tags: list[str] = []

    def __init__(self) -> None:
        self.id = 1


class ComputesTags:
    @property
    def tags(self) -> list[int]:
        return SHARED


class AnswersAll:
    def __getattr__(self, name: str) -> Any:
        return SHARED


def helper(x: Any) -> Any:
    return x


def with_branches(x: Any) -> Any:
    if x["n"] > 3 and "a" in x:
        return {"big": x["n"]}
    for part in x["parts"]:
        if part:
            return [part]
    return None


def with_try(x: Any) -> Any:
    try:
        return {"n": int(x["n"])}
    except (KeyError, ValueError) as error:
        return {"error": str(error)}
    finally:
        x = None


def with_match(x: Any) -> Any:
    match x:
        case {"id": name}:
            return [name]
        case [first, *_]:
            return [first]
    return x


def with_while(x: Any) -> Any:
    parts = []
    n = len(x)
    while n > 0:
        parts = [*parts, n]
        n = n - 1
    return parts


def with_raise(x: Any) -> Any:
    if not x:
        raise ValueError(f"empty: {x!r}")
    return {"x": x}


class Instance:
    def __call__(self, x: Any) -> Any:
        return x

    def method(self, x: Any) -> Any:
        return self

    def of_its_class(self, x: Any) -> Any:
        return [type(self), x]

    def in_a_lambda(self, x: Any) -> Any:
        return [self for _ in x]

    def without_itself(self, x: Any) -> Any:
        return {**x, "n": x["n"] * 2}

    @staticmethod
    def static(x: Any) -> Any:
        return SHARED


KEEP_NOTHING: dict[str, Callable[..., Any]] = {
    "argument": lambda x: x,
    "constant": lambda x: 1,
    "constant tuple": lambda x: ("a", (1, 2.5, None)),
    "new dict": lambda x: {"id": x["id"], "n": x["n"] + 1},
    "new list": lambda x: [x, 1],
    "new set": lambda x: {x, 1},
    "empty": lambda x: [],
    "constant keys": lambda x: {"a": x, "b": x, "c": x, "d": x},
    "merged dicts": lambda x: {**x, "n": 1},
    "merged lists": lambda x: [*x, 1],
    "merged tuples": lambda x: (*x, 1),
    "two arguments": lambda a, b: (a[0], a[1] + b[1]),
    "many arguments": lambda *xs, **more: [xs, more],
    "constant default": lambda x, n=3, *, name="a": {name: x[n]},
    "arithmetic": lambda x: -x[0] * 2 // 3 % 4**2 + (x[1] << 1 | 3),
    "slices": lambda x: [x[1:], x[::2], x[-1]],
    "text": lambda x: [f"{x[0]}-{x[1]!r:>10}", f"{x}"],
    "conditional": lambda x: {"n": x if x else -1},
    "chain of comparisons": lambda x: [1 < x < 10, x is None, not x],
    "walrus": lambda x: [(y := x["n"]), y * y],
    "list comprehension": lambda x: [y + 1 for y in x if y],
    "with a local": lambda x, k=2: [y * k for y in x],
    "nested comprehension": lambda x: [[z + 1 for z in y] for y in x],
    "dict comprehension": lambda x: {k: v * 2 for k, v in x.items()},
    "set comprehension": lambda x: {len(y) for y in x},
    "generator expression": lambda x: sum(y * x[0] for y in x),
    "any": lambda x: [any(y > 1 for y in x), all(x), tuple(y for y in x)],
    "builtins": lambda x: [
        len(x),
        int(x[0]),
        str(x),
        min(x),
        max(x, 1),
        round(x[1]),
        sorted(x),
        list(zip(x, x, strict=True)),
    ],
    "more builtins": lambda x: dict(enumerate(range(len(x)))),
    "is": lambda x: [isinstance(x, dict), type(x)],
    "sorted by": lambda x: sorted(x, key=lambda y: y[1]),
    "sorted by builtin": lambda x: sorted(x, key=len),
    "sorted by local": lambda x: sorted(x["parts"], key=lambda y: y[x["by"]]),
    "nested lambda": lambda x: lambda y: y,
    "methods of text": lambda x: x.strip().lower().split(",", 1),
    "methods with keywords": lambda x: x.split(sep=",", maxsplit=1),
    "join": lambda x: [",".join(x)],
    "methods of dicts": lambda x: {"n": x.get("n", 0), "all": list(x.values())},
    "json": lambda x: json.loads(x),
    "json by name": lambda x: loads(x),
    "json of a part": lambda x: json.loads(x["text"]),
    "calls in calls": lambda x: max(int(x["a"].strip()), len([*x, 1]), round(abs(x["b"]) * 2, ndigits=2)),
    "json of a call": lambda x: [json.loads(y) for y in x],
    "json.dumps": lambda x: json.dumps(x, sort_keys=True),
    "math": lambda x: [math.sqrt(x), math.pi],
    "re": lambda x: re.split("[,;]", x),
    "datetime": lambda x: [datetime.datetime.fromisoformat(x), timedelta(seconds=1)],
    "itemgetter": lambda x: sorted(x, key=len),
    "copy": lambda x: copy.deepcopy(x),
    "method that does not look at its object": Instance().without_itself,
    "class methods": lambda x: [str.upper(x), int.from_bytes(b"a", "big")],
    "dataclass": lambda x: Order(x["id"], n=x["n"]),
    "frozen dataclass": lambda x: Frozen(x["id"], x["n"]),
    "named tuple": lambda x: Pair(x["id"]),
    "branches": with_branches,
    "try": with_try,
    "match": with_match,
    "while": with_while,
    "raise": with_raise,
    "row": lambda x: [Row(x, 1), Row(a=x)],
    "tuple unpacking": lambda x: [[a, *b] for (a, *b) in x],
}


@pytest.mark.parametrize("n", [1, 2.5, "a", b"a", None, True, ("a", (1, None)), frozenset({1})])
def test_closures_over_constants(n: Any) -> None:
    assert keeps_nothing(around(n))
    assert keeps_nothing(pickle.loads(cloudpickle.dumps(around(n))))


@pytest.mark.parametrize("name", KEEP_NOTHING)
def test_keeps_nothing(name: str) -> None:
    assert keeps_nothing(KEEP_NOTHING[name])
    assert keeps_nothing(KEEP_NOTHING[name], may_change_arguments=True)


def writes_a_global(x: Any) -> Any:
    global LATER
    LATER = x
    return x


def imports(x: Any) -> Any:
    import json

    return json.loads(x)


def yields(x: Any) -> Iterator[Any]:
    yield [x]


def yields_from(x: Any) -> Iterator[Any]:
    yield from x


async def waits(x: Any) -> Any:
    return [x]


def shadowed(json: Any) -> Any:
    return json.loads("1")


def with_context(x: Any) -> Any:
    with x:
        return [1]


def keeps_in_itself(x: Any) -> Any:
    keeps_in_itself.last = x  # type: ignore[attr-defined]
    return x


def changes_a_cell(x: Any) -> Any:
    parts = []  # noqa: F841

    def add(y: Any) -> Any:
        return y

    return add(x)


def decorated_inside(x: Any) -> Any:
    @x
    def inner() -> int:
        return 1

    return inner


def makes_a_class(x: Any) -> Any:
    class Made:
        value = x

    return Made


def calls_a_local(x: Any) -> Any:
    f = x["f"]
    return [f(1)]


def matches_a_class(x: Any) -> Any:
    match x:
        case Order(id=name):
            return [name]
    return []


def closure() -> Callable[[Any], Any]:
    seen: list[Any] = []
    return lambda x: [seen, x]


def closure_over_a_number() -> Callable[[Any], Any]:
    n = 0

    def count(x: Any) -> Any:
        nonlocal n
        n = n + 1
        return [n]

    return count


def around(n: Any) -> Callable[[Any], Any]:
    """A function around a value."""
    return lambda x: [x[0] == n, [y for y in x if y != n], sorted(x, key=lambda y: y[n])]


def around_not_yet_set() -> Callable[[Any], Any]:
    def read(x: Any) -> Any:
        return [x, later]

    if RATE < 0:
        later = 1
    return read


def sets_from_within() -> Callable[[Any], Any]:
    n = 0

    def read(x: Any) -> Any:
        nonlocal n
        return [n := y for y in x], n

    return read


def deletes_from_within() -> Callable[[Any], Any]:
    n = 0

    def read(x: Any) -> Any:
        nonlocal n
        m = n
        del n
        return [m]

    return read


def traced(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(f)
    def wrapper(x: Any) -> Any:
        return f(x)

    return wrapper


@traced
def decorated(x: Any) -> Any:
    return x


MAY_KEEP: dict[str, Callable[..., Any]] = {
    "mutable default": lambda x, seen=[]: seen,
    "mutable default in a tuple": lambda x, seen=([],): seen,
    "mutable keyword default": lambda x, *, seen={}: seen,
    "unused mutable default": lambda x, seen=[]: 1,
    "default object": lambda x, order=Order("a"): order,  # noqa: B008
    "global list": lambda x: SHARED,
    "part of a global": lambda x: CACHE[x],
    "global cache": lambda x: CACHE.get(x),
    "global number": lambda x: x * RATE,
    "global not yet set": lambda x: LATER,
    "unknown global": lambda x: not_there,  # type: ignore[name-defined]  # noqa: F821
    "function of the user": lambda x: helper(x),
    "function of the user as a key": lambda x: sorted(x, key=helper),
    "global written": writes_a_global,
    "import": imports,
    "generator": yields,
    "generator delegating": yields_from,
    "coroutine": waits,
    "lambda that yields": lambda x: (yield x),
    "closure": closure(),
    "counter": closure_over_a_number(),
    "variable that is not set yet": around_not_yet_set(),
    "variable set in a comprehension": sets_from_within(),
    "variable deleted": deletes_from_within(),
    "closure over a list": around([1]),
    "closure over a list in a tuple": around((1, [])),
    "closure over a function": around(len),
    "closure over a class": around(Order),
    "attribute": lambda x: x.tags,
    "attribute deep in an expression": lambda x: {"n": [x.order.n]},
    "attribute of a class": lambda x: type(x).tags,
    "method of any class": lambda x: x.process(),
    "method that changes": lambda x: x.append(1),
    "bound method as a value": lambda x: sorted(x, key=x.rank),
    "function in a record": lambda x: x["f"](1),
    "argument that is called": lambda x: x(1),
    "function in a record as a key": lambda x: sorted(x["parts"], key=x["f"]),
    "function in a record as a first key": lambda x: sorted(x["parts"], key=x["f"], reverse=True),
    "function in a record as a hook": lambda x: json.loads(x["text"], object_hook=x["f"]),
    "function of a module or an argument": lambda x: (math.sqrt and x)(1),
    "function of a module or of a record": lambda x: (math.sqrt, x)[1](1),
    "builtin or an argument": lambda x: (len and x)(1),
    "builtin or a part": lambda x: [len, x[0]][1](1),
    "condition that is a builtin": lambda x: (x if len else x[0])(1),
    "dict of functions": lambda x: {len: x}[len](1),
    "result of a function of a module": lambda x: json.loads(x)(1),
    "result that is called": lambda x: type(x)(1),
    "argument named as a module": shadowed,
    "star call": lambda x: max(*x),
    "call with a dict": lambda x: dict(**x),
    "context manager": with_context,
    "kept in itself": keeps_in_itself,
    "nested function": changes_a_cell,
    "nested decorated function": decorated_inside,
    "nested default": lambda x: lambda y=x: y,
    "nested global": lambda x: [SHARED for _ in x],
    "nested global in a lambda": lambda x: sorted(x, key=lambda y: SHARED),
    "class": makes_a_class,
    "local called": calls_a_local,
    "class pattern": matches_a_class,
    "getattr": lambda x: getattr(x, "tags"),  # noqa: B009
    "vars": lambda x: vars(x),
    "globals": lambda x: globals(),
    "iter": lambda x: next(iter(x)),
    "map with a function of the record": lambda x: list(map(x["f"], x["parts"])),
    "module": lambda x: json,
    "module if": lambda x: (json if x else x).loads("1"),
    "module not known": lambda x: sys.intern(x),
    "function not known": lambda x: json.load(x),
    "chained module": lambda x: json.decoder.JSONDecoder(),
    "private of a class": lambda x: str.__subclasses__(),
    "class with __post_init__": lambda x: CountsItself(x),
    "class with an __init__": lambda x: WritesItsOwnInit(x),
    "class with a shared default": lambda x: SharedFactory(),
    "class with a metaclass": lambda x: Single(x),
    "class of the user": lambda x: SharesTags(),
    "counter class": lambda x: collections.Counter(x),
    "decorated": decorated,
    "lru_cache": functools.lru_cache(lambda x: [x]),
    "partial": functools.partial(lambda a, b: [a, b], 1),
    "callable instance": Instance(),
    "bound method": Instance().method,
    "bound method with its class": Instance().of_its_class,
    "bound method with a comprehension": Instance().in_a_lambda,
    "static method": Instance.static,
    "builtin": len,
    "type": list,
    "itemgetter": operator.itemgetter(1),
}


@pytest.mark.parametrize("name", MAY_KEEP)
def test_may_keep(name: str) -> None:
    assert not keeps_nothing(MAY_KEEP[name])


CHANGES_ARGUMENTS: dict[str, Callable[..., Any]] = {}


def changes(function: Callable[..., Any]) -> Callable[..., Any]:
    CHANGES_ARGUMENTS[function.__name__] = function
    return function


@changes
def sets_an_item(x: Any) -> Any:
    x["total"] = x["n"] * 2
    return x


@changes
def deletes_an_item(x: Any) -> Any:
    del x["n"]
    return x


@changes
def appends(x: Any) -> Any:
    x.append(1)
    return x


@changes
def adds_in_place(x: Any) -> Any:
    x += [1]
    return x


@changes
def sets_a_slice(x: Any) -> Any:
    x[1:] = [1]
    return x


@changes
def changes_what_it_made(x: Any) -> Any:
    made = dict(x)
    made["n"] = made.pop("m")
    return made


@pytest.mark.parametrize("name", CHANGES_ARGUMENTS)
def test_changes_of_arguments_are_told_from_keeping(name: str) -> None:
    assert not keeps_nothing(CHANGES_ARGUMENTS[name])
    assert keeps_nothing(CHANGES_ARGUMENTS[name], may_change_arguments=True)


def sets_an_item_of_a_global(x: Any) -> Any:
    CACHE["last"] = x
    return x


def appends_to_a_default(x: Any, seen: Any = []) -> Any:  # noqa: B006
    seen.append(x)
    return [x]


def sets_an_attribute(x: Any) -> Any:
    x.last = x
    return x


@pytest.mark.parametrize(
    "function", [sets_an_item_of_a_global, appends_to_a_default, sets_an_attribute, writes_a_global]
)
def test_changes_of_anything_else_are_never_allowed(function: Callable[..., Any]) -> None:
    assert not keeps_nothing(function, may_change_arguments=True)


def replaces_its_argument(x: Any) -> Any:
    x = x["order"]
    return x.tags


def reads_of_either(x: Any) -> Any:
    return (x if x else x["order"]).tags


@pytest.mark.parametrize(
    ("function", "kind", "expected"),
    [
        (lambda x: x.tags, Order, True),
        (lambda x: x.n, Order, True),  # the default is an attribute of the class, but a constant
        (lambda a, b: {"n": a.n + b.n}, Order, True),
        (lambda x: Order(x.id, x.n + 1, x.tags), Order, True),
        (lambda x: [x.id], Frozen, True),
        (lambda x: [x.key, x.count], Pair, True),
        (lambda x: x.id, SharesTags, True),
        (lambda x: x.tags, SharesTags, False),
        (lambda x: x.tags, ComputesTags, False),
        (lambda x: x.anything, AnswersAll, False),
        (lambda x: x.value, Colour, False),
        (lambda x: x.__class__, Order, False),
        (lambda x: x.tags.rest, Order, False),  # of which class x.tags is, nobody knows
        (lambda x: [y.tags for y in x], Order, False),
        (lambda x: sorted([x], key=lambda y: y.n), Order, False),
        (replaces_its_argument, Order, False),
        (reads_of_either, Order, False),
    ],
)
def test_attributes_are_read_of_known_classes(
    function: Callable[..., Any], kind: type, expected: bool
) -> None:
    assert keeps_nothing(function, kind) is expected


def test_trusted_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not keeps_nothing(lambda x: AnswersAll())
    monkeypatch.setattr(harmless, "TRUSTED_CLASSES", {AnswersAll})
    assert keeps_nothing(lambda x: AnswersAll())
    assert keeps_nothing(lambda x: x.anything, AnswersAll)
    assert not TRUSTED_CLASSES & {AnswersAll}


def test_a_builtin_that_was_replaced_is_not_the_builtin() -> None:
    function = types.FunctionType((lambda x: len(x)).__code__, {"len": helper})
    assert not keeps_nothing(function)
    function = types.FunctionType((lambda x: len(x)).__code__, {"__builtins__": {"len": helper}})
    assert not keeps_nothing(function)
    function = types.FunctionType((lambda x: len(x)).__code__, {})
    assert keeps_nothing(function)


def by_value(text: str, name: str) -> Any:
    """What a program defines, as a task gets it: pickled by value, because its module is not there."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "program.py", "exec"), namespace)
    return pickle.loads(cloudpickle.dumps(namespace[name]))


PROGRAM = """
import json, math
import datetime as dt
from dataclasses import dataclass, field
from json import loads
from typing import NamedTuple
from firesteel.common.types import Row

SEEN = []

@dataclass
class Order:
    id: str
    n: int = 1
    tags: list = field(default_factory=list)

@dataclass(frozen=True)
class Frozen:
    id: str

class Pair(NamedTuple):
    key: str
    n: int = 0

def make(n):
    return lambda x: [x[0] == n, len(x), max(x, key=lambda y: y[n])]

builtins_and_modules = lambda x: [len(x), json.loads(x), loads(x), math.pi, dt.datetime.fromtimestamp(1), isinstance(x, int)]
closure = make(3)
order = lambda x: Order(x["id"], n=2)
frozen = lambda x: Frozen(x)
pair = lambda x: Pair(x)
row = lambda x: Row(x, 1)
def raises(x):
    try:
        return int(x)
    except ValueError:
        raise KeyError(x) from None
remembers = lambda x: SEEN
changed = make([1])
"""


@pytest.mark.parametrize(
    "name", ["builtins_and_modules", "closure", "order", "frozen", "pair", "row", "raises"]
)
def test_functions_pickled_by_value(name: str) -> None:
    assert keeps_nothing(by_value(PROGRAM, name))


@pytest.mark.parametrize("name", ["remembers", "changed"])
def test_functions_pickled_by_value_that_may_keep(name: str) -> None:
    assert not keeps_nothing(by_value(PROGRAM, name))


def test_attributes_of_classes_pickled_by_value() -> None:
    kind = by_value(PROGRAM, "Order")
    assert kind.__module__ == "__main__"
    assert keeps_nothing(lambda x: [x.tags, x.n], kind)
    assert keeps_nothing(lambda x: [x.key, x.n], by_value(PROGRAM, "Pair"))


@pytest.mark.parametrize("name", KEEP_NOTHING)
def test_keeps_nothing_after_pickling_by_value(name: str) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        function = pickle.loads(cloudpickle.dumps(KEEP_NOTHING[name]))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert function.__globals__ is not globals()
    assert keeps_nothing(function)


def test_constants_that_can_change_are_none() -> None:
    """No compiler makes such code, but code can be made."""
    code = (lambda x: 17).__code__
    shared = code.replace(co_consts=tuple([] if value == 17 else value for value in code.co_consts))
    assert 17 in code.co_consts
    assert not keeps_nothing(types.FunctionType(shared, {}))


def test_dataclass_replace_may_run_code_of_any_class() -> None:
    assert not keeps_nothing(lambda x: dataclasses.replace(x, n=1))
