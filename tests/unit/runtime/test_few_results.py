"""Functions that give few results, and none with a tag."""

from __future__ import annotations

import math
from typing import Any

import pytest

from firesteel.contracts.functions import KeyedProcessFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.runtime.few_results import gives_few, never_tags

LATE = OutputTag("late")
TABLE = {"late": [LATE]}
NUMBERS = {"a": [1, 2]}


def one(value: Any) -> Any:
    yield value


def branches(value: Any) -> Any:
    if value:
        yield value
    else:
        yield 0


def loop(value: Any) -> Any:
    while value:
        yield value
        value -= 1


def delegates(value: Any) -> Any:
    yield from value


@pytest.mark.parametrize(
    ("function", "few"),
    [
        (one, True),
        (branches, True),
        (loop, False),
        (delegates, False),
        (lambda value: [value], False),
        (len, False),
    ],
)
def test_only_generators_without_loops_give_few(function: Any, few: bool) -> None:
    assert gives_few(function) is few


class Plain(KeyedProcessFunction):
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield math.sqrt(value), NUMBERS


class OfModule(Plain):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield LATE, value


class InTable(Plain):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield TABLE["late"][0], value


class InHelper(Plain):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.tagged(value)

    def tagged(self, value: Any) -> Any:
        return next((LATE, part) for part in value)


class OfClass(Plain):
    late = LATE


class Made(Plain):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield OutputTag("late"), value


@pytest.mark.parametrize(
    ("function", "never"),
    [
        (Plain(), True),
        (Plain(limit=3, names=["a"], by_name={"a": (1, 2)}), True),
        (Plain(tag=LATE), False),
        (Plain(tags={"late": LATE}), False),
        (Plain(other=object()), False),
        (Plain(other=Plain(tag=LATE)), False),
        (OfModule(), False),
        (InTable(), False),
        (InHelper(), False),
        (OfClass(), False),
        (Made(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_tags_that_a_function_can_reach(function: Any, never: bool) -> None:
    assert never_tags(function.process_element) is never


def test_tags_in_closures_and_defaults() -> None:
    def closing(tag: Any) -> Any:
        def tagged(value: Any) -> Any:
            yield tag, value

        return tagged

    assert not never_tags(closing(LATE))
    assert never_tags(closing("late"))

    def defaulting(value: Any, tag: Any = LATE) -> Any:
        yield tag, value

    assert not never_tags(defaulting)
    assert not never_tags(len)
