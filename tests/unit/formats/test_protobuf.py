"""Protobuf messages of generated classes, and of classes that were made while the program runs."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from firesteel.common.errors import DeserializationError, TypeMismatchError, WrongArgumentError
from firesteel.datastream.formats.protobuf import ProtobufSchema
from firesteel.testing import simulated_environment


def made_while_running() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=5, label=2)
    order.field.add(name="at", number=2, type=11, type_name=".google.protobuf.Timestamp", label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


@pytest.mark.parametrize("kind", [timestamp_pb2.Timestamp, made_while_running()], ids=["generated", "made"])
def test_schemas_travel(kind: Any) -> None:
    schema = ProtobufSchema(kind)
    copied = pickle.loads(pickle.dumps(schema))
    assert copied == schema
    message = b"\x08\x05"
    assert copied.serialize(copied.deserialize(message)) == message
    assert copied.deserialize_batch([message, None]) == [copied.deserialize(message), None]


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(DeserializationError, match=r"Protobuf of google.protobuf.Timestamp") as failure:
        ProtobufSchema(timestamp_pb2.Timestamp).deserialize_batch([b"\x08\x05", b"\xff\xff"])
    assert failure.value.index == 1
    with pytest.raises(DeserializationError, match="required fields are missing: id"):
        ProtobufSchema(made_while_running()).deserialize(b"")


def test_other_objects_are_not_written() -> None:
    with pytest.raises(TypeMismatchError, match=r"expected google.protobuf.Timestamp, got 5"):
        ProtobufSchema(timestamp_pb2.Timestamp).serialize(5)
    order = made_while_running()
    with pytest.raises(TypeMismatchError, match="required fields are missing"):
        ProtobufSchema(order).serialize(order())
    with pytest.raises(WrongArgumentError, match="protoc"):
        ProtobufSchema(int)


def test_messages_go_through_a_job() -> None:
    env = simulated_environment()
    schema = ProtobufSchema(timestamp_pb2.Timestamp)
    stamps = env.from_collection([b"\x08\x05", b"\x08\x07"]).map(schema.deserialize)
    keyed = stamps.key_by(lambda stamp: stamp.seconds).map(lambda stamp: stamp)
    with keyed.map(schema.serialize).execute_and_collect() as results:
        assert sorted(results) == [b"\x08\x05", b"\x08\x07"]
