"""CSV, JSON lines, Avro, Parquet and ORC files: what is read, and what is said about what cannot be."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import cloudpickle
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from firesteel.common._override import override
from firesteel.common.errors import (
    FileContentError,
    InvalidArgumentError,
    ProgramError,
    TypeMismatchError,
    WrongArgumentError,
)
from firesteel.common.serialization import BulkWriterFactory
from firesteel.common.typeinfo import Types
from firesteel.common.types import Row
from firesteel.connectors.files.formats import FileFormat
from firesteel.connectors.files.reader import _OpenSplit
from firesteel.connectors.files.splits import FileSplit
from firesteel.datastream.connectors.file_system import FileSource, StreamFormat
from firesteel.datastream.formats.avro import AvroBulkWriters, AvroReaderFormat, AvroSchema
from firesteel.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema, CsvSchemaBuilder
from firesteel.datastream.formats.json import JsonBulkWriters, JsonReaderFormat
from firesteel.datastream.formats.orc import OrcColumnarRowInputFormat
from firesteel.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from firesteel.table import DataTypes


@dataclass(frozen=True)
class Person:
    name: str
    age: int = 7


class PersonTuple(NamedTuple):
    name: str
    age: int


class PersonDict(TypedDict):
    name: str
    age: int


class Outer(NamedTuple):
    person: Person
    others: list[Person]


PERSON = DataTypes.ROW([DataTypes.FIELD("name", DataTypes.STRING()), DataTypes.FIELD("age", DataTypes.INT())])
PERSON_INFO = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
AVRO = AvroSchema.parse_string(
    '{"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]}'
)


def read(file_format: FileFormat, path: Path) -> list[Any]:
    return [
        value for block in file_format.blocks(FileSplit(str(path), 0, math.inf)) for value in block.values
    ]


def written(factory: BulkWriterFactory, records: list[Any], path: Path) -> Path:
    with path.open("wb") as file:
        writer = factory.create(file)
        if records:
            writer.add_elements(records)
        writer.flush()
        writer.finish()
    return path


# CSV: what Flink 2.3 reads, it reads ------------------------------------------------------------------


def columns() -> CsvSchemaBuilder:
    return (
        CsvSchema.builder()
        .add_number_column("id", DataTypes.INT())
        .add_string_column("name")
        .add_boolean_column("ok")
        .add_array_column("l", ";", DataTypes.INT())
        .add_number_column("d", DataTypes.DOUBLE())
    )


def row(*values: Any) -> Row:
    return Row._make(values, ("id", "name", "ok", "l", "d"))


Change = Callable[[CsvSchemaBuilder], CsvSchemaBuilder]


@pytest.mark.parametrize(
    ("change", "text", "rows"),
    [
        (
            lambda b: b,
            '1,a,true,1;2,0.5\n2,"b,""x""",false,,1e3\n',
            [row(1, "a", True, [1, 2], 0.5), row(2, 'b,"x"', False, [], 1000.0)],
        ),
        (lambda b: b, "1,,true,1,1\n", [row(1, "", True, [1], 1.0)]),
        (lambda b: b, " 1 , a , true , 1 ; 2 , 2 \n", [row(1, " a ", True, [1, 2], 2.0)]),
        (
            lambda b: b.set_null_value("NULL"),
            'NULL,NULL,NULL,NULL,NULL\n1,"NULL",true,NULL;1,1\n',
            [row(None, None, None, [None], None), row(1, None, True, [None, 1], 1.0)],
        ),
        (lambda b: b.set_null_value(""), ',"",,,\n', [row(None, None, None, [], None)]),
        (lambda b: b.set_allow_comments(), "#hi\n1,a#b,true,1,1\n # x\n", [row(1, "a#b", True, [1], 1.0)]),
        (lambda b: b, '1,a"b"c,true,1,1\n', [row(1, 'a"b"c', True, [1], 1.0)]),
        (lambda b: b.set_skip_first_data_row(), "h,h,h\n1,a,true,1,1\n", [row(1, "a", True, [1], 1.0)]),
        (lambda b: b.set_escape_char("\\"), '1,a\\,b\\n\\"q,true,1,1\n', [row(1, 'a,b\n"q', True, [1], 1.0)]),
        (lambda b: b.set_any_property_name("rest"), "1,a,true,1,1,9\n", [row(1, "a", True, [1], 1.0)]),
        (
            lambda b: b,
            "1,a,true,1,1\r2,b,true,1,1\r\n",
            [row(1, "a", True, [1], 1.0), row(2, "b", True, [1], 1.0)],
        ),
        (lambda b: b, '1,"a\nb",true,1,1\n', [row(1, "a\nb", True, [1], 1.0)]),
        (lambda b: b.set_column_separator("|"), "1|a,b|true|1|1", [row(1, "a,b", True, [1], 1.0)]),
        (lambda b: b.set_quote_char("'"), "1,'a,b',true,1,1", [row(1, "a,b", True, [1], 1.0)]),
        (lambda b: b.disable_quote_char(), '1,"a",true,1,1', [row(1, '"a"', True, [1], 1.0)]),
        (
            lambda b: b.set_use_header(),
            "d,name,id,extra,ok,l\n1,a,1,?,true,1\n",
            [row(1, "a", True, [1], 1.0)],
        ),
        (lambda b: b.set_use_header(), "\ufeffid,name,ok,l,d\n1,a,true,1,1\n", [row(1, "a", True, [1], 1.0)]),
        (lambda b: b, "\n1,a,true,1,1\n\n", [row(1, "a", True, [1], 1.0)]),
    ],
)
def test_csv_is_read_as_flink_reads_it(tmp_path: Path, change: Change, text: str, rows: list[Row]) -> None:
    (tmp_path / "file").write_bytes(text.encode())
    assert read(CsvReaderFormat.for_schema(change(columns()).build()), tmp_path / "file") == rows


