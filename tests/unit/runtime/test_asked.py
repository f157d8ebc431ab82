"""Who is asked about a record itself, and who about a copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import Any

import pytest

from firesteel.contracts.functions import KeySelector
from firesteel.datastream._key_selectors import key_of
from firesteel.runtime.asked import ByClass, asked, keeps_no_argument, lets_go, only_looks


class Field(KeySelector):
    def __init__(self, name: str) -> None:
        self.name = name

    def get_key(self, value: Any) -> Any:
        return value[self.name]


class Keeps(Field):
    last: Any = None

    def get_key(self, value: Any) -> Any:
        self.last = value
        return value[self.name]


class KeepsElsewhere(Field):
    last: Any = None

    def get_key(self, value: Any) -> Any:
        return self._kept(value)[self.name]

    def _kept(self, value: Any) -> Any:
        self.last = value
        return value


class OpensFirst(Field):
    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context

    def get_key(self, value: Any) -> Any:
        return value[self.name]


def double(value: Any) -> Any:
    return value["n"] * 2


SEEN: list[Any] = []


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r[0],
        lambda r: r["a"].lower(),
        lambda r: (r["a"], double(r)),
        itemgetter(0, 1),
        Field("a").get_key,
    ],
)
def test_who_only_looks_is_asked_directly(call: Any) -> None:
    assert only_looks(call)
    assert lets_go(call)
    assert asked(call) is call


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.pop("a"),
        lambda r: SEEN.append(r) or r["a"],
        Keeps("a").get_key,
        KeepsElsewhere("a").get_key,
        partial(lambda n, r: r[n], "a"),
        attrgetter("a"),
        lambda r: r.a.b,
        len,
    ],
)
def test_of_others_that_is_not_certain(call: Any) -> None:
    assert not only_looks(call)
    assert asked(call) is not call


def test_changing_is_not_keeping() -> None:
    def call(record: Any, before: int) -> int:
        record["t"] = 1
        return 1

    assert lets_go(call)
    assert not only_looks(call)


@dataclass
class Plain:
    name: str


@dataclass
class Caches:
    name: str

    @cached_property
    def upper(self) -> str:
        return self.name.upper()


def test_attributes_are_known_with_the_class() -> None:
    by_name, by_upper = asked(lambda r: r.name), asked(lambda r: r.upper)
    plain, caches = Plain("a"), Caches("a")
    assert (by_name(plain), by_name(caches), by_upper(caches)) == ("a", "a", "A")
    assert "upper" not in vars(caches)
    assert not only_looks(lambda r: r.name)
    assert only_looks(lambda r: r.name, Plain)


def test_attributes_of_an_object_that_is_opened_later() -> None:
    selector = OpensFirst("a")
    select = asked(selector.get_key)
    selector.open("b")
    assert select({"a": 1, "b": 2}) == 2


def test_the_parts_of_what_is_composed_are_asked_one_by_one() -> None:
    read = asked(key_of((itemgetter(0), lambda r: r.pop()), None, None).selector.load().selector)
    record = [1, 2, 3]
    assert read(record) == (1, 3)
    assert record == [1, 2, 3]


def test_an_answer_by_class() -> None:
    answer = ByClass(lambda kind: lets_go(lambda r: r.name, kind))
    assert answer([Plain("a"), Plain("b")])
    assert not answer([Plain("a"), Caches("b")])
    assert ByClass(lambda kind: True)([1, "a"])
    assert not ByClass(lambda kind: False)([1])


class Generator:
    latest = 0
    event: Any = None

    def on_event(self, event: Any, timestamp: int, output: Any) -> None:
        self.latest = max(self.latest, timestamp)

    def looks(self, event: Any, timestamp: int, output: Any) -> None:
        self.event = event

    def by_another_way(self, event: Any, timestamp: int, output: Any) -> None:
        self.event = locals()["event"]


def test_generators_that_never_look_at_the_event() -> None:
    generator = Generator()
    assert keeps_no_argument(generator.on_event)
    assert not keeps_no_argument(generator.looks)
    assert not keeps_no_argument(generator.by_another_way)
