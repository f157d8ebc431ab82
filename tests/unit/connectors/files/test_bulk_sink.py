"""Files of bulk formats: closed at every checkpoint, finished when it is complete, thrown away after a crash."""

from __future__ import annotations

import gc
import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from pyarrow import orc, parquet

from firesteel.common.errors import TypeMismatchError, UserCodeError, WrongArgumentError
from firesteel.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from firesteel.common.typeinfo import Types
from firesteel.connectors.files.bulk_batches import BATCH_RECORDS
from firesteel.connectors.files.part_file import PROOFS_FOLDER
from firesteel.connectors.files.rolling import OnCheckpointRollingPolicy, PartFileInfo
from firesteel.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)
from firesteel.datastream.formats.orc import OrcBulkWriters
from firesteel.datastream.formats.parquet import ParquetBulkWriters
from firesteel.plan.operator_specs import WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing import ManualClock
from firesteel.testing.checkpoint_harness import CheckpointHarness

ROW = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.INT()])
PARQUET = ParquetBulkWriters.for_row_type(ROW)


def bulk_sink(base: Path, factory: BulkWriterFactory = PARQUET, policy: Any = None) -> FileSink:
    builder = FileSink.for_bulk_format(str(base), factory)
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.with_rolling_policy(policy or RollingPolicy.on_checkpoint_rolling_policy()).build()


def run(sink: Any, parallelism: int = 1, **more: Any) -> CheckpointHarness:
    return CheckpointHarness(WriterSinkSpec(Shipped.of(sink, "sink_to"), None), parallelism, **more)


def short(path: Path, base: Path) -> str:
    """A name without what makes it unique."""
    return re.sub("-[0-9a-f]{16}-", "-", str(path.relative_to(base)))


