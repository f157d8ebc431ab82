"""The file sink: buckets, names, rolling, and the life of a part file."""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from firesteel.common.errors import ProgramError, UserCodeError, WrongArgumentError
from firesteel.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from firesteel.common.typeinfo import Types
from firesteel.connectors.files.part_file import PROOFS_FOLDER
from firesteel.connectors.files.sink import DateTimeBucketAssigner
from firesteel.contracts.sink import SinkFunction
from firesteel.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)
from firesteel.plan.operator_specs import WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing import ManualClock
from firesteel.testing.checkpoint_harness import CheckpointHarness

TEXT = Encoder.simple_string_encoder()


class FirstLetter(BucketAssigner):
    def get_bucket_id(self, element: Any, context: SinkFunction.Context) -> str:
        return str(element)[0]


def row_sink(base: Path, **policy: int) -> FileSink:
    builder = FileSink.for_row_format(str(base), TEXT)
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.with_rolling_policy(RollingPolicy.default_rolling_policy(**policy)).build()


def run(sink: Any, parallelism: int = 1, type_info: Any = None, **more: Any) -> CheckpointHarness:
    return CheckpointHarness(WriterSinkSpec(Shipped.of(sink, "sink_to"), type_info), parallelism, **more)


def short(path: Path, base: Path) -> str:
    """A name without what makes it unique."""
    return re.sub("-[0-9a-f]{16}-", "-", str(path.relative_to(base)))


