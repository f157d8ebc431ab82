"""Files, checkpoints and savepoints in a store that speaks S3: a real server, jobs in the simulator."""

from __future__ import annotations

import gzip
import io
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from firesteel.common import Configuration, Duration, Encoder, Types, WatermarkStrategy, _store_settings
from firesteel.common.errors import FiresteelError, StorageError
from firesteel.common.job_status import JobStatus
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.connectors import RateLimiterStrategy
from firesteel.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from firesteel.datastream.formats.parquet import ParquetBulkWriters
from firesteel.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from firesteel.datastream.state import ValueStateDescriptor
from firesteel.plan.operator_specs import WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing import simulated_environment
from firesteel.testing.checkpoint_harness import CheckpointHarness
from firesteel_support.servers.s3 import ObjectStore

LINES = StreamFormat.text_line_format()
TEXT = Encoder.simple_string_encoder()
SECRET = "a secret that nobody prints"
RESTARTS = {
    "execution.checkpointing.interval": "60 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "1 ms",
}


@pytest.fixture
def bucket(s3: ObjectStore) -> str:
    """A bucket of one's own."""
    return s3.make_bucket(f"bucket-{uuid.uuid4().hex[:12]}")


def environment(s3: ObjectStore, parallelism: int = 2, seed: int = 0) -> StreamExecutionEnvironment:
    return simulated_environment(seed, parallelism, Configuration.from_dict(s3.options))


def read(env: StreamExecutionEnvironment, *uris: str) -> DataStream[str]:
    source = FileSource.for_record_stream_format(LINES, *uris).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "files")


def numbers(env: StreamExecutionEnvironment, end: int) -> DataStream[int]:
    """From 1 on, a thousand in a second of the job's time, so that there are many checkpoints meanwhile."""
    pace = RateLimiterStrategy.per_second(1000)
    return env.from_data_gen(lambda number: number + 1, end, pace, type_info=Types.LONG())


def collected(stream: DataStream[Any]) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