@pytest.mark.parametrize(
    ("change", "text", "error"),
    [
        (lambda b: b, "1,a\n", "line 1 (byte 0): expected 5 values, got 2; it reads '1,a'"),
        (lambda b: b, "1,a,true,1,1,9\n", "line 1 (byte 0): expected 5 values, got 6"),
        (lambda b: b, "1,é,true,1,1\n,a,true,1,1\n", "line 2 (byte 14): column 'id': expected INT, got ''"),
        (lambda b: b, "1,a,true,1,\n", "column 'd': expected DOUBLE, got ''"),
        (lambda b: b, "x,a,true,1,1\n", "column 'id': expected INT, got 'x'; it reads 'x,a,true,1,1'"),
        (lambda b: b, "2147483648,a,true,1,1\n", "column 'id': expected INT, got '2147483648'"),
        (lambda b: b, "0x1F,a,true,1,1\n", "column 'id': expected INT, got '0x1F'"),
        (lambda b: b, "1_0,a,true,1,1\n", "column 'id': expected INT, got '1_0'"),
        (lambda b: b, "1,a,yes,1,1\n", "column 'ok': expected BOOLEAN, got 'yes'"),
        (lambda b: b, "1,a,,1,1\n", "column 'ok': expected BOOLEAN, got ''"),
        (lambda b: b, "1,a,true,1;x,1\n", "column 'l': expected ARRAY of INT, got '1;x'"),
        (lambda b: b, '\n1,"a"b,true,1,1\n', "line 2 (byte 1): the row cannot be divided into values"),
        (lambda b: b, '1,a,true,1,1\n1,"a,\n', "line 2 (byte 13): a value in quotation marks does not end"),
        (
            lambda b: b.set_use_header().set_strict_headers(),
            "name,id,ok,l,d\n",
            "line 1: the header must be id, name, ok, l, d; it reads 'name, id, ok, l, d'",
        ),
        (lambda b: b.set_use_header(), "id,name\n", "line 1: the header has no column 'ok'"),
        (lambda b: b.set_use_header(), "id,name,ok,l,d\n\n\nx,a,true,1,1", "line 4 (byte 17): column 'id'"),
    ],
)
def test_csv_that_cannot_be_read_is_named_with_its_place(
    tmp_path: Path, change: Change, text: str, error: str
) -> None:
    (tmp_path / "file.csv").write_bytes(text.encode())
    with pytest.raises(FileContentError) as caught:
        read(CsvReaderFormat.for_schema(change(columns()).build()), tmp_path / "file.csv")
    assert str(caught.value).startswith(f"unreadable content in {tmp_path}/file.csv, line")
    assert error in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).line == caught.value.line


