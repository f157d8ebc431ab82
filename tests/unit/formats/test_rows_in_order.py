"""Rows of a stream that has no names for its fields go into messages in their order, as in Flink."""

from __future__ import annotations

import json

from firesteel.common import Row, Types
from firesteel.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from firesteel.datastream.formats.csv import CsvRowSerializationSchema
from firesteel.datastream.formats.json import JsonRowSerializationSchema

UNNAMED = Row(f0=1, f1="one")
NAMED = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
AVRO = '{"type": "record", "name": "Person", "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}'


def test_avro() -> None:
    message = AvroRowSerializationSchema(avro_schema_string=AVRO).serialize(UNNAMED)
    assert AvroRowDeserializationSchema(avro_schema_string=AVRO).deserialize(message) == Row(id=1, name="one")


def test_json() -> None:
    schema = JsonRowSerializationSchema.builder().with_type_info(NAMED).build()
    assert json.loads(schema.serialize(UNNAMED)) == {"id": 1, "name": "one"}


def test_csv() -> None:
    assert CsvRowSerializationSchema.Builder(NAMED).build().serialize(UNNAMED) == b"1,one\n"


def test_names_that_somebody_has_chosen_count() -> None:
    schema = JsonRowSerializationSchema.builder().with_type_info(NAMED).build()
    assert json.loads(schema.serialize(Row(name="one", id=1))) == {"id": 1, "name": "one"}