def finished(base: Path) -> dict[str, list[str]]:
    """Names and lines of what everybody may see."""
    return {
        short(path, base): path.read_text().splitlines()
        for path in sorted(base.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def hidden(base: Path) -> list[str]:
    """Names of the others, without what tells writers apart."""
    files = [path for path in base.rglob(".*") if path.is_file() and path.parent.name != PROOFS_FOLDER]
    return sorted(short(path, path.parent).rsplit(".", 1)[0] for path in files)


def lines(base: Path) -> list[str]:
    """Of all files that everybody may see."""
    return sorted(line for path in base.rglob("part-*") for line in path.read_text().splitlines())


def only_part(base: Path) -> Path:
    (path,) = base.glob("part-*")
    return path


def test_a_part_file_is_in_progress_then_pending_then_finished(tmp_path: Path) -> None:
    running = run(row_sink(tmp_path, part_size=3))
    running[0].process(["a", "b"])
    assert hidden(tmp_path) == [".part-0-0.inprogress"]
    running[0].process(["c"])  # the fourth byte was written: the next record begins another file
    assert hidden(tmp_path) == [".part-0-0.inprogress", ".part-0-1.inprogress"]
    running.checkpoint(1)
    assert finished(tmp_path) == {}
    running.complete(1)
    assert finished(tmp_path) == {"part-0-0": ["a", "b"]}
    assert hidden(tmp_path) == [".part-0-1.inprogress"]


def test_every_subtask_and_every_bucket_has_files_of_its_own(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(str(tmp_path), TEXT).with_bucket_assigner(FirstLetter()).build()
    running = run(sink, 2)
    running[0].process(["a1", "b1", "a2"])
    running[1].process(["a3"])
    running.finish()
    running.checkpoint(1, CheckpointKind.FINAL)
    running.complete(1)
    assert finished(tmp_path) == {"a/part-0-0": ["a1", "a2"], "a/part-1-0": ["a3"], "b/part-0-1": ["b1"]}


def test_names_can_be_chosen(tmp_path: Path) -> None:
    config = OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    sink = (
        FileSink.for_row_format(str(tmp_path), TEXT)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(config)
        .build()
    )
    running = run(sink, checkpointing=False)
    running[0].process(["a"])
    running.finish()
    assert list(finished(tmp_path)) == ["out-0-0.txt"]


def test_without_checkpoints_files_are_finished_at_the_end(tmp_path: Path) -> None:
    running = run(row_sink(tmp_path, part_size=1), checkpointing=False)
    running[0].process(["a", "b"])
    assert finished(tmp_path) == {}
    running.finish()
    assert finished(tmp_path) == {"part-0-0": ["a"], "part-0-1": ["b"]}


def test_the_older_sink_leaves_files_in_progress_without_checkpoints(tmp_path: Path) -> None:
    sink = (
        StreamingFileSink.for_row_format(str(tmp_path), TEXT)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    running = run(sink, checkpointing=False)
    running[0].process(["a"])
    running.finish()
    running.close()
    assert (finished(tmp_path), hidden(tmp_path)) == ({}, [".part-0-0.inprogress"])
    assert next(tmp_path.iterdir()).read_text() == "a\n"


def test_numbers_are_never_used_again(tmp_path: Path) -> None:
    before = run(row_sink(tmp_path, part_size=1), 2)
    before[0].process(list("abcd"))
    checkpoint = before.checkpoint(1)
    before.complete(1)
    for path in tmp_path.glob("part-*"):  # whoever reads the files takes them away
        path.unlink()
    after = run(row_sink(tmp_path, part_size=1), 3, restore=checkpoint)
    for subtask in after:
        subtask.process(["x"])
    after.finish()
    after.checkpoint(2)
    after.complete(2)
    assert sorted(finished(tmp_path)) == ["part-0-4", "part-1-4", "part-2-4"]


def test_another_job_does_not_replace_files(tmp_path: Path) -> None:
    for value in ("old", "new"):
        running = run(row_sink(tmp_path), checkpointing=False)
        running[0].process([value])
        running.finish()
    assert lines(tmp_path) == ["new", "old"]


def test_two_sinks_share_a_directory(tmp_path: Path) -> None:
    """Also when one of them continues, and when both continue from the same checkpoint."""
    first, second = run(row_sink(tmp_path)), run(row_sink(tmp_path))
    first[0].process(["a"])
    second[0].process(["b"])
    checkpoint = first.checkpoint(1)
    second.checkpoint(1)
    twins = [first, run(row_sink(tmp_path), restore=checkpoint)]
    for number, running in enumerate([*twins, second]):
        running[0].process([f"{number}"])
        running.finish()
        running.checkpoint(2, CheckpointKind.FINAL)
        if running is not first:  # of the twins only one has a future, and the other one must do no harm
            running.complete(2)
    assert lines(tmp_path) == ["1", "2", "a", "b"]


# Rolling ----------------------------------------------------------------------------------------------


def test_files_are_rolled_by_age_and_by_inactivity(tmp_path: Path) -> None:
    clock = ManualClock()
    builder = FileSink.for_row_format(str(tmp_path), TEXT).with_bucket_check_interval(1000)
    builder.with_bucket_assigner(FirstLetter())
    policy = RollingPolicy.default_rolling_policy(rollover_interval=10_000, inactivity_interval=4_000)
    running = run(builder.with_rolling_policy(policy).build(), clock=clock)
    running[0].process(["idle", "busy"])
    for _ in range(9):
        running[0].advance(1.0)
        running[0].process(["busy"])
    assert hidden(tmp_path) == [".part-0-0.inprogress", ".part-0-1.inprogress"]
    running[0].advance(1.0)
    assert hidden(tmp_path) == [".part-0-0.inprogress", ".part-0-1.inprogress"]
    assert running[0].operator.next_deadline() == float("inf")


def test_files_can_be_rolled_at_checkpoints_only(tmp_path: Path) -> None:
    builder = FileSink.for_row_format(str(tmp_path), TEXT)
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    running = run(builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
    for number in (1, 2):
        running[0].process(["a", "b"])
        running.checkpoint(number)
        running.complete(number)
    assert finished(tmp_path) == {"part-0-0": ["a", "b"], "part-0-1": ["a", "b"]}


class Counted(BulkWriterFactory):
    """A format with a line at the end that counts the records."""

    def create(self, stream: BinaryIO) -> BulkWriter:
        return CountedWriter(stream)


class CountedWriter(BulkWriter):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._records: list[str] = []

    def add_element(self, element: Any) -> None:
        self._records.append(element)

    def flush(self) -> None:
        """The format allows nothing before the end."""

    def finish(self) -> None:
        self._stream.write("".join(f"{record}\n" for record in self._records).encode())
        self._stream.write(f"{len(self._records)} records\n".encode())


def test_bulk_formats_are_closed_at_every_checkpoint(tmp_path: Path) -> None:
    builder = FileSink.for_bulk_format(str(tmp_path), Counted())
    running = run(builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    running[0].process(["a", "b"])
    running.checkpoint(1)
    running[0].process(["c"])
    running.complete(1)
    assert finished(tmp_path) == {"part-0-0": ["a", "b", "2 records"]}
    with pytest.raises(WrongArgumentError, match="an OnCheckpointRollingPolicy"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())


# Recovery ---------------------------------------------------------------------------------------------


def in_progress_at_checkpoint(base: Path) -> tuple[CheckpointHarness, Any]:
    running = run(row_sink(base))
    running[0].process(["kept"])
    checkpoint = running.checkpoint(1)
    running.complete(1)
    running[0].process(["forgotten"])
    running[0].operator._writer._open[""]._stream.flush()  # type: ignore[attr-defined]
    return running, checkpoint


def ends_with(base: Path, checkpoint: Any, *records: str) -> dict[str, list[str]]:
    after = run(row_sink(base), restore=checkpoint)
    after[0].process(list(records))
    after.finish()
    after.checkpoint(9, CheckpointKind.FINAL)
    after.complete(9)
    return finished(base)


def test_a_file_is_resumed_at_its_length_at_the_checkpoint(tmp_path: Path) -> None:
    before, checkpoint = in_progress_at_checkpoint(tmp_path)
    before.close()
    assert ends_with(tmp_path, checkpoint, "new") == {"part-0-0": ["kept", "new"]}
    assert hidden(tmp_path) == []


def test_a_file_that_was_rolled_after_the_checkpoint_is_resumed_too(tmp_path: Path) -> None:
    before, checkpoint = in_progress_at_checkpoint(tmp_path)
    before.finish()
    before.checkpoint(2)
    before.close()
    assert hidden(tmp_path) == [".part-0-0.inprogress"]
    assert ends_with(tmp_path, checkpoint, "new") == {"part-0-0": ["kept", "new"]}


def test_a_zombie_that_keeps_writing_does_not_get_into_the_file(tmp_path: Path) -> None:
    zombie, checkpoint = in_progress_at_checkpoint(tmp_path)
    after = run(row_sink(tmp_path), restore=checkpoint)
    zombie[0].process(["from beyond"])
    after[0].process(["new"])
    zombie.finish()
    after.finish()
    after.checkpoint(2, CheckpointKind.FINAL)
    after.complete(2)
    assert finished(tmp_path) == {"part-0-0": ["kept", "new"]}


def test_going_back_to_before_a_file_was_finished_keeps_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, checkpoint = in_progress_at_checkpoint(tmp_path)
    before.finish()
    before.checkpoint(2)
    before.complete(2)
    with caplog.at_level(logging.WARNING):
        files = ends_with(tmp_path, checkpoint, "forgotten", "new")
    assert files == {"part-0-0": ["kept", "forgotten"], "part-0-1": ["forgotten", "new"]}
    assert "its records will be written again" in caplog.text


def test_a_file_that_is_gone_or_too_short_is_not_passed_over(tmp_path: Path) -> None:
    before, checkpoint = in_progress_at_checkpoint(tmp_path)
    before.close()
    (file,) = tmp_path.iterdir()
    os.truncate(file, 2)
    with pytest.raises(UserCodeError, match="has 2 bytes, but had 5 at the checkpoint"):
        run(row_sink(tmp_path), restore=checkpoint)
    file.unlink()
    with pytest.raises(UserCodeError, match="the checkpoint has 5 bytes in a part file"):
        run(row_sink(tmp_path), restore=checkpoint)


def test_files_of_subtasks_that_are_no_more_are_rolled(tmp_path: Path) -> None:
    before = run(row_sink(tmp_path), 3)
    for number, subtask in enumerate(before):
        subtask.process([f"from {number}"])
    checkpoint = before.checkpoint(1)
    before.close()
    after = run(row_sink(tmp_path), restore=checkpoint)
    after[0].process(["new"])
    after.finish()
    after.checkpoint(2)
    after.complete(2)
    assert finished(tmp_path) == {
        "part-0-0": ["from 0", "new"],
        "part-1-0": ["from 1"],
        "part-2-0": ["from 2"],
    }


# Finishing --------------------------------------------------------------------------------------------


def pending_at_checkpoint(base: Path) -> tuple[CheckpointHarness, Any]:
    """One file that waits and one in progress."""
    running = run(row_sink(base, part_size=2))
    running[0].process(["aa", "b"])
    checkpoint = running.checkpoint(1)
    running[0].process(["forgotten"])
    return running, checkpoint


def resume(base: Path, checkpoint: Any) -> dict[str, list[str]]:
    run(row_sink(base), restore=checkpoint).close()
    return finished(base)


def hidden_part(base: Path, number: int = 0) -> Path:
    (path,) = base.glob(f".part-*-{number}.*")
    return path


def test_finishing_twice_is_finishing_once(tmp_path: Path) -> None:
    before, checkpoint = pending_at_checkpoint(tmp_path)
    before.complete(1)
    before.close()
    assert resume(tmp_path, checkpoint) == {"part-0-0": ["aa"]}


def test_a_finished_file_may_be_taken_away(tmp_path: Path) -> None:
    before, checkpoint = pending_at_checkpoint(tmp_path)
    before.complete(1)
    before.close()
    only_part(tmp_path).rename(tmp_path / "kept elsewhere")
    for _ in range(2):  # what a committer has not finished itself it need not prove
        assert list(resume(tmp_path, checkpoint)) == ["kept elsewhere"]
    (tmp_path / "kept elsewhere").unlink()
    assert resume(tmp_path / "moved", checkpoint) == {}  # the program may have another base path now


def test_a_whole_bucket_may_be_taken_away(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(str(tmp_path), TEXT).with_bucket_assigner(FirstLetter()).build()
    before = run(sink)
    before[0].process(["a"])
    before.finish()
    checkpoint = before.checkpoint(1, CheckpointKind.FINAL)
    before.complete(1)
    shutil.rmtree(tmp_path / "a")
    run(sink, restore=checkpoint).close()
    assert finished(tmp_path) == {}


def test_going_back_to_before_a_file_was_finished_and_taken_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, checkpoint = in_progress_at_checkpoint(tmp_path)
    before.finish()
    before.checkpoint(2)
    before.complete(2)
    only_part(tmp_path).unlink()
    with caplog.at_level(logging.WARNING):
        assert ends_with(tmp_path, checkpoint, "new") == {"part-0-1": ["new"]}
    assert "its records will be written again" in caplog.text


def test_a_file_that_was_never_finished_and_is_gone_fails_the_job(tmp_path: Path) -> None:
    before, checkpoint = pending_at_checkpoint(tmp_path)
    before.close()
    hidden_part(tmp_path).unlink()
    with pytest.raises(
        UserCodeError, match="3 bytes of records are in the checkpoint, but neither"
    ) as caught:
        resume(tmp_path, checkpoint)
    (name,) = set(re.findall(r"part-[0-9a-f]{16}-0-0", str(caught.value)))
    confirmation = tmp_path / PROOFS_FOLDER / f".{name}"
    assert f"say so with an empty file for each: {confirmation}" in str(caught.value)
    confirmation.parent.mkdir()
    confirmation.touch()
    assert resume(tmp_path, checkpoint) == {}


def test_all_files_that_are_gone_are_named_and_none_is_finished(tmp_path: Path) -> None:
    before = run(row_sink(tmp_path, part_size=1))
    before[0].process(list("abcd"))
    checkpoint = before.checkpoint(1)
    before.close()
    hidden_part(tmp_path, 0).unlink()
    hidden_part(tmp_path, 2).unlink()
    with pytest.raises(UserCodeError, match=r"4 bytes of records .*-0-0 \(2 bytes\), .*-0-2 \(2 bytes\)"):
        resume(tmp_path, checkpoint)
    assert finished(tmp_path) == {}


def test_a_file_that_has_changed_since_the_checkpoint_fails_the_job(tmp_path: Path) -> None:
    before, checkpoint = pending_at_checkpoint(tmp_path)
    before.close()
    path = hidden_part(tmp_path)
    path.write_text("other things\n")
    with pytest.raises(UserCodeError, match="has 13 bytes, but had 3 at the checkpoint"):
        resume(tmp_path, checkpoint)
    path.rename(tmp_path / path.name.split(".")[1])
    with pytest.raises(UserCodeError, match="there is a file of that name with 13"):
        resume(tmp_path, checkpoint)


def test_a_file_of_somebody_else_is_never_replaced(tmp_path: Path) -> None:
    running, _ = pending_at_checkpoint(tmp_path)
    precious = tmp_path / hidden_part(tmp_path).name.split(".")[1]
    precious.write_text("precious")
    with pytest.raises(UserCodeError, match="another file has its name"):
        running.complete(1)
    assert precious.read_text() == "precious"


def test_a_look_that_fails_does_not_mean_that_nothing_is_there(tmp_path: Path) -> None:
    """Neither when files are finished nor when they go on."""
    out = tmp_path / "out"
    before, checkpoint = pending_at_checkpoint(out)
    before.close()
    out.rename(tmp_path / "away")
    out.symlink_to("out")
    with pytest.raises(UserCodeError, match="Too many levels of symbolic links"):
        resume(out, checkpoint)
    out.unlink()
    (tmp_path / "away").rename(out)
    assert resume(out, checkpoint) == {"part-0-0": ["aa"]}


def test_the_umask_decides_who_may_read_finished_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        running = run(row_sink(tmp_path), checkpointing=False)
        running[0].process(["a"])
        running.finish()
    finally:
        os.umask(before)
    assert only_part(tmp_path).stat().st_mode & 0o777 == 0o640


def test_without_checkpoints_nothing_but_part_files_is_left(tmp_path: Path) -> None:
    running = run(row_sink(tmp_path), checkpointing=False)
    running[0].process(["a"])
    running.finish()
    running.close()
    assert [path.name for path in tmp_path.iterdir()] == [only_part(tmp_path).name]


# What earlier versions left -----------------------------------------------------------------------------


def as_before(path: Path) -> Path:
    """The name that earlier versions gave to a file when it was rolled."""
    return path.rename(path.parent / path.name.replace(".inprogress.", ".pending."))


def test_a_file_of_an_earlier_version_is_finished(tmp_path: Path) -> None:
    before, checkpoint = pending_at_checkpoint(tmp_path)
    before.close()
    as_before(hidden_part(tmp_path))
    assert resume(tmp_path, checkpoint) == {"part-0-0": ["aa"]}
    assert resume(tmp_path, checkpoint) == {"part-0-0": ["aa"]}


def test_a_file_that_an_earlier_version_rolled_after_the_checkpoint_is_resumed(tmp_path: Path) -> None:
    before, checkpoint = pending_at_checkpoint(tmp_path)
    before.close()
    as_before(hidden_part(tmp_path, 1))
    assert ends_with(tmp_path, checkpoint, "new") == {"part-0-0": ["aa"], "part-0-1": ["b", "new"]}


def test_a_crash_between_the_two_steps_by_which_earlier_versions_finished_is_made_good(
    tmp_path: Path,
) -> None:
    before, checkpoint = pending_at_checkpoint(tmp_path)
    before.close()
    pending = as_before(hidden_part(tmp_path))
    os.link(pending, tmp_path / pending.name.split(".")[1])
    assert (resume(tmp_path, checkpoint), pending.exists()) == ({"part-0-0": ["aa"]}, False)


# Encoding and buckets ---------------------------------------------------------------------------------


def test_records_are_encoded_by_the_type_of_the_stream(tmp_path: Path) -> None:
    running = run(
        row_sink(tmp_path), type_info=Types.TUPLE([Types.STRING(), Types.INT()]), checkpointing=False
    )
    running[0].process([("a", 1)])
    running.finish()
    assert finished(tmp_path) == {"part-0-0": ["(a,1)"]}


class Moment(SinkFunction.Context):
    def __init__(self, millis: int) -> None:
        self._millis = millis

    def timestamp(self) -> int | None:
        return None

    def current_processing_time(self) -> int:
        return self._millis

    def current_watermark(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("pattern", "zone", "bucket"),
    [
        ("yyyy-MM-dd--HH", "UTC", "2018-07-22--17"),
        ("yyyy-MM-dd--HH", "Asia/Tokyo", "2018-07-23--02"),
        ("yyyy/MM/dd", "UTC", "2018/07/22"),
        ("'day='yyyyMMdd'/it''s 'HHmmss", "UTC", "day=20180722/it's 170102"),
        ("yy 100%", "UTC", "18 100%"),
    ],
)
def test_buckets_by_time(pattern: str, zone: str, bucket: str) -> None:
    assigner = BucketAssigner.date_time_bucket_assigner(pattern, zone)
    assert assigner.get_bucket_id("x", Moment(1532278862_345)) == bucket


def test_the_default_bucket_is_the_hour(tmp_path: Path) -> None:
    running = run(FileSink.for_row_format(str(tmp_path), TEXT).build(), checkpointing=False)
    running[0].process(["a"])
    running.finish()
    bucket = DateTimeBucketAssigner().bucket_at(running[0].services.now())
    assert list(finished(tmp_path)) == [f"{bucket}/part-0-0"]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="'QQQ', which is not supported"):
        BucketAssigner.date_time_bucket_assigner("QQQ")
    with pytest.raises(ProgramError, match="a quotation mark without a partner"):
        BucketAssigner.date_time_bucket_assigner("yyyy'x")
    with pytest.raises(ProgramError, match="unknown time zone 'Mars'"):
        BucketAssigner.date_time_bucket_assigner(timezone_id="Mars")
    with pytest.raises(ProgramError, match="part_size of a rolling policy must be above 0"):
        RollingPolicy.default_rolling_policy(part_size=0)
    with pytest.raises(ProgramError, match="must not contain '/'"):
        OutputFileConfig("a/b", "")
    with pytest.raises(WrongArgumentError, match="an Encoder"):
        FileSink.for_row_format("x", str)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="'ftp://x'"):
        FileSink.for_row_format("ftp://x", TEXT)
    with pytest.raises(ProgramError, match="at least 1 ms"):
        FileSink.for_row_format("x", TEXT).with_bucket_check_interval(0)
