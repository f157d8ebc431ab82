"""Every field that a real Flink answers is in our answers, under its name and with a type that its clients expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firesteel.rest.schemas import COMPONENTS, Schema, array, reference

SHAPES = Path(__file__).with_name("flink_shapes.txt")
#: Not there, and why is on the page of the interface: Java's objects, and figures of Java's memory.
LEFT_OUT = {
    ("TaskManager", "metrics"),
    ("ExecutionResult", "serialized-throwable"),
    ("SavepointStatus", "serialized-throwable"),
    ("DisposalStatus", "serialized-throwable"),
}

Line = tuple[str, tuple[str, ...], set[str]]


def lines() -> list[Line]:
    found = []
    for line in SHAPES.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            shape, place, types = line.split(" ")
            found.append(
                (
                    shape,
                    tuple(part for part in place.split("/") if part not in ("", ".")),
                    set(types.split("|")),
                )
            )
    return found


def schemas_at(schema: Schema, place: tuple[str, ...]) -> list[Schema]:
    """What may stand at a place; none where nothing may."""
    if "$ref" in schema:
        return schemas_at(COMPONENTS[schema["$ref"].rpartition("/")[2]], place)
    if "anyOf" in schema:
        return [found for each in schema["anyOf"] for found in schemas_at(each, place)]
    if not place:
        return [schema]
    head, *rest = place
    if head == "[]":
        inner = schema.get("items")
    else:
        inner = schema.get("properties", {}).get(head) or schema.get("additionalProperties")
    return schemas_at(inner, tuple(rest)) if isinstance(inner, dict) else []


def allows(schema: Schema, kind: str) -> bool:
    if kind == "NaN":
        return schema.get("enum") == ["NaN"]
    if kind == "integer":
        return schema["type"] in ("integer", "number")
    return bool(schema["type"] == kind)


def root(shape: str) -> Schema:
    if shape == "ConfigurationEntries":
        return array(reference("ConfigurationEntry"))
    return COMPONENTS[shape]


@pytest.mark.parametrize("shape", sorted({line[0] for line in lines()}))
def test_what_flink_answers_fits_into_what_we_promise(shape: str) -> None:
    problems: list[Any] = []
    for name, place, kinds in lines():
        if name != shape or any((shape, part) in LEFT_OUT for part in place):
            continue
        allowed = schemas_at(root(shape), place)
        problems += [(place, kind) for kind in kinds if not any(allows(each, kind) for each in allowed)]
    assert problems == []
