"""Records of every shape, for programs that change what they have emitted: numbers, lists, rows, dataclasses and more.

Whatever its shape, a record has a *key* (one of four letters), a *number*, and mostly *parts*: a list, with a list in it,
that can be changed in place. The functions of random programs know records only by what is in this module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from firesteel.common import Row

__all__ = ["KEYS", "SHAPES", "change", "key_of", "made", "number_of", "parts_of", "shown"]

KEYS = "abcd"
_MOST_PARTS = 5  # lists in records stay short, however long a program goes on appending to them


@dataclass
class Plain:
    """A dataclass as most are."""

    key: str
    number: int
    parts: list[Any]


@dataclass(slots=True)
class Slotted:
    """A dataclass without a dictionary of attributes."""

    key: str
    number: int
    parts: list[Any]


@dataclass(frozen=True)
class Frozen:
    """A dataclass that cannot change, with a list in it that can."""

    key: str
    number: int
    parts: list[Any]


class Named(NamedTuple):
    """A named tuple with a list in it."""

    key: str
    number: int
    parts: list[Any]


class Own:
    """A class of the user's own, nothing special."""

    def __init__(self, key: str, number: int, parts: list[Any]) -> None:
        self.key = key
        self.number = number
        self.parts = parts


def _shared(key: str, number: int, parts: list[Any]) -> dict[str, Any]:
    """One list under two names: who changes it under one must find it changed under the other."""
    return {"key": key, "number": number, "parts": parts, "same parts": parts}


#: How a record of each shape is made of a key, a number and parts.
SHAPES: dict[str, Callable[[str, int, list[Any]], Any]] = {
    "int": lambda key, number, parts: number * len(KEYS) + KEYS.index(key),
    "str": lambda key, number, parts: f"{key}{number}",
    "pair": lambda key, number, parts: (key, number),
    "tuple": lambda key, number, parts: (key, number, parts),
    "list": lambda key, number, parts: [key, number, parts],
    "dict": lambda key, number, parts: {"key": key, "number": number, "parts": parts},
    "shared": _shared,
    "set": lambda key, number, parts: {key, number},
    "buffer": lambda key, number, parts: bytearray(f"{key}{number}".encode()),
    "deque": lambda key, number, parts: deque([key, number, parts]),
    "array": lambda key, number, parts: np.array([KEYS.index(key), number]),
    "row": lambda key, number, parts: Row(key=key, number=number, parts=parts),
    "plain": Plain,
    "slotted": Slotted,
    "frozen": Frozen,
    "named": Named,
    "own": Own,
}


def made(shape: str, key: str, number: int, parts: list[Any] | None = None) -> Any:
    """A record of a shape; the list is put into it, not copied."""
    return SHAPES[shape](key, number, [[number], number] if parts is None else parts)


def key_of(record: Any) -> str:
    """The record's key."""
    key: str
    match record:
        case int():
            key = KEYS[record % len(KEYS)]
        case str() | tuple() | list() | deque() | Row():
            key = record[0]
        case bytearray():
            key = chr(record[0])
        case np.ndarray():
            key = KEYS[int(record[0])]
        case dict():
            key = record["key"]
        case set():
            key = next(part for part in record if isinstance(part, str))
        case _:
            key = record.key
    return key


def number_of(record: Any) -> int:
    """The record's number."""
    number: int
    match record:
        case int():
            number = record // len(KEYS)
        case str() | bytearray():
            number = int(record[1:])
        case np.ndarray():
            number = int(record[1])
        case tuple() | list() | deque() | Row():
            number = record[1]
        case dict():
            number = record["number"]
        case set():
            number = sum(part for part in record if isinstance(part, int))
        case _:
            number = record.number
    return number


def parts_of(record: Any) -> list[Any]:
    """The list in a record, the very object; a new one when the shape has none."""
    parts: list[Any]
    match record:
        case int() | str() | set() | bytearray() | np.ndarray():
            parts = [number_of(record)]
        case tuple() | list() | deque() | Row():
            parts = record[2] if len(record) > 2 else [record[1]]
        case dict():
            parts = record["parts"]
        case _:
            parts = record.parts
    return parts


def change(record: Any, by: int) -> Any:
    """The record, changed in place as far as its shape can be changed; another one where nothing of it can."""
    match record:
        case int():
            return record + len(KEYS) * by
        case str():
            return f"{key_of(record)}{number_of(record) + by}"
        case set():
            record.add(max(part for part in record if isinstance(part, int)) + by + 1)
            if len(record) > _MOST_PARTS:
                record.discard(min(part for part in record if isinstance(part, int)))
            return record
        case bytearray():
            record[1:] = str(number_of(record) + by).encode()
            return record
        case np.ndarray():
            record[1] += by
            return record
        case (key, number):
            return key, number + by
        case tuple() | Frozen():
            pass
        case list() | deque() | Row():
            record[1] += by
        case dict():
            record["number"] += by
        case _:
            record.number += by
    append(parts_of(record), by)
    return record


def append(parts: list[Any], item: Any) -> None:
    """Put something into a record's list, and into the list within it; both stay short."""
    parts.append(item)
    if isinstance(parts[0], list):
        parts[0].append(item)
        del parts[0][:-_MOST_PARTS]
        del parts[1 : -_MOST_PARTS + 1]
    else:
        del parts[:-_MOST_PARTS]


def shown(value: Any) -> str:
    """The value with all its types, as text: two are the same exactly when their texts are."""
    match value:
        case bool() | int() | str() | bytearray() | None:
            return repr(value)
        case np.ndarray():
            return f"array({value.dtype}, {value.tolist()})"
        case deque():
            return "deque(" + ", ".join(map(shown, value)) + ")"
        case set():
            return "{" + ", ".join(sorted(map(shown, value))) + "}"
        case dict():
            return "{" + ", ".join(f"{key!r}: {shown(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(shown, value)) + "]"
        case Row():
            return "Row(" + ", ".join(map(shown, value)) + ")"
        case tuple():
            name = "" if type(value) is tuple else type(value).__name__
            return name + "(" + ", ".join(map(shown, value)) + ")"
    parts = [getattr(value, f.name) for f in fields(value)] if is_dataclass(value) else vars(value).values()
    return f"{type(value).__name__}(" + ", ".join(map(shown, parts)) + ")"
