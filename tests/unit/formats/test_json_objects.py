"""JSON as objects of classes, and as plain dicts and lists."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import msgspec
import numpy as np
import pytest

from firesteel.common import Row, Types
from firesteel.common.errors import DeserializationError, InvalidArgumentError, TypeMismatchError
from firesteel.datastream.formats.json import JsonSchema


@dataclass(frozen=True)
class Item:
    sku: str
    count: int


@dataclass
class Order:
    id: int
    items: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.id < 0:
            raise ValueError("id should not be negative")


class OrderDict(TypedDict):
    id: int
    note: str | None


class OrderTuple(NamedTuple):
    id: int
    note: str = "none"


class OrderStruct(msgspec.Struct, forbid_unknown_fields=True):
    id: int


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        (Order, b'{"id": 1, "items": [{"sku": "tea", "count": 2}]}', Order(1, [Item("tea", 2)])),
        (Order, b'{"id": 1, "unknown": 2}', Order(1)),
        (OrderDict, b'{"id": 1, "note": null}', {"id": 1, "note": None}),
        (OrderTuple, b'{"id": 1}', OrderTuple(1)),
        (OrderStruct, b'{"id": 1}', OrderStruct(1)),
        (list[Item], b'[{"sku": "a", "count": 1}]', [Item("a", 1)]),
        (None, b'{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        (Types.ROW_NAMED(["id"], [Types.INT()]), b'{"id": "1"}', Row(id=1)),
    ],
)
def test_messages_become_objects_and_messages_again(kind: Any, message: bytes, expected: Any) -> None:
    schema = pickle.loads(pickle.dumps(JsonSchema(kind)))
    assert schema == JsonSchema(kind)
    found = schema.deserialize(message)
    assert found == expected
    assert type(found) is type(expected)
    assert schema.deserialize_batch([message, message]) == [expected, expected]
    assert schema.deserialize_batch(schema.serialize_batch([expected])) == [expected]


@pytest.mark.parametrize(
    ("kind", "message", "reason", "path"),
    [
        (Order, b'{"id": "x"}', "expected int, got str", "id"),
        (Order, b"{}", "object missing required field id", ""),
        (
            Order,
            b'{"id": 1, "items": [{"sku": "a", "count": null}]}',
            "expected int, got null",
            "items[0].count",
        ),
        (Order, b'{"id": -1}', "id should not be negative", ""),
        (OrderTuple, b'{"id": []}', "expected int, got array", "id"),
        (OrderStruct, b'{"id": 1, "x": 2}', "object contains unknown field x", ""),
        (None, b"", "the message is empty", ""),
        (None, b'{"a"', "the message ends too early", ""),
    ],
)
def test_errors_say_what_and_where(kind: Any, message: bytes, reason: str, path: str) -> None:
    with pytest.raises(DeserializationError) as failure:
        JsonSchema(kind).deserialize_batch([b'{"id": 1}', message] if kind else [b"1", message])
    error = failure.value
    assert (error.reason, error.path, error.index, error.message) == (reason, path, 1, message)


@dataclass
class Page:
    path: str
    ms: int = 0
    items: list[Item] = field(default_factory=list)
    best: Item | None = None


@dataclass(frozen=True)
class Visit:
    pages: dict[str, Page]
    first: Page | None = None
    user: str = "nobody"


def test_objects_have_their_defaults_themselves() -> None:
    visit = JsonSchema(Visit).deserialize(b'{"pages": {"a": {"path": "/a", "items": []}}}')
    expected = Visit({"a": Page("/a")})
    assert visit == expected
    assert list(vars(visit).items()) == list(vars(expected).items())
    assert list(vars(visit.pages["a"]).items()) == list(vars(expected.pages["a"]).items())
    assert JsonSchema(Visit).serialize(visit) == JsonSchema(Visit).serialize(expected)
    (same,) = JsonSchema(Visit).deserialize_batch([b'{"pages": {"a": {"path": "/a"}}}'])
    assert vars(same.pages["a"]) == vars(expected.pages["a"])


def test_errors_of_syntax_have_the_byte() -> None:
    with pytest.raises(DeserializationError, match=r"invalid character \(byte 6\)") as failure:
        JsonSchema().deserialize(b'{"a": x}')
    assert failure.value.position == 6


def test_texts_may_be_numbers_if_the_program_says_so() -> None:
    assert JsonSchema(Order, strict=False).deserialize(b'{"id": "5"}') == Order(5)


def test_lines_of_text_are_messages_too() -> None:
    assert JsonSchema(Item).deserialize('{"sku": "é", "count": 1}') == Item("é", 1)  # type: ignore[arg-type]


def test_a_message_that_is_not_there_gives_no_record() -> None:
    assert JsonSchema(Item).deserialize_batch([None, b'{"sku": "a", "count": 1}']) == [None, Item("a", 1)]  # type: ignore[list-item]


def test_rows_and_numpy_are_written_without_a_class() -> None:
    value = {"row": Row(a=1), "count": np.int32(3), "array": np.array([1.5, 2])}
    assert JsonSchema().serialize(value) == b'{"row":{"a":1},"count":3,"array":[1.5,2.0]}'


def test_what_cannot_be_written_is_named() -> None:
    with pytest.raises(TypeMismatchError, match=r"expected Item, got 5 \(int\)") as failure:
        JsonSchema(Item).serialize_batch([Item("a", 1), 5])
    assert failure.value.index == 1
    with pytest.raises(TypeMismatchError, match=r"what JSON can have.*object objects have no form in JSON"):
        JsonSchema().serialize({"a": object()})


def test_classes_that_json_cannot_have_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="row type"):
        JsonSchema(Types.INT())
    with pytest.raises(InvalidArgumentError, match="cannot read the class"):
        JsonSchema(dict[complex, "Nowhere"])  # type: ignore[name-defined]  # noqa: F821