def finished(base: Path, read: Any = parquet.read_table) -> dict[str, list[tuple[Any, ...]]]:
    """Names and records of what everybody may see."""
    return {
        short(path, base): [tuple(row.values()) for row in read(path).to_pylist()]
        for path in sorted(base.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def hidden(base: Path) -> list[str]:
    """Names of the others, without what tells writers apart."""
    files = [path for path in base.rglob(".*") if path.is_file() and path.parent.name != PROOFS_FOLDER]
    return sorted(short(path, path.parent).rsplit(".", 1)[0] for path in files)


def only_part(base: Path) -> Path:
    (path,) = base.glob("part-*")
    return path


@pytest.mark.parametrize(
    ("factory", "read"),
    [(PARQUET, parquet.read_table), (OrcBulkWriters.for_row_type(ROW), orc.read_table)],
    ids=["parquet", "orc"],
)
def test_a_file_is_closed_at_every_checkpoint_and_finished_when_it_is_complete(
    tmp_path: Path, factory: BulkWriterFactory, read: Any
) -> None:
    running = run(bulk_sink(tmp_path, factory))
    running[0].process([("a", 1), ("b", 2)])
    assert hidden(tmp_path) == [".part-0-0.inprogress"]
    running.checkpoint(1)
    assert (finished(tmp_path, read), hidden(tmp_path)) == ({}, [".part-0-0.inprogress"])
    running[0].process([("c", 3)])
    running.complete(1)
    assert finished(tmp_path, read) == {"part-0-0": [("a", 1), ("b", 2)]}
    running.finish()
    running.checkpoint(2, CheckpointKind.FINAL)
    running.complete(2)
    assert finished(tmp_path, read) == {"part-0-0": [("a", 1), ("b", 2)], "part-0-1": [("c", 3)]}


def test_buckets_names_and_an_end_without_checkpoints(tmp_path: Path) -> None:
    class ByName(BucketAssigner):
        def get_bucket_id(self, element: Any, context: Any) -> str:
            return f"name={element[0]}"

    sink = (
        FileSink.for_bulk_format(str(tmp_path), PARQUET)
        .with_bucket_check_interval(500)
        .with_bucket_assigner(ByName())
        .with_output_file_config(OutputFileConfig("out", ".parquet"))
        .build()
    )
    running = run(sink, checkpointing=False)
    running[0].process([("a", 1), ("b", 2), ("a", 3)])
    running.finish()
    assert finished(tmp_path) == {
        "name=a/out-0-0.parquet": [("a", 1), ("a", 3)],
        "name=b/out-0-1.parquet": [("b", 2)],
    }


def test_the_older_sink_finishes_nothing_without_checkpoints(tmp_path: Path) -> None:
    builder = StreamingFileSink.for_bulk_format(str(tmp_path), PARQUET)
    running = run(
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build(), checkpointing=False
    )
    running[0].process([("a", 1)])
    running.finish()
    running.close()
    assert (finished(tmp_path), hidden(tmp_path)) == ({}, [".part-0-0.inprogress"])


# Rolling ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Often(OnCheckpointRollingPolicy):
    """Closes files when they are old, too, and would not close them at checkpoints, were it asked."""

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        return False

    def should_roll_on_processing_time(self, part: PartFileInfo, current_time: int) -> bool:
        return current_time - part.created >= 60_000


def test_a_policy_may_close_files_more_often_but_not_less(tmp_path: Path) -> None:
    clock = ManualClock()
    running = run(bulk_sink(tmp_path, policy=Often()), clock=clock)
    running[0].process([("a", 1)])
    running[0].advance(61.0)
    running[0].process([("b", 2)])
    running.checkpoint(1)
    running.complete(1)
    assert finished(tmp_path) == {"part-0-0": [("a", 1)], "part-0-1": [("b", 2)]}


def test_other_policies_are_refused_with_the_reason(tmp_path: Path) -> None:
    builder = FileSink.for_bulk_format(str(tmp_path), PARQUET)
    with pytest.raises(
        WrongArgumentError, match="so it must be closed at every checkpoint; use RollingPolicy"
    ):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())
    with pytest.raises(WrongArgumentError, match=r"a BulkWriterFactory, got .*ParquetBulkWriters"):
        FileSink.for_bulk_format(str(tmp_path), Encoder.simple_string_encoder())  # type: ignore[arg-type]


# Crashes ----------------------------------------------------------------------------------------------


def test_what_was_pending_at_the_checkpoint_is_finished_after_a_crash_and_the_rest_thrown_away(
    tmp_path: Path,
) -> None:
    before = run(bulk_sink(tmp_path))
    before[0].process([("a", 1)])
    checkpoint = before.checkpoint(1)
    before[0].process([("forgotten", 2)])
    before.close()
    assert hidden(tmp_path) == [".part-0-0.inprogress"]
    gc.collect()  # Parquet's own writer ends its file when it is collected; nobody may notice
    after = run(bulk_sink(tmp_path), restore=checkpoint)
    assert finished(tmp_path) == {"part-0-0": [("a", 1)]}
    after[0].process([("again", 2)])
    after.finish()
    after.checkpoint(2, CheckpointKind.FINAL)
    after.complete(2)
    assert finished(tmp_path) == {"part-0-0": [("a", 1)], "part-0-1": [("again", 2)]}
    assert hidden(tmp_path) == []


def test_a_zombie_and_files_of_a_process_that_was_killed_do_no_harm(tmp_path: Path) -> None:
    zombie = run(bulk_sink(tmp_path))
    zombie[0].process([("a", 1)])
    checkpoint = zombie.checkpoint(1)
    zombie[0].process([("from beyond", 2)])
    after = run(bulk_sink(tmp_path), restore=checkpoint)
    after[0].process([("new", 2)])
    zombie.checkpoint(2)  # it closes its file, which no checkpoint will ever know
    after.checkpoint(2)
    after.complete(2)
    assert finished(tmp_path) == {"part-0-0": [("a", 1)], "part-0-1": [("new", 2)]}
    assert hidden(tmp_path) == [".part-0-1.inprogress"]


def test_another_parallelism(tmp_path: Path) -> None:
    before = run(bulk_sink(tmp_path), 3)
    for number, subtask in enumerate(before):
        subtask.process([("from", number)])
    checkpoint = before.checkpoint(1)
    before.close()
    run(bulk_sink(tmp_path), 2, restore=checkpoint).close()
    assert finished(tmp_path) == {f"part-{number}-0": [("from", number)] for number in range(3)}


def test_a_program_may_change_from_rows_to_a_bulk_format(tmp_path: Path) -> None:
    rows = (
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    before = run(rows)
    before[0].process(["a line"])
    checkpoint = before.checkpoint(1)
    before.close()
    after = run(bulk_sink(tmp_path), restore=checkpoint)
    after[0].process([("a", 1)])
    after.checkpoint(2)
    after.complete(2)
    (lines,) = tmp_path.glob("part-*-0-0")
    assert lines.read_text() == "a line\n"
    lines.unlink()
    assert finished(tmp_path) == {"part-0-1": [("a", 1)]}


@pytest.mark.parametrize("last", [CheckpointHarness.finish, lambda running: running.checkpoint(1)])
def test_a_record_that_does_not_fit_fails_the_job_and_leaves_no_file(tmp_path: Path, last: Any) -> None:
    running = run(bulk_sink(tmp_path))
    running[0].process([("a", 1), ("b", "two"), ("c", 3)])
    with pytest.raises(
        (UserCodeError, TypeMismatchError),
        match=r"field 'number' \(index 1\): expected Integer, got 'two'.*'b', 'two'",
    ):
        last(running)
    running.close()
    assert (finished(tmp_path), hidden(tmp_path)) == ({}, [])


# Row groups -------------------------------------------------------------------------------------------


def test_row_groups_are_as_large_as_asked_for(tmp_path: Path) -> None:
    factory = ParquetBulkWriters.for_row_type(ROW, row_group_bytes=100_000, compression="zstd")
    running = run(bulk_sink(tmp_path, factory), checkpointing=False)
    records = [("x" * 10, number) for number in range(5 * BATCH_RECORDS + 1)]
    running[0].process(records)
    running.finish()
    file = parquet.ParquetFile(only_part(tmp_path))
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    assert [group.num_rows for group in groups] == [2 * BATCH_RECORDS, 2 * BATCH_RECORDS, BATCH_RECORDS + 1]
    assert groups[0].column(0).compression == "ZSTD"
    assert finished(tmp_path)["part-0-0"] == records


# A format of one's own --------------------------------------------------------------------------------


class Calls(BulkWriterFactory):
    """Writes down what it is asked to do; ``batches``: many records at a time."""

    def __init__(self, batches: bool) -> None:
        self._batches = batches

    def create(self, stream: BinaryIO) -> BulkWriter:
        return BatchCallsWriter(stream) if self._batches else CallsWriter(stream)


class CallsWriter(BulkWriter):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add_element(self, element: Any) -> None:
        self._stream.write(f"one {element}\n".encode())

    def flush(self) -> None:
        self._stream.write(b"flush\n")

    def finish(self) -> None:
        self._stream.write(b"finish\n")


class BatchCallsWriter(CallsWriter):
    def add_elements(self, elements: list[Any]) -> None:
        self._stream.write(f"{len(elements)} from {elements[0]}\n".encode())


@pytest.mark.parametrize(
    ("batches", "lines"),
    [
        (False, [*(f"one {number}" for number in range(BATCH_RECORDS + 2)), "flush", "finish"]),
        (True, [f"{BATCH_RECORDS} from 0", f"2 from {BATCH_RECORDS}", "flush", "finish"]),
    ],
)
def test_a_writer_gets_records_one_by_one_or_in_batches(
    tmp_path: Path, batches: bool, lines: list[str]
) -> None:
    running = run(bulk_sink(tmp_path, Calls(batches)), checkpointing=False)
    running[0].process(list(range(BATCH_RECORDS + 2)))
    running.finish()
    assert only_part(tmp_path).read_text().splitlines() == lines


def test_batches_can_be_given_to_every_writer(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as stream:
        CallsWriter(stream).add_elements(["a", "b"])
    assert (tmp_path / "file").read_text() == "one a\none b\n"


class Forgetful(BulkWriterFactory):
    """Lines in gzip, whose end is not written."""

    def create(self, stream: BinaryIO) -> BulkWriter:
        return ForgetfulWriter(stream)


class ForgetfulWriter(BulkWriter):
    zips: list[gzip.GzipFile] = []

    def __init__(self, stream: BinaryIO) -> None:
        self._zip = gzip.GzipFile(fileobj=stream, mode="wb")
        self.zips.append(self._zip)

    def add_element(self, element: Any) -> None:
        self._zip.write(f"{element}\n".encode())

    def flush(self) -> None:
        self._zip.flush()

    def finish(self) -> None:
        """Something is missing here."""


def test_a_writer_that_writes_too_late_hears_of_it(tmp_path: Path) -> None:
    running = run(bulk_sink(tmp_path, Forgetful()))
    running[0].process(["a"])
    running.checkpoint(1)
    with pytest.raises(ValueError, match=r"must write everything in finish\(\)"):
        ForgetfulWriter.zips.pop().close()
