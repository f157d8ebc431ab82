"""Rows as messages of an Arrow stream: pyarrow reads what is written here, and what pyarrow writes is read."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.errors import DataLossError
from firesteel.spark.arrow_rows import END_OF_STREAM, PREFIX, BatchWriter, body_length, payloads_in

Rows = list[tuple[int, bytes]]

_rows = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=300)), max_size=40)


def split(message: bytes) -> tuple[bytes, memoryview]:
    """Metadata and body."""
    end = PREFIX.size + PREFIX.unpack_from(message)[1]
    return message[PREFIX.size : end], memoryview(message)[end:]


def written_by_arrow(column: Any, **options: Any) -> list[bytes]:
    """The messages of a stream with one batch, without its end."""
    batch = pa.RecordBatch.from_arrays([column], ["_0"])
    return [batch.schema.serialize().to_pybytes(), batch.serialize().to_pybytes()]


def column_of(rows: Rows) -> Any:
    targets = pa.array([target for target, _ in rows], pa.int32())
    payloads = pa.array([payload for _, payload in rows], pa.binary())
    return pa.StructArray.from_arrays([targets, payloads], names=["target", "payload"])


@given(st.lists(_rows, max_size=4))
def test_arrow_reads_what_is_written(batches: list[Rows]) -> None:
    writer = BatchWriter()
    stream = b"".join([writer.schema, *(writer.batch(rows) for rows in batches), END_OF_STREAM])
    found = [
        [(row["_0"]["target"], row["_0"]["payload"]) for row in batch.to_pylist()]
        for batch in pa.ipc.open_stream(io.BytesIO(stream))
    ]
    assert found == batches


@given(_rows)
def test_what_arrow_writes_is_read(rows: Rows) -> None:
    schema, batch = written_by_arrow(column_of(rows))
    for message, expected in ((schema, []), (batch, [payload for _, payload in rows])):
        metadata, body = split(message)
        assert body_length(metadata) == len(body)
        assert list(payloads_in(metadata, body)) == expected


@given(_rows)
def test_what_is_written_is_read(rows: Rows) -> None:
    metadata, body = split(BatchWriter().batch(rows))
    assert body_length(metadata) == len(body)
    assert list(payloads_in(metadata, body)) == [payload for _, payload in rows]


def test_rows_without_a_payload_give_nothing() -> None:
    column = pa.StructArray.from_arrays([pa.array([0, 1], pa.int64())], names=["id"])
    metadata, body = split(written_by_arrow(column)[1])
    assert list(payloads_in(metadata, body)) == []


@pytest.mark.parametrize("how", ["compressed", "three columns"])
def test_another_form_is_refused(how: str) -> None:
    column = column_of([(0, b"a" * 1000)])
    if how == "three columns":
        column = pa.StructArray.from_arrays(
            [*column.flatten(), pa.array([1])], names=["target", "payload", "more"]
        )
    sink = io.BytesIO()
    batch = pa.RecordBatch.from_arrays([column], ["_0"])
    options = pa.ipc.IpcWriteOptions(compression="zstd" if how == "compressed" else None)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    metadata, body = split(sink.getvalue()[len(batch.schema.serialize()) :])
    with pytest.raises(DataLossError, match="another form than tasks know"):
        list(payloads_in(metadata, body[: body_length(metadata)]))


def test_writing_does_not_import_pandas() -> None:
    program = "import sys; from firesteel.spark.arrow_rows import BatchWriter; BatchWriter().batch([(0, b'')]); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