def test_bytes_that_are_no_text_are_named_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_bytes(b"a,1\nb\xff,2\n")
    with pytest.raises(FileContentError, match=r"line 2 \(byte 5\): expected text in UTF-8, got .* b'\\xff'"):
        read(CsvReaderFormat.for_schema(Person), tmp_path / "file.csv")


def test_csv_without_columns_has_texts_under_the_names_of_its_header(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("a,b\n1,x\n")
    schema = CsvSchema.builder().set_use_header().build()
    assert read(CsvReaderFormat.for_schema(schema), tmp_path / "file.csv") == [Row(a="1", b="x")]


def test_csv_is_cut_when_rows_are_lines() -> None:
    no_quotes = CsvSchema.builder().add_columns_from(Person).disable_quote_char().build()
    assert not CsvReaderFormat.for_schema(Person).is_splittable("a.csv")
    assert CsvReaderFormat.for_schema(Person, multiline=False).is_splittable("a.csv")
    assert CsvReaderFormat.for_schema(no_quotes).is_splittable("a.csv")
    assert not CsvReaderFormat.for_schema(no_quotes).is_splittable("a.csv.gz")


def test_line_ends_in_values_that_were_ruled_out_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text('"a\nb",1\n')
    with pytest.raises(FileContentError, match="need multiline=True"):
        read(CsvReaderFormat.for_schema(Person, multiline=False), tmp_path / "file.csv")


def test_csv_is_written_with_quotes_where_they_are_needed_and_numbers_as_java_prints_them(
    tmp_path: Path,
) -> None:
    schema = columns().set_use_header().set_line_separator("\r\n").build()
    records = [Row(1, 'a "b", c', True, [1, 2], 1e10), (2, None, False, [], 0.5)]
    path = written(CsvBulkWriters.for_schema(schema), records, tmp_path / "file.csv")
    assert path.read_bytes().decode() == (
        'id,name,ok,l,d\r\n1,"a ""b"", c",true,1;2,1.0E10\r\n2,,false,,0.5\r\n'
    )


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (("x", "a", True, [], 0.5), "column 'id': expected INT, got 'x' (str)"),
        ((2**31, "a", True, [], 0.5), "expected INT, got 2147483648"),
        ((1, "a", True, [1, None, "x"], 0.5), "expected ARRAY of INT, got [1, None, 'x']"),
        ((1, "a"), "it has 2 fields instead of 5"),
        (None, "expected a record with the columns of the file, got None"),
    ],
)
def test_records_that_do_not_fit_a_csv_schema_are_refused(tmp_path: Path, record: Any, error: str) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        written(CsvBulkWriters.for_schema(columns().build()), [record], tmp_path / "file")
    assert error in str(caught.value)


def test_separators_in_values_are_refused_where_nothing_can_hide_them(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_string_column("a").add_string_column("b").disable_quote_char().build()
    with pytest.raises(TypeMismatchError, match="because there is no quote or escape character"):
        written(CsvBulkWriters.for_schema(schema), [("x,y", "z")], tmp_path / "file")


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: CsvSchema.builder().build(), "a CSV schema needs columns"),
        (
            lambda: CsvSchema.builder().add_string_column("a").add_string_column("a").build(),
            "'a' comes twice",
        ),
        (lambda: CsvSchema.builder().set_column_separator("::"), "must be a single character"),
        (lambda: CsvSchema.builder().add_string_column("a").set_quote_char(",").build(), "must differ"),
        (lambda: CsvSchema.builder().add_number_column("a", DataTypes.STRING()), "must be a number"),  # type: ignore[arg-type]
        (lambda: CsvReaderFormat.for_schema(dict), "the schema of a CSV file must be"),
        (
            lambda: CsvSchema.builder().add_columns_from(Types.ROW([Types.MAP(Types.INT(), Types.INT())])),
            "no text for",
        ),
        (lambda: JsonReaderFormat.for_schema(pa.schema([])), "JSON has no types of Arrow"),
        (lambda: ParquetColumnarRowInputFormat(dict), "the schema of a file must be"),
        (lambda: ParquetBulkWriters.for_row_type(int), "the row type of a file must be"),
        (lambda: AvroSchema.parse_string("{"), "it is no JSON"),
        (lambda: AvroSchema.parse_string('{"type": "wood"}'), "not an Avro schema"),
        (lambda: AvroBulkWriters.for_generic_record(AVRO, codec="brotli"), "must be one of null, deflate"),
        (
            lambda: AvroParquetWriters.for_generic_record(AvroSchema.parse_string('"int"')),
            "must be one of records",
        ),
    ],
)
def test_schemas_that_mean_nothing_are_refused_where_they_are_made(build: Any, error: str) -> None:
    with pytest.raises(ProgramError, match=error):
        build()


