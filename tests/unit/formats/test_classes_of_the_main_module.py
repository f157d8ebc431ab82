"""Classes of a program's main module travel by value; what formats learn of them must not be in the way."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from dataclasses import dataclass
from typing import NamedTuple, TypedDict
import cloudpickle, msgspec
from firesteel.datastream.formats.avro import AvroRecordSchema, AvroSerializer
from firesteel.datastream.formats.csv import CsvRecordSchema
from firesteel.datastream.formats.json import JsonSchema

@dataclass(frozen=True)
class Item:
    sku: str
    count: int = 1

@dataclass
class Order:
    items: list[Item]
    best: Item | None = None

class Pair(NamedTuple):
    x: int

class Named(TypedDict):
    x: int

for schema, value in [
    (JsonSchema(Order), Order([Item("a")])),
    (AvroRecordSchema(Order), Order([Item("a")])),
    (CsvRecordSchema(Item), Item("a")),
    (JsonSchema(Pair), Pair(1)),
    (AvroRecordSchema(Pair), Pair(1)),
    (CsvRecordSchema(Pair), Pair(1)),
    (JsonSchema(Named), {"x": 1}),
    (AvroRecordSchema(Named), {"x": 1}),
]:
    assert schema.deserialize(schema.serialize(value)) == value
    copied = cloudpickle.loads(cloudpickle.dumps((schema, Order, Item, Pair, Named)))[0]
    assert copied.deserialize(schema.serialize(value)) == value
    cloudpickle.dumps((schema, Order, Item, Pair, Named))
print("all travel")
"""


def test_schemas_and_their_classes_are_pickled_by_value_before_and_after_use() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("all travel\n", "")