class FailsOnce(MapFunction):
    """Raises in the middle of the first attempt."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._seen = 0
        self._is_first = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self._is_first = runtime_context.get_attempt_number() == 0

    def map(self, value: Any) -> Any:
        self._seen += 1
        if self._is_first and self._seen == self._after:
            raise RuntimeError("a failure")
        return value


# Reading ----------------------------------------------------------------------------------------------


def test_a_folder_of_objects_is_read_with_all_below_it_and_without_hidden_names(
    s3: ObjectStore, bucket: str
) -> None:
    s3.put(f"{bucket}/in/a.txt", b"1\n2\r\n")
    s3.put(f"{bucket}/in/below/b.txt.gz", gzip.compress(b"3\n4"))
    s3.put(f"{bucket}/in/_hidden", b"5\n")
    s3.put(f"{bucket}/in/.below/c.txt", b"6\n")
    s3.put(f"{bucket}/other/d.txt", b"7\n")

    assert sorted(collected(read(environment(s3), f"{bucket}/in"))) == ["1", "2", "3", "4"]


def test_a_pattern_means_the_objects_that_match(s3: ObjectStore, bucket: str) -> None:
    for name in ("a-1.txt", "a-2.csv", "b/a-3.txt", "b/c/a-4.txt"):
        s3.put(f"{bucket}/in/{name}", f"{name}\n".encode())

    def found(pattern: str) -> list[str]:
        return sorted(collected(read(environment(s3), f"{bucket}/{pattern}")))

    assert found("in/*.txt") == ["a-1.txt"]
    assert found("in/*/*.txt") == ["b/a-3.txt"]
    assert found("in/**/*.txt") == ["a-1.txt", "b/a-3.txt", "b/c/a-4.txt"]
    assert found("in/b*") == ["b/a-3.txt", "b/c/a-4.txt"]


def test_a_large_object_is_read_in_several_pieces(s3: ObjectStore, bucket: str) -> None:
    lines = [f"line {number} of a large file" for number in range(120_000)]
    s3.put(f"{bucket}/large.txt", "\n".join(lines).encode())

    assert sorted(collected(read(environment(s3), f"{bucket}/large.txt"))) == sorted(lines)


def test_read_text_file_and_read_file_take_uris(s3: ObjectStore, bucket: str) -> None:
    s3.put(f"{bucket}/a b.txt", b"1\n2\n")
    assert sorted(collected(environment(s3).read_text_file(f"{bucket}/a b.txt"))) == ["1", "2"]
    assert sorted(collected(environment(s3).read_file(LINES, f"{bucket}/a b.txt"))) == ["1", "2"]


def test_new_objects_are_found_while_the_job_runs(s3: ObjectStore, bucket: str) -> None:
    source = (
        FileSource.for_record_stream_format(LINES, f"{bucket}/in")
        .monitor_continuously(Duration.of_millis(20))
        .build()
    )
    stream = environment(s3).from_source(source, WatermarkStrategy.no_watermarks(), "files")
    with stream.execute_and_collect() as results:
        s3.put(f"{bucket}/in/1", b"one\n")
        assert next(results) == "one"
        s3.put(f"{bucket}/in/2", b"two\n")
        assert next(results) == "two"


# Writing ----------------------------------------------------------------------------------------------


def written(s3: ObjectStore, uri: str) -> list[str]:
    """The lines of all finished files."""
    finished = [key for key in s3.keys(uri) if not any(name.startswith(".") for name in key.split("/"))]
    root = uri.removeprefix("s3://").partition("/")[0]
    return [line for key in finished for line in s3.get(f"s3://{root}/{key}").decode().splitlines()]


def row_sink(uri: str) -> FileSink.RowFormatBuilder:
    return (
        FileSink.for_row_format(uri, TEXT)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=200))
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_record_is_written_once_although_the_job_fails(s3: ObjectStore, bucket: str, seed: int) -> None:
    env = environment(s3, seed=seed)
    env.configure(Configuration.from_dict(RESTARTS))
    numbers(env, 400).map(FailsOnce(120)).map(str, Types.STRING()).sink_to(row_sink(f"{bucket}/out").build())
    env.execute()

    assert Counter(written(s3, f"{bucket}/out")) == Counter(map(str, range(1, 401)))


def test_parquet_files_are_written_once(s3: ObjectStore, bucket: str) -> None:
    row = Types.ROW_NAMED(["number"], [Types.LONG()])
    sink = (
        FileSink.for_bulk_format(f"{bucket}/out", ParquetBulkWriters.for_row_type(row))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    env = environment(s3)
    env.configure(Configuration.from_dict(RESTARTS))
    numbers(env, 400).map(FailsOnce(120)).map(lambda number: (number,), row).sink_to(sink)
    env.execute()

    name = bucket.removeprefix("s3://")
    tables = [
        parquet.read_table(io.BytesIO(s3.get(f"s3://{name}/{key}"))) for key in s3.keys(f"{bucket}/out/part-")
    ]
    found = [number for table in tables for number in table.column("number").to_pylist()]
    assert sorted(found) == list(range(1, 401))


def test_small_files_are_compacted_before_they_are_seen(s3: ObjectStore, bucket: str) -> None:
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build()
    sink = row_sink(f"{bucket}/out").enable_compact(strategy, FileCompactor.concat_file_compactor()).build()
    env = environment(s3)
    env.configure(Configuration.from_dict(RESTARTS))
    numbers(env, 400).map(FailsOnce(120)).map(str, Types.STRING()).sink_to(sink)
    env.execute()

    assert Counter(written(s3, f"{bucket}/out")) == Counter(map(str, range(1, 401)))
    names = [key.rpartition("/")[2] for key in s3.keys(f"{bucket}/out")]
    assert all(name.startswith(("compacted-part-", ".")) for name in names)


def test_records_go_into_buckets_of_the_store(s3: ObjectStore, bucket: str) -> None:
    sink = FileSink.for_row_format(f"{bucket}/out", TEXT).with_bucket_assigner(EvenAndOdd()).build()
    env = environment(s3)
    env.from_sequence(1, 10).map(str, Types.STRING()).sink_to(sink)
    env.execute()

    assert sorted(written(s3, f"{bucket}/out/even/number")) == ["10", "2", "4", "6", "8"]
    assert sorted(written(s3, f"{bucket}/out/odd/number")) == ["1", "3", "5", "7", "9"]


class EvenAndOdd(BucketAssigner):
    """Two folders in folders."""

    def get_bucket_id(self, element: Any, context: Any) -> str:
        return f"{'odd' if int(element) % 2 else 'even'}/number"


# Checkpoints ------------------------------------------------------------------------------------------


class CountPerKey(KeyedProcessFunction):
    """The n-th record of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield (value % 5, count)