def test_the_builder_counts_copies_and_clears_columns() -> None:
    first = columns().build()
    builder = CsvSchema.builder().add_string_column("z").add_columns_from(first)
    assert (len(first), first.size(), len(builder), builder.size()) == (5, 5, 6, 6)
    assert builder.build().row_type.names == ["z", "id", "name", "ok", "l", "d"]
    assert len(builder.clear_columns()) == 0
    assert isinstance(builder, CsvSchemaBuilder)
    with pytest.raises(InvalidArgumentError):
        builder.set_escape_char("")


# All formats: every kind of schema --------------------------------------------------------------------

SCHEMAS = [
    (PERSON, Row(name="Ada", age=36)),
    (PERSON_INFO, Row(name="Ada", age=36)),
    (Person, Person("Ada", 36)),
    (PersonTuple, PersonTuple("Ada", 36)),
    (PersonDict, {"name": "Ada", "age": 36}),
]


@pytest.mark.parametrize(("schema", "record"), SCHEMAS)
@pytest.mark.parametrize("kind", ["csv", "json", "avro", "parquet", "orc"])
def test_records_are_what_the_schema_says(tmp_path: Path, kind: str, schema: Any, record: Any) -> None:
    path = tmp_path / "file"
    match kind:
        case "csv":
            path.write_text("Ada,36\n")
            file_format: FileFormat = CsvReaderFormat.for_schema(schema)
        case "json":
            is_tuple = schema is PersonTuple  # msgspec has arrays for these
            path.write_text('["Ada", 36]\n' if is_tuple else '{"name": "Ada", "age": 36}\n')
            file_format = JsonReaderFormat.for_schema(schema)
        case "avro":
            written(AvroBulkWriters.for_generic_record(AVRO), [record], path)
            file_format = AvroReaderFormat.for_schema(schema)
        case "parquet":
            parquet.write_table(pa.table({"age": [36], "other": [1], "name": ["Ada"]}), path)
            file_format = ParquetColumnarRowInputFormat(schema)
        case _:
            orc.write_table(pa.table({"age": [36], "other": [1], "name": ["Ada"]}), path)
            file_format = OrcColumnarRowInputFormat(schema)
    (found,) = read(pickle.loads(cloudpickle.dumps(file_format)), path)
    assert (type(found), found) == (type(record), record)


def test_without_a_schema_the_file_says_what_there_is(tmp_path: Path) -> None:
    table = pa.table(
        {"a": pa.array([1], pa.timestamp("ns")), "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8()))}
    )
    parquet.write_table(table, tmp_path / "p")
    (found,) = read(ParquetColumnarRowInputFormat(), tmp_path / "p")
    assert (found.a.microsecond, found.m) == (0, {"k": 1})
    (tmp_path / "j").write_text('{"a": [1, null]}\n\n3\n')
    assert read(JsonReaderFormat.for_schema(), tmp_path / "j") == [{"a": [1, None]}, 3]
    written(AvroBulkWriters.for_generic_record(AVRO, codec="deflate"), [Person("Ada")], tmp_path / "a")
    assert read(AvroReaderFormat.for_schema(), tmp_path / "a") == [{"name": "Ada", "age": 7}]


def test_an_arrow_schema_says_which_columns_are_read_and_what_they_become(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "p")
    schema = pa.schema([("b", pa.large_string()), ("a", pa.float64()), ("c", pa.int8())])
    assert read(ParquetColumnarRowInputFormat(schema), tmp_path / "p") == [Row(b="x", a=1.0, c=None)]


def test_names_of_columns_may_differ_in_the_size_of_letters(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"NAME": ["Ada"], "Age": [36]}), tmp_path / "p")
    assert read(ParquetColumnarRowInputFormat(PERSON), tmp_path / "p") == [Row(name=None, age=None)]
    file_format = ParquetColumnarRowInputFormat(PERSON, is_case_sensitive=False)
    assert read(file_format, tmp_path / "p") == [Row(name="Ada", age=36)]


