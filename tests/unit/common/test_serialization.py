import pickle
from io import BytesIO

import pytest

from firesteel.common import (
    ByteArraySchema,
    Encoder,
    Row,
    SimpleStringEncoder,
    SimpleStringSchema,
    Types,
    TypeSerializer,
)
from firesteel.common.errors import TypeMismatchError
from firesteel.common.serialization import RowDataBulkWriterFactory, RowFieldExtractorSchema


@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-1", "UTF-16"])
def test_string_schema_reads_what_it_writes(charset):
    schema = pickle.loads(pickle.dumps(SimpleStringSchema(charset)))
    assert schema.deserialize(schema.serialize("é")) == "é"
    assert schema.get_produced_type() == Types.STRING()


def test_string_schema_refuses_other_values():
    with pytest.raises(TypeMismatchError, match="map to str first"):
        SimpleStringSchema().serialize(5)


def test_byte_schema_passes_bytes_only():
    schema = ByteArraySchema()
    assert (schema.serialize(bytearray(b"a")), schema.deserialize(b"a")) == (b"a", b"a")
    with pytest.raises(TypeMismatchError):
        schema.serialize("a")


def test_field_extractor_takes_bytes_from_its_field():
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row(b"k", b"v")) == b"v"
    assert schema.serialize(Row(b"k", None)) is None
    with pytest.raises(TypeMismatchError, match="field 1: expected bytes, got 'v'"):
        schema.serialize(Row(b"k", "v"))


def test_field_extractor_refuses_a_negative_index():
    with pytest.raises(ValueError, match="Field index must be non-negative"):
        RowFieldExtractorSchema(-1)


@pytest.mark.parametrize(
    ("kind", "value", "line"),
    [
        (Types.ROW([Types.STRING(), Types.INT()]), Row("a", 1), b"+I[a, 1]\n"),
        (Types.DOUBLE(), 1e10, b"1.0E10\n"),
        (None, [1], b"[1]\n"),
    ],
)
@pytest.mark.parametrize("make", [Encoder.simple_string_encoder, SimpleStringEncoder])
def test_string_encoder_writes_javas_text_and_a_newline(make, kind, value, line):
    stream = BytesIO()
    make().bind(kind).encode(value, stream)
    assert stream.getvalue() == line
    assert isinstance(make("UTF-16"), SimpleStringEncoder)


def test_bulk_writer_factory_keeps_its_row_type():
    class Factory(RowDataBulkWriterFactory):
        def create(self, stream):
            raise NotImplementedError

    assert Factory("type").get_row_type() == "type"


def test_serializers_are_equal_by_class_and_settings():
    class Text(TypeSerializer[str]):
        def __init__(self, charset="utf-8"):
            self.charset = charset

        def serialize(self, element, stream):
            stream.write(element.encode(self.charset))

        def deserialize(self, stream):
            return stream.read().decode(self.charset)

    assert Text() == Text()
    assert hash(Text()) == hash(Text())
    assert Text() != Text("ascii")
    assert repr(Text()) == "Text()"


def test_what_a_subclass_makes_of_one_message_it_makes_of_many():
    class Shouted(SimpleStringSchema):
        def serialize(self, value):
            return super().serialize(value.upper())

        def deserialize(self, message):
            return super().deserialize(message).upper()

    assert Shouted().deserialize_batch([b"a", b"b"]) == ["A", "B"]
    assert Shouted().serialize_batch(["a", "b"]) == [b"A", b"B"]


def test_a_way_for_many_messages_that_comes_from_a_mixin_stays():
    class Many:
        def deserialize_batch(self, messages):
            return ["many"] * len(messages)

    class Mixed(Many, ByteArraySchema):
        def deserialize(self, message):
            return "one"

    assert Mixed().deserialize_batch([b"a"]) == ["many"]