def test_a_job_resumes_from_checkpoints_in_the_store(s3: ObjectStore, bucket: str) -> None:
    env = environment(s3)
    env.configure(
        Configuration.from_dict({**RESTARTS, "execution.checkpointing.dir": f"{bucket}/checkpoints"})
    )
    counts = numbers(env, 500).map(FailsOnce(120)).key_by(lambda number: number % 5).process(CountPerKey())
    results = collected(counts)

    assert Counter(results) == Counter((key, count) for key in range(5) for count in range(1, 101))


def test_a_savepoint_in_the_store_is_started_from(s3: ObjectStore, bucket: str) -> None:
    env = environment(s3)
    s3.put(f"{bucket}/in/1", b"".join(b"%d\n" % number for number in range(10)))
    source = (
        FileSource.for_record_stream_format(LINES, f"{bucket}/in")
        .monitor_continuously(Duration.of_millis(20))
        .build()
    )

    def build(env: StreamExecutionEnvironment) -> None:
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").uid("files")
        numbers = lines.map(int, Types.INT())
        counts = numbers.key_by(lambda number: number % 5).process(CountPerKey()).uid("counts")
        counts.map(str, Types.STRING()).sink_to(row_sink(f"{bucket}/out").build()).uid("sink")

    env.configure(Configuration.from_dict(RESTARTS))
    build(env)
    client = env.execute_async()
    wait_until(lambda: len(written(s3, f"{bucket}/out")) == 10)
    path = client.stop_with_savepoint(False, f"{bucket}/savepoints").result()
    assert path.startswith(f"{bucket}/savepoints/")

    s3.put(f"{bucket}/in/2", b"".join(b"%d\n" % number for number in range(5)))
    env = environment(s3, parallelism=1)
    env.configure(Configuration.from_dict({**RESTARTS, "execution.state-recovery.path": path}))
    build(env)
    client = env.execute_async()
    wait_until(lambda: len(written(s3, f"{bucket}/out")) == 15)
    client.cancel().result()
    assert Counter(written(s3, f"{bucket}/out")) == Counter(
        str((key, count)) for key in range(5) for count in range(1, 4)
    )


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


# Trouble ----------------------------------------------------------------------------------------------