def test_fields_with_a_default_need_not_be_in_the_file(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"name": ["Ada"]}), tmp_path / "p")
    assert read(ParquetColumnarRowInputFormat(Person), tmp_path / "p") == [Person("Ada", 7)]
    (tmp_path / "j").write_text('{"name": "Ada"}')
    assert read(JsonReaderFormat.for_schema(Person), tmp_path / "j") == [Person("Ada", 7)]
    with pytest.raises(
        FileContentError, match="there is no column 'age', which may not be None; the file has 'name'"
    ):
        read(ParquetColumnarRowInputFormat(PersonTuple), tmp_path / "p")


def test_classes_inside_of_classes_are_written_and_read(tmp_path: Path) -> None:
    record = Outer(Person("Ada"), [Person("Bob", 3)])
    path = written(ParquetBulkWriters.for_row_type(Outer), [record], tmp_path / "p")
    assert read(ParquetColumnarRowInputFormat(Outer), path) == [record]


def test_avro_records_are_dicts_in_parquet_files(tmp_path: Path) -> None:
    path = written(
        AvroParquetWriters.for_generic_record(AVRO), [{"name": "Ada", "age": 1}, Person("B")], tmp_path / "p"
    )
    assert read(AvroParquetReaders.for_generic_record(AVRO), path) == [
        {"name": "Ada", "age": 1},
        {"name": "B", "age": 7},
    ]


def test_avro_files_are_seen_by_another_schema(tmp_path: Path) -> None:
    path = written(AvroBulkWriters.for_generic_record(AVRO), [Person("Ada")], tmp_path / "a")
    newer = AvroSchema.parse_string(
        '{"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}, {"name": "email", "type": '
        '"string", "default": "?"}]}'
    )
    assert read(AvroReaderFormat.for_schema(newer), path) == [{"name": "Ada", "email": "?"}]


# What cannot be read or written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "schema", "error"),
    [
        ('1\n{"a": \n2', None, "line 2 (byte 2): input data was truncated; it reads '{\"a\": '"),
        ("1 2\n", None, "line 1 (byte 0)"),
        ('{"name": "x", "age": "y"}', Person, "line 1 (byte 0): expected 'int', got 'str' - at '$.age'"),
        ('\n{"age": 1}', Person, "line 2 (byte 1): object missing required field 'name'"),
        ('{"age": "y"}', PERSON, "line 1 (byte 0): expected 'int | null', got 'str' - at '$.age'"),
        (
            '{"age": 1}\n{"age": 2147483648}',
            PERSON,
            "line 2 (byte 11): expected 'int' <= 2147483647 - at '$.age'",
        ),
    ],
)
def test_json_that_cannot_be_read_is_named_with_its_place(
    tmp_path: Path, text: str, schema: Any, error: str
) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(FileContentError) as caught:
        read(JsonReaderFormat.for_schema(schema), tmp_path / "file")
    assert error in str(caught.value)


def test_json_has_no_nan_and_nothing_is_written_for_it(tmp_path: Path) -> None:
    with pytest.raises(TypeMismatchError, match="JSON has no NaN and no infinity"):
        written(JsonBulkWriters.for_any_record(), [{"a": None}, {"a": [math.nan]}], tmp_path / "j")


