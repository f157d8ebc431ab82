"""Avro: records with their own schema and with one of a registry, rows, and what does not fit."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import fastavro
import pytest

from firesteel.common import Row, Types
from firesteel.common.errors import (
    DeserializationError,
    InvalidArgumentError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from firesteel.datastream.formats.avro import (
    AvroRecordSchema,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    SchemaRegistry,
    SchemaRegistryError,
    avro_schema_of,
)
from firesteel_support.servers.schema_registry import FakeRegistry, fake_registry


@dataclass(frozen=True)
class Order:
    id: int
    note: str | None = None
    euros: float = 0.0


class OrderDict(TypedDict):
    id: int


class OrderTuple(NamedTuple):
    id: int
    note: str = "none"


OLD = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "x", "type": "string"}],
}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as running:
        yield running


@pytest.mark.parametrize("record", [Order(1, "x", 2.5), OrderTuple(3), {"id": 4}])
def test_objects_come_back(record: Any) -> None:
    kind = OrderDict if isinstance(record, dict) else type(record)
    schema = pickle.loads(pickle.dumps(AvroRecordSchema(kind)))
    assert schema == AvroRecordSchema(kind)
    found = schema.deserialize_batch(schema.serialize_batch([record]))
    assert found == [record]
    assert type(found[0]) is type(record)


def test_records_of_another_writer_are_read_by_avros_rules() -> None:
    writer = AvroRecordSchema(schema=OLD)
    reader = AvroRecordSchema(Order, writer_schema=json.dumps(OLD))
    assert reader.deserialize(writer.serialize({"id": 7, "x": "y"})) == Order(7, None, 0.0)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "the message ends too early"),
        (b"\x02\x02\x06a", "the message ends too early"),
        (AvroRecordSchema(Order).serialize(Order(1)) + b"zz", "2 bytes are left over behind the record"),
        (b"\x02\x09", "no valid Avro of Order"),
    ],
)
def test_bytes_that_are_no_record_are_refused(message: bytes, text: str) -> None:
    with pytest.raises(DeserializationError, match=text) as failure:
        AvroRecordSchema(Order).deserialize_batch([message])
    assert (failure.value.index, failure.value.message) == (0, message)


def test_values_that_do_not_fit_are_named() -> None:
    with pytest.raises(TypeMismatchError, match="expected Order, got 5"):
        AvroRecordSchema(Order).serialize(5)
    with pytest.raises(TypeMismatchError, match="Avro of Order") as failure:
        AvroRecordSchema(Order).serialize_batch([Order(1), Order("x")])  # type: ignore[arg-type]
    assert failure.value.index == 1


@dataclass
class Moment:
    at: datetime.datetime | None


def test_a_moment_needs_a_zone() -> None:
    schema = AvroRecordSchema(Moment)
    assert schema.deserialize(schema.serialize(Moment(None))) == Moment(None)
    with pytest.raises(TypeMismatchError, match="a datetime with a time zone"):
        schema.serialize(Moment(datetime.datetime(2026, 1, 1)))


def test_classes_without_an_avro_form_are_refused() -> None:
    @dataclass
    class Odd:
        value: complex

    with pytest.raises(
        InvalidArgumentError, match="field 'value' of Odd: Avro has no type for <class 'complex'>"
    ):
        avro_schema_of(Odd)
    with pytest.raises(InvalidArgumentError, match="a class with annotated fields"):
        avro_schema_of(int)
    with pytest.raises(InvalidArgumentError, match="needs a schema"):
        AvroRecordSchema()
    with pytest.raises(InvalidArgumentError, match="not an Avro schema"):
        AvroRecordSchema(schema={"type": "nothing"})


def test_a_schema_made_from_a_class_is_one_for_others_too() -> None:
    assert fastavro.parse_schema(avro_schema_of(Order))
    assert avro_schema_of(Order)["fields"][2] == {"name": "euros", "type": "double", "default": 0.0}


# With a registry ----------------------------------------------------------------------------------------


def test_messages_carry_the_number_of_their_schema(registry: FakeRegistry) -> None:
    schema = AvroRecordSchema(Order, registry=SchemaRegistry(registry.url), subject="orders-value")
    schema = pickle.loads(pickle.dumps(schema))
    messages = schema.serialize_batch([Order(1), Order(2)])
    assert all(message[:5] == b"\0\0\0\0\1" for message in messages)
    assert schema.deserialize_batch(messages) == [Order(1), Order(2)]
    assert json.loads(registry.schemas[1]) == avro_schema_of(Order)
    assert registry.asked == [
        "POST /subjects/orders-value/versions",
        "GET /schemas/ids/1",
    ]  # each is asked once


def test_readers_take_the_schema_that_each_message_names(registry: FakeRegistry) -> None:
    client = SchemaRegistry(registry.url)
    old = AvroRecordSchema(schema=OLD, registry=client, subject="orders-value")
    new = AvroRecordSchema(Order, registry=client, subject="orders-value")
    messages = [old.serialize({"id": 1, "x": "y"}), new.serialize(Order(2, "n", 3.0))]
    assert new.deserialize_batch(messages) == [Order(1), Order(2, "n", 3.0)]
    as_written = AvroRecordSchema(registry=client)
    assert as_written.deserialize_batch(messages) == [
        {"id": 1, "x": "y"}, {"id": 2, "note": "n", "euros": 3.0},
    ]  # fmt: skip


def test_a_schema_that_must_be_there_already_is_not_registered(registry: FakeRegistry) -> None:
    schema = AvroRecordSchema(
        Order, registry=SchemaRegistry(registry.url), subject="orders-value", register=False
    )
    with pytest.raises(SchemaRegistryError, match=r"refuses .*404 Schema not found"):
        schema.serialize(Order(1))
    number = registry.register("orders-value", json.dumps(avro_schema_of(Order)))
    assert schema.serialize(Order(1))[:5] == bytes([0, 0, 0, 0, number])


def test_messages_without_a_known_schema_are_bad_messages(registry: FakeRegistry) -> None:
    schema = AvroRecordSchema(Order, registry=SchemaRegistry(registry.url))
    with pytest.raises(
        DeserializationError, match=r"expected a zero byte and the number of a schema.*got 123 as its first"
    ):
        schema.deserialize(b'{"id": 1}')
    with pytest.raises(DeserializationError, match="got 2 bytes"):
        schema.deserialize(b"\0\0")
    with pytest.raises(DeserializationError, match=r"number 99, which SchemaRegistry.* does not know"):
        schema.deserialize(b"\0\0\0\0\x63\2")


def test_a_registry_that_does_not_answer_is_no_bad_message(registry: FakeRegistry) -> None:
    schema = AvroRecordSchema(Order, registry=SchemaRegistry(registry.url))
    registry.is_down = True
    with pytest.raises(SchemaRegistryError, match=r"does not answer: .*503"):
        schema.deserialize_batch([b"\0\0\0\0\1\2"])
    registry.is_down = False
    registry.register("orders-value", json.dumps(avro_schema_of(Order)))
    assert schema.deserialize(b"\0\0\0\0\1\2\0" + bytes(8)) == Order(1)


def test_the_next_address_is_asked_when_one_does_not_answer(registry: FakeRegistry) -> None:
    client = SchemaRegistry(f"http://127.0.0.1:9, {registry.url}/", user="ada", password="secret")
    assert client.id_of("s", "string") == 1
    assert "secret" not in repr(client)


def test_writing_with_a_registry_needs_a_subject(registry: FakeRegistry) -> None:
    with pytest.raises(InvalidArgumentError, match="subject='orders-value'"):
        AvroRecordSchema(Order, registry=SchemaRegistry(registry.url)).serialize(Order(1))
    with pytest.raises(InvalidArgumentError, match="leave writer_schema out"):
        AvroRecordSchema(Order, writer_schema=OLD, registry=SchemaRegistry(registry.url))


# Rows ---------------------------------------------------------------------------------------------------

ROWS = json.dumps({
    "type": "record", "name": "Reading", "fields": [
        {"name": "n", "type": "int"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]}},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "m", "type": {"type": "map", "values": "Inner"}},
        {"name": "raw", "type": "bytes"},
    ],
})  # fmt: skip


def test_rows_come_back_with_the_types_that_flink_has_for_them() -> None:
    write = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=ROWS)))
    read = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=ROWS)))
    row = Row(
        n=1, at=datetime.datetime(2026, 1, 2, 3, 4, 5, 6000), day=datetime.date(2026, 1, 2), price=Decimal("1.50"),
        tags=["a"], inner=Row(x=0.5), color="RED", m={"k": Row(x=1.5)}, raw=b"z",
    )  # fmt: skip
    assert read.deserialize_batch(write.serialize_batch([row, Row(*row)])) == [row, row]
    kinds = read.get_produced_type().get_field_types()
    assert kinds[:4] == [Types.INT(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), Types.BIG_DEC()]
    assert kinds[5] == Types.ROW_NAMED(["x"], [Types.DOUBLE()])


def test_rows_refuse_classes_of_java_and_rows_that_do_not_fit() -> None:
    with pytest.raises(UnsupportedOperationError, match="there is no Java here"):
        AvroRowDeserializationSchema(record_class="org.example.Order")
    with pytest.raises(InvalidArgumentError, match="one of a record"):
        AvroRowDeserializationSchema(avro_schema_string='"string"')
    with pytest.raises(InvalidArgumentError, match="as a text of JSON"):
        AvroRowSerializationSchema()
    simple = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'
    with pytest.raises(TypeMismatchError, match="field 'n'"):
        AvroRowSerializationSchema(avro_schema_string=simple).serialize(Row("x"))