class FreezesServer(MapFunction):
    """Stops the server once, in the middle of the first attempt."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._seen = 0
        self._is_first = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self._is_first = runtime_context.get_attempt_number() == 0

    def map(self, value: Any) -> Any:
        import os
        import signal

        self._seen += 1
        if self._is_first and self._seen == 150:
            os.kill(self._process, signal.SIGSTOP)
        return value


def test_a_store_that_does_not_answer_for_a_while_costs_time_and_no_record(
    s3: ObjectStore, bucket: str
) -> None:
    env = environment(s3)
    env.configure(
        Configuration.from_dict(
            {
                **RESTARTS,
                "execution.checkpointing.dir": f"{bucket}/checkpoints",
                "s3.connection.timeout": "1 s",
                "s3.connection.establish.timeout": "1 s",
                "s3.attempts.maximum": "1",
            }
        )
    )
    for number in range(8):
        s3.put(f"{bucket}/in/{number}", "".join(f"{number * 50 + line}\n" for line in range(1, 51)).encode())
    read(env, f"{bucket}/in").map(FreezesServer(s3.process)).sink_to(row_sink(f"{bucket}/out").build())
    client = env.execute_async()
    try:
        wait_until(
            lambda: bool(client.get_failures()) or client.get_job_status().result() is JobStatus.FINISHED
        )
    finally:
        s3.server.thaw()
    client.get_job_execution_result().result()

    assert Counter(written(s3, f"{bucket}/out")) == Counter(map(str, range(1, 401)))


def test_a_source_that_looks_again_and_again_outlasts_a_store_that_does_not_answer(
    s3: ObjectStore, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = (
        FileSource.for_record_stream_format(LINES, f"{bucket}/in")
        .monitor_continuously(Duration.of_millis(20))
        .build()
    )
    env = environment(s3)
    env.configure(Configuration.from_dict({"s3.connection.timeout": "1 s", "s3.attempts.maximum": "1"}))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    with stream.execute_and_collect() as results:
        s3.put(f"{bucket}/in/1", b"one\n")
        assert next(results) == "one"
        s3.server.freeze()
        try:
            wait_until(lambda: "the file source could not look everywhere" in caplog.text)
        finally:
            s3.server.thaw()
        s3.put(f"{bucket}/in/2", b"two\n")
        assert next(results) == "two"
    assert "the store does not answer" in caplog.text


def test_a_program_that_moves_to_a_store_finishes_on_disk_what_it_has_there(
    s3: ObjectStore, bucket: str, tmp_path: Path
) -> None:
    _store_settings.use_only(Configuration.from_dict(s3.options))

    def run(base: str, **more: Any) -> CheckpointHarness:
        sink = row_sink(base).build()
        return CheckpointHarness(WriterSinkSpec(Shipped.of(sink, "sink_to"), None), 1, **more)

    running = run(str(tmp_path))
    running[0].process([*"a" * 110, "b"])  # one file is closed, one is in progress
    taken = running.checkpoint(1)
    running.close()
    running = run(f"{bucket}/out", restore=taken)
    running[0].process(["c"])
    running.checkpoint(2)
    running.complete(2)
    on_disk = [line for path in tmp_path.glob("part-*") for line in path.read_text().split()]
    assert Counter(on_disk + written(s3, f"{bucket}/out")) == Counter({"a": 110, "b": 1, "c": 1})
    running[0].process(["d"])
    running.checkpoint(3)
    running.complete(3)
    assert "d" in written(s3, f"{bucket}/out")


def message_of(act: Callable[[], object]) -> str:
    with pytest.raises((FiresteelError, StorageError)) as caught:
        act()
    texts, error = [], caught.value
    while error is not None:
        texts += [str(error), *getattr(error, "__notes__", [])]
        error = error.__cause__
    return "\n".join(texts)


def read_there(env: StreamExecutionEnvironment, uri: str) -> object:
    return collected(read(env, f"{uri}/in"))


def write_there(env: StreamExecutionEnvironment, uri: str) -> object:
    env.from_sequence(1, 10).map(str, Types.STRING()).sink_to(row_sink(f"{uri}/out").build())
    return env.execute()


def checkpoint_there(env: StreamExecutionEnvironment, uri: str) -> object:
    env.configure(
        Configuration.from_dict(
            {"execution.checkpointing.interval": "20 ms", "execution.checkpointing.dir": f"{uri}/checkpoints"}
        )
    )
    return collected(env.from_sequence(1, 10))


EVERY_USE = pytest.mark.parametrize("use", [read_there, write_there, checkpoint_there])


@EVERY_USE
def test_a_bucket_that_is_not_there_is_named(s3: ObjectStore, use: Any) -> None:
    text = message_of(lambda: use(environment(s3), "s3://no-such-bucket"))
    assert "no-such-bucket" in text
    assert "there is no bucket 'no-such-bucket' at this store" in text or "there is no such bucket" in text


@EVERY_USE
def test_keys_that_the_store_refuses_are_not_printed(
    s3: ObjectStore, bucket: str, use: Any, caplog: pytest.LogCaptureFixture
) -> None:
    s3.put(f"{bucket}/in/1", b"1\n")
    caplog.set_level(logging.DEBUG)
    s3.require_keys(True)
    try:
        text = message_of(lambda: use(environment(s3), bucket))
    finally:
        s3.require_keys(False)
    assert "the store refuses these keys; check 's3.access-key' and 's3.secret-key'" in text
    assert SECRET not in text + caplog.text


@EVERY_USE
def test_a_store_that_cannot_be_reached_is_told(s3: ObjectStore, bucket: str, use: Any) -> None:
    env = environment(s3)
    env.configure(Configuration.from_dict({"s3.endpoint": "http://127.0.0.1:1", "s3.attempts.maximum": "1"}))
    assert "the store does not answer; check 's3.endpoint'" in message_of(lambda: use(env, bucket))


def test_one_key_without_the_other_is_told(s3: ObjectStore, bucket: str) -> None:
    env = simulated_environment(
        0, 1, Configuration.from_dict({"s3.endpoint": s3.endpoint, "s3.access-key": "only"})
    )
    text = message_of(lambda: read_there(env, bucket))
    assert "option 's3.access-key' is given, but 's3.secret-key' is not" in text