@pytest.mark.parametrize(
    ("file_format", "name"),
    [
        (ParquetColumnarRowInputFormat(), "Parquet"),
        (OrcColumnarRowInputFormat(), "ORC"),
        (AvroReaderFormat.for_schema(), "Avro"),
    ],
)
def test_files_of_another_format_are_refused_with_their_name(
    tmp_path: Path, file_format: FileFormat, name: str
) -> None:
    (tmp_path / "file").write_text("this is a text of some length, and nothing else")
    with pytest.raises(FileContentError, match=f"{tmp_path}/file.*it is no {name} file that can be read"):
        read(file_format, tmp_path / "file")


def test_a_damaged_avro_block_is_named_with_its_position(tmp_path: Path) -> None:
    path = written(AvroBulkWriters.for_generic_record(AVRO), [Person("Ada")], tmp_path / "a")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileContentError, match=r"\(byte \d+\): the block there is damaged"):
        read(AvroReaderFormat.for_schema(), path)


def test_columns_of_another_type_are_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"name": ["Ada"], "age": ["old"]}), tmp_path / "p")
    with pytest.raises(FileContentError, match="column 'age' is string in the file, expected int32"):
        read(ParquetColumnarRowInputFormat(PERSON), tmp_path / "p")
    with pytest.raises(FileContentError, match="column 'age': expected int, got str, which is 'old'"):
        read(ParquetColumnarRowInputFormat(Person), tmp_path / "p")


def test_numbers_that_a_declared_type_cannot_hold_are_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"name": ["Ada"], "age": [2**40]}), tmp_path / "p")
    with pytest.raises(FileContentError, match="expected int32"):
        read(ParquetColumnarRowInputFormat(PERSON), tmp_path / "p")


def test_avro_records_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeMismatchError, match="a record of the Avro schema"):
        written(AvroBulkWriters.for_generic_record(AVRO), [{"name": "Ada"}], tmp_path / "a")


# Formats of one's own ---------------------------------------------------------------------------------


class Words(StreamFormat[str]):
    @override
    def read_records(self, file: Any) -> Any:
        for line in file:
            yield from line.decode().split()


def test_a_format_of_ones_own_needs_one_method(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("to be\nor not")
    assert read(Words(), tmp_path / "file") == ["to", "be", "or", "not"]
    with pytest.raises(NotImplementedError, match="must have a method read_records or blocks"):
        read(StreamFormat(), tmp_path / "file")


def test_stream_and_bulk_formats_have_their_own_entrances() -> None:
    with pytest.raises(WrongArgumentError, match="for_bulk_file_format"):
        FileSource.for_record_stream_format(ParquetColumnarRowInputFormat(), "x")  # type: ignore[arg-type]
    with pytest.raises(WrongArgumentError, match="for_record_stream_format"):
        FileSource.for_bulk_file_format(Words(), "x")  # type: ignore[arg-type]


def test_classes_of_the_main_module_can_still_be_pickled_after_they_were_schemas(tmp_path: Path) -> None:
    """msgspec keeps something in them that cannot be pickled."""
    (tmp_path / "file").write_text('{"person": {"name": "Ada"}, "others": []}\n')
    local: Any = dataclass(type("Local", (), {"__annotations__": {"person": Person, "others": list[Person]}}))
    read(JsonReaderFormat.for_schema(local), tmp_path / "file")
    for cls in (local, Person):
        assert "__msgspec_cache__" not in cls.__dict__


@pytest.mark.parametrize("read_before", range(11))
def test_reading_resumes_anywhere_also_at_the_end_of_a_row_group(tmp_path: Path, read_before: int) -> None:
    path = tmp_path / "numbers"
    parquet.write_table(pa.table({"n": range(10)}), path, row_group_size=5)
    file_format = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["n"], [Types.LONG()]), batch_size=3)
    split = FileSplit(str(path), 0, path.stat().st_size)
    found: list[Any] = []
    for limit in (read_before, 100):
        reading = _OpenSplit(split, file_format)
        while len(found) < limit and (rows := reading.read(limit - len(found))) is not None:
            found += [row["n"] for row in rows]
        split = reading.position()
        reading.close()
    assert found == list(range(10))
