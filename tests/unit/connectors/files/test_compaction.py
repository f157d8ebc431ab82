"""Compaction: small part files become large ones before anybody sees them, and nothing is lost on the way."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from pyarrow import parquet

from firesteel.common.errors import ProgramError, UserCodeError, WrongArgumentError
from firesteel.common.serialization import Encoder
from firesteel.common.typeinfo import Types
from firesteel.connectors.files.part_file import PROOFS_FOLDER
from firesteel.contracts.sink import SinkFunction
from firesteel.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputStreamBasedFileCompactor,
    RecordWiseFileCompactor,
    RollingPolicy,
)
from firesteel.datastream.formats.parquet import ParquetBulkWriters
from firesteel.plan.operator_specs import WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.checkpoint_harness import CheckpointHarness

TEXT = Encoder.simple_string_encoder()
CONCAT = FileCompactor.concat_file_compactor()
BASE = BucketAssigner.base_path_bucket_assigner()


class FirstLetter(BucketAssigner):
    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        return str(element)[0]


def every(checkpoints: int, threads: int = 1) -> FileCompactStrategy:
    builder = FileCompactStrategy.builder().enable_compaction_on_checkpoint(checkpoints)
    return builder.set_num_compact_threads(threads).build()


def from_size(size: int) -> FileCompactStrategy:
    return FileCompactStrategy.builder().set_size_threshold(size).build()


def builder(base: Path, buckets: BucketAssigner = BASE) -> FileSink.RowFormatBuilder:
    made = FileSink.for_row_format(str(base), TEXT).with_bucket_assigner(buckets)
    return made.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())


def run(sink: FileSink, parallelism: int = 1, **more: Any) -> CheckpointHarness:
    return CheckpointHarness(WriterSinkSpec(Shipped.of(sink, "sink_to"), None), parallelism, **more)


def checkpoint(running: CheckpointHarness, number: int, *values: str) -> None:
    running[0].process(list(values))
    running.checkpoint(number)
    running.complete(number)


def finished(base: Path) -> dict[str, str]:
    """What everybody may see, by names without what makes them unique."""
    return {
        re.sub("-[0-9a-f]{16}-", "-", str(path.relative_to(base))): path.read_text()
        for path in sorted(base.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def hidden(base: Path) -> list[Path]:
    return [path for path in base.rglob(".*") if path.is_file() and path.parent.name != PROOFS_FOLDER]


def test_files_are_compacted_when_they_have_waited_for_some_checkpoints(tmp_path: Path) -> None:
    running = run(builder(tmp_path).enable_compact(every(3), CONCAT).build())
    checkpoint(running, 1, "a")
    checkpoint(running, 2, "b")
    assert finished(tmp_path) == {}
    assert len(hidden(tmp_path)) == 2
    checkpoint(running, 3, "c")
    assert finished(tmp_path) == {"compacted-part-0-3": "a\nb\nc\n"}
    assert hidden(tmp_path) == []


def test_files_are_compacted_when_they_are_large_enough_together(tmp_path: Path) -> None:
    running = run(builder(tmp_path).enable_compact(from_size(6), CONCAT).build())
    checkpoint(running, 1, "a", "b")
    assert finished(tmp_path) == {}
    checkpoint(running, 2, "c")
    assert finished(tmp_path) == {"compacted-part-0-2": "a\nb\nc\n"}


@pytest.mark.parametrize("threads", [1, 3])
def test_every_bucket_is_compacted_by_itself(tmp_path: Path, threads: int) -> None:
    running = run(builder(tmp_path, FirstLetter()).enable_compact(every(2, threads), CONCAT).build())
    checkpoint(running, 1, "a1", "b1", "c1")
    checkpoint(running, 2, "a2", "b2", "c2")
    assert sorted(finished(tmp_path).values()) == ["a1\na2\n", "b1\nb2\n", "c1\nc2\n"]
    assert {Path(name).parent.name for name in finished(tmp_path)} == {"a", "b", "c"}


def test_at_the_end_nothing_waits_any_more(tmp_path: Path) -> None:
    running = run(builder(tmp_path).enable_compact(every(100), CONCAT).build())
    checkpoint(running, 1, "a")
    running[0].process(["b"])
    running.finish()
    running.checkpoint(2, CheckpointKind.FINAL)
    running.complete(2)
    assert finished(tmp_path) == {"compacted-part-0-2": "a\nb\n"}
    assert hidden(tmp_path) == []


def test_a_delimiter_follows_every_file(tmp_path: Path) -> None:
    compactor = FileCompactor.concat_file_compactor(b"--\n")
    running = run(builder(tmp_path).enable_compact(every(2), compactor).build())
    checkpoint(running, 1, "a")
    checkpoint(running, 2, "b")
    assert list(finished(tmp_path).values()) == ["a\n--\nb\n--\n"]


def test_an_identical_compactor_copies_one_file_and_refuses_more(tmp_path: Path) -> None:
    compactor = FileCompactor.identical_file_compactor()
    running = run(builder(tmp_path).enable_compact(every(1), compactor).build())
    checkpoint(running, 1, "a")
    assert list(finished(tmp_path).values()) == ["a\n"]
    running = run(builder(tmp_path).enable_compact(every(2), compactor).build())
    checkpoint(running, 1, "a")
    running[0].process(["b"])
    with pytest.raises(UserCodeError, match="copies one file, got 2"):
        running.checkpoint(2)


def test_parquet_files_are_compacted_record_by_record(tmp_path: Path) -> None:
    row = Types.ROW_NAMED(["number"], [Types.LONG()])

    def rows(file: BinaryIO) -> Iterable[Any]:
        return parquet.read_table(pa.BufferReader(file.read())).to_pylist()

    sink = (
        FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(row))
        .with_bucket_assigner(BASE)
        .enable_compact(every(2), RecordWiseFileCompactor(rows))
        .build()
    )
    running = run(sink)
    for number in (1, 2):
        running[0].process([(number,), (number + 10,)])
        running.checkpoint(number)
        running.complete(number)
    (path,) = tmp_path.glob("compacted-part-*")
    assert parquet.read_table(path).column("number").to_pylist() == [1, 11, 2, 12]


def test_a_compactor_of_ones_own_makes_the_bytes(tmp_path: Path) -> None:
    class Upper(OutputStreamBasedFileCompactor):
        def do_compact(self, inputs: Any, stream: BinaryIO) -> None:
            for each in inputs:
                with each.open() as file:
                    stream.write(file.read().upper())

    running = run(builder(tmp_path).enable_compact(every(2), Upper()).build())
    checkpoint(running, 1, "a")
    checkpoint(running, 2, "b")
    assert list(finished(tmp_path).values()) == ["A\nB\n"]


# Failures ---------------------------------------------------------------------------------------------


def test_what_waits_is_in_the_checkpoint_with_how_long_it_has_waited(tmp_path: Path) -> None:
    sink = builder(tmp_path).enable_compact(every(3), CONCAT).build()
    running = run(sink, 2)
    running[0].process(["a"])
    running[1].process(["b"])
    running.checkpoint(1)
    running.complete(1)
    taken = running.checkpoint(2)
    running = run(sink, 1, restore=taken)
    checkpoint(running, 3, "c")
    assert [sorted(text.split()) for text in finished(tmp_path).values()] == [["a", "b", "c"]]


def test_a_program_that_does_not_compact_any_more_finishes_what_waits(tmp_path: Path) -> None:
    running = run(builder(tmp_path).enable_compact(every(10), CONCAT).build())
    running[0].process(["a"])
    taken = running.checkpoint(1)
    running = run(
        builder(tmp_path).enable_compact(every(10), CONCAT).disable_compact().build(), restore=taken
    )
    checkpoint(running, 2, "b")
    assert finished(tmp_path) == {"part-0-0": "a\n", "part-0-1": "b\n"}


def test_the_files_stay_until_the_checkpoint_with_the_larger_one_is_complete(tmp_path: Path) -> None:
    sink = builder(tmp_path).enable_compact(every(2), CONCAT).build()
    running = run(sink)
    running[0].process(["a"])
    taken = running.checkpoint(1)
    running.complete(1)
    running[0].process(["b"])
    running.checkpoint(2)  # nobody hears of it
    running = run(sink, restore=taken)
    checkpoint(running, 3, "b")
    assert list(finished(tmp_path).values()) == ["a\nb\n"]


def test_a_file_that_was_compacted_after_the_checkpoint_is_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = builder(tmp_path).enable_compact(every(2), CONCAT).build()
    running = run(sink)
    running[0].process(["a"])
    taken = running.checkpoint(1)
    running.complete(1)
    checkpoint(running, 2, "b")
    with caplog.at_level(logging.WARNING):
        run(sink, restore=taken)
    assert "was compacted after the checkpoint; its records have been seen" in caplog.text
    assert list(finished(tmp_path).values()) == ["a\nb\n"]


def test_a_file_that_is_gone_is_told_when_the_job_starts(tmp_path: Path) -> None:
    sink = builder(tmp_path).enable_compact(every(2), CONCAT).build()
    running = run(sink)
    running[0].process(["a"])
    taken = running.checkpoint(1)
    for path in hidden(tmp_path):
        path.unlink()
    with pytest.raises(UserCodeError, match="2 bytes of records are in the checkpoint, but neither under"):
        run(sink, restore=taken)


def test_a_file_that_somebody_has_changed_is_not_compacted(tmp_path: Path) -> None:
    running = run(builder(tmp_path).enable_compact(every(2), CONCAT).build())
    checkpoint(running, 1, "a")
    (path,) = hidden(tmp_path)
    path.write_text("abc")
    running[0].process(["b"])
    with pytest.raises(UserCodeError, match="has 3 bytes, but had 2 at the checkpoint"):
        running.checkpoint(2)


# Mistakes ---------------------------------------------------------------------------------------------


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="must say when files are compacted"):
        FileCompactStrategy.builder().build()
    with pytest.raises(ProgramError, match=r"number of checkpoints .* at least 1, got 0"):
        FileCompactStrategy.builder().enable_compaction_on_checkpoint(0)
    with pytest.raises(ProgramError, match=r"number of threads .* at least 1, got 0"):
        FileCompactStrategy.builder().set_num_compact_threads(0)
    with pytest.raises(ProgramError, match=r"size threshold .* at least 0, got '1 MB'"):
        FileCompactStrategy.builder().set_size_threshold("1 MB")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="must be bytes, got '-'"):
        FileCompactor.concat_file_compactor("-")  # type: ignore[arg-type]
    with pytest.raises(WrongArgumentError, match="a FileCompactStrategy"):
        builder(tmp_path).enable_compact(3, CONCAT)  # type: ignore[arg-type]
    with pytest.raises(WrongArgumentError, match="a FileCompactor"):
        builder(tmp_path).enable_compact(every(1), "concat")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="a function that gives the records of an open file"):
        RecordWiseFileCompactor("lines")  # type: ignore[arg-type]
    row = Types.ROW_NAMED(["number"], [Types.LONG()])
    bulk = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(row))
    with pytest.raises(ProgramError, match="cannot be put one behind the other"):
        bulk.enable_compact(every(1), CONCAT)
