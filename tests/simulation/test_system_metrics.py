"""What the system itself measures is exact: records, late ones, committables, watermarks, latency markers in their place."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from firesteel.common import Configuration, WatermarkStrategy
from firesteel.common.errors import InvalidOptionError
from firesteel.common.time import Time
from firesteel.contracts.sink import CommitRequest, Committer, Sink, SinkContext, SinkWriter
from firesteel.contracts.source import Polled, Source, SourceReader, SourceReaderContext
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import MapFunction, ProcessFunction, RuntimeContext
from firesteel.datastream.operators import OneInputStreamOperator
from firesteel.datastream.window import TumblingEventTimeWindows
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.metric_registry import MetricRegistry
from firesteel.testing import (
    CollectSink,
    Emit,
    ManualClock,
    Pause,
    ScriptedSource,
    WaitForCheckpoint,
    simulated_environment,
    use_simulator,
)

STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)


def finished(env: StreamExecutionEnvironment) -> MetricRegistry:
    """The metrics of a job that has run to its end."""
    client = env.execute_async("measured")
    assert isinstance(client, MasterJobClient)
    client.wait()
    return client._master.metrics


def total(metrics: Mapping[str, Any], name: str) -> int:
    """The sum over subtasks."""
    return sum(value for key, value in metrics.items() if key.partition(".")[2] == name)


@pytest.mark.parametrize("seed", range(5))
def test_records_and_bytes_are_exact_for_vertices_and_operators(seed: int) -> None:
    env = simulated_environment(seed=seed, parallelism=3)
    env.from_collection(list(range(100))).rebalance().filter(lambda n: n % 2 == 0).name("even").flat_map(
        lambda n: [n, n]
    ).name("twice").key_by(lambda n: n).reduce(lambda a, b: a + b).name("sum").add_sink(CollectSink())
    metrics = finished(env)
    source, middle, last = (metrics.vertex(number) for number in range(3))
    assert (total(source, "numRecordsIn"), total(source, "numRecordsOut")) == (0, 100)
    assert (total(middle, "numRecordsIn"), total(middle, "numRecordsOut")) == (100, 100)
    assert (total(middle, "even.numRecordsIn"), total(middle, "even.numRecordsOut")) == (100, 50)
    assert (total(middle, "twice.numRecordsIn"), total(middle, "twice.numRecordsOut")) == (50, 100)
    assert (total(last, "numRecordsIn"), total(last, "numRecordsOut")) == (100, 0)
    assert total(last, "sum.stateEntries") == 50
    for sender, receiver in ((source, middle), (middle, last)):
        assert 0 < total(sender, "numBytesOut") == total(receiver, "numBytesIn")
        assert 0 < total(sender, "numBuffersOut") == total(receiver, "numBuffersIn")


def test_a_record_to_all_receivers_counts_once_where_it_leaves() -> None:
    env = simulated_environment(parallelism=3)
    env.from_collection([1, 2]).broadcast().add_sink(CollectSink())
    metrics = finished(env)
    assert total(metrics.vertex(0), "numRecordsOut") == 2
    assert total(metrics.vertex(1), "numRecordsIn") == 6


@pytest.mark.parametrize("backend", ["hashmap", "disk"])
def test_state_is_told_also_when_it_has_been_closed(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    env = simulated_environment(
        parallelism=1, configuration=Configuration.from_dict({"state.backend.type": backend})
    )
    env.from_collection(list(range(30))).key_by(lambda n: n % 5).reduce(lambda a, b: a + b).name(
        "sum"
    ).add_sink(CollectSink())
    metrics = finished(env).vertex(1)
    assert (metrics["0.sum.stateEntries"], metrics["0.sum.stateSize"] > 0) == (5, True)
    assert caplog.records == []


@pytest.mark.parametrize("seed", range(3))
def test_late_records_are_counted(seed: int) -> None:
    env = simulated_environment(seed=seed, parallelism=1)
    script = ScriptedSource([Emit([1, 2]), Pause(1.0), Emit([5000]), Pause(1.0), Emit([3, 4, 5001])])
    stream = env.from_source(script, STAMPED, "Numbers")
    windows = stream.key_by(lambda n: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(1000)))
    windows.reduce(lambda a, b: a + b).name("windows").add_sink(CollectSink())
    metrics = finished(env)
    assert total(metrics.vertex(1), "windows.numLateRecordsDropped") == 2


@pytest.mark.parametrize("seed", range(3))
def test_records_that_a_function_fails_on_are_counted(seed: int) -> None:
    env = simulated_environment(seed=seed, parallelism=2)
    numbers = env.from_collection(list(range(-3, 8))).rebalance()
    numbers.map(lambda n: 1 // max(n, 0)).name("divide").on_error("drop").add_sink(CollectSink())
    metrics = finished(env)
    assert total(metrics.vertex(1), "divide.numRecordsInErrors") == 4
    assert total(metrics.vertex(1), "divide.numRecordsIn") == 11


def test_sources_tell_how_far_they_are_behind() -> None:
    with use_simulator(clock=ManualClock(1_000.0)):
        env = StreamExecutionEnvironment.get_execution_environment()
        script = ScriptedSource([Pause(5.0), Emit([1_000_500]), Pause(2.0)])
        env.from_source(script, STAMPED, "Numbers").add_sink(CollectSink())
        metrics = finished(env.set_parallelism(1)).subtask(0, 0)
    assert metrics["Source__Numbers.currentEmitEventTimeLag"] == 4500
    assert metrics["Source__Numbers.sourceIdleTime"] == 2000
    assert metrics["numRecordsIn"] == 0
    assert metrics["Source__Numbers.numRecordsOutPerSecond"] == pytest.approx(1 / 7)
    assert metrics["Source__Numbers.currentOutputWatermark"] == 2**63 - 1


class Countdown(Source):
    """Knows what is left, as long as its reader is open."""

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return CountdownReader(context)


class CountdownReader(SourceReader):
    def __init__(self, context: SourceReaderContext) -> None:
        self._now = context.now
        self._left = 3
        self._is_open = True

    def poll(self, limit: int) -> Polled:
        self._left -= 1
        return Polled([self._left], retry_at=self._now() + 1, ended=not self._left)

    def pending_records(self) -> int:
        assert self._is_open
        return self._left

    def close(self) -> None:
        self._is_open = False


def test_pending_records_are_asked_for_until_the_reader_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    env = simulated_environment(
        parallelism=1, configuration=Configuration.from_dict({"firesteel.metrics.interval": "1 ms"})
    )
    source = env.from_source(Countdown(), WatermarkStrategy.no_watermarks(), "Countdown")
    source.add_sink(CollectSink())
    assert finished(env).subtask(0, 0)["Source__Countdown.pendingRecords"] == 0
    assert caplog.records == []


# Checkpoints -------------------------------------------------------------------------------------------


class Batches(Sink):
    """Commits each record; the first try of every third one asks for another."""

    def create_writer(self, context: SinkContext) -> SinkWriter:
        return BatchWriter()

    def create_committer(self, context: SinkContext) -> Committer:
        return PickyCommitter()


class BatchWriter(SinkWriter):
    def __init__(self) -> None:
        self._values: list[int] = []

    def write(self, value: int, context: Any) -> None:
        self._values.append(value)

    def prepare_commit(self) -> list[int]:
        values, self._values = self._values, []
        return values


class PickyCommitter(Committer):
    def commit(self, requests: list[CommitRequest]) -> None:
        for request in requests:
            value = request.get_committable()
            if value % 3 == 0 and not request.retries:
                request.retry_later()
            elif value == 7:
                request.signal_failed_with_known_reason(ValueError("seven"))


def test_committables_and_checkpoints_are_counted(tmp_path: Path) -> None:
    env = simulated_environment(parallelism=1)
    env.enable_checkpointing(1000)
    env.get_checkpoint_config().set_checkpoint_storage_dir(tmp_path.as_uri())
    script = ScriptedSource([Emit([1, 2, 3]), WaitForCheckpoint(), Emit([6, 7])])
    env.from_source(script, WatermarkStrategy.no_watermarks(), "Numbers").sink_to(Batches()).name("Batches")
    metrics = finished(env)
    found = metrics.subtask(0, 0)
    names = ("pending", "total", "successful", "failed", "retried")
    assert [found[f"Sink__Batches.{name}Committables"] for name in names] == [0, 5, 4, 1, 2]
    job = metrics.job()
    assert job["numberOfCompletedCheckpoints"] >= 2
    ended = [job[f"numberOf{what}Checkpoints"] for what in ("Completed", "Failed", "InProgress")]
    assert job["totalNumberOfCheckpoints"] == sum(ended), (
        "those that were superseded have failed, as in Flink"
    )
    assert job["numRestarts"] == 0
    assert 0 < job["lastCheckpointSize"] <= job["lastCheckpointFullSize"]
    assert str(tmp_path) in job["lastCheckpointExternalPath"]
    assert job["lastCheckpointRestoreTimestamp"] == -1
    assert found["checkpointAlignmentTime"] == 0


class FailingOnce(MapFunction):
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def map(self, value: int) -> int:
        if value == 3 and not self._marker.exists():
            self._marker.touch()
            raise RuntimeError("once")
        return value


def test_restarts_are_counted_and_their_time_is_told(tmp_path: Path) -> None:
    env = simulated_environment(parallelism=1)
    env.enable_checkpointing(1000)
    script = ScriptedSource([Emit([1, 2]), WaitForCheckpoint(), Emit([3])])
    source = env.from_source(script, WatermarkStrategy.no_watermarks(), "Numbers")
    source.map(FailingOnce(tmp_path / "failed")).add_sink(CollectSink())
    metrics = finished(env)
    job = metrics.job()
    assert (job["numRestarts"], job["fullRestarts"]) == (1, 1)
    assert job["lastCheckpointRestoreTimestamp"] > 0
    assert metrics.vertex(0)["0.Map.numRecordsIn"] == 1, "counters begin anew with an attempt"


# Latency markers ---------------------------------------------------------------------------------------

SEEN: dict[int, list[tuple[str, int]]] = {}


class Watching(OneInputStreamOperator):
    """Notes records and markers in the order in which they come, by subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = SEEN.setdefault(runtime_context.get_index_of_this_subtask(), [])

    def process_element(self, value: int, timestamp: int | None) -> None:
        self.seen.append(("record", value))
        self.output.collect(value)

    def process_latency_marker(self, marked_time: int, source_id: str, source_subtask: int) -> None:
        self.seen.append(("marker", marked_time))


def with_markers(seed: int, granularity: str = "operator") -> StreamExecutionEnvironment:
    """Records that are the simulated moments at which they leave a source, which marks its time between them."""
    options = {"metrics.latency.interval": "700 ms", "metrics.latency.granularity": granularity}
    env = simulated_environment(seed=seed, parallelism=2, configuration=Configuration.from_dict(options))
    script = ScriptedSource([step for _ in range(20) for step in (Emit(["record"] * 3), Pause(1.0))])
    source = env.from_source(script, WatermarkStrategy.no_watermarks(), "Clock").set_parallelism(1)
    moments = source.process(Moments()).set_parallelism(1)
    watched = moments.rebalance().transform("Watching", Watching())
    watched.map(lambda v: v).name("Map").rebalance().add_sink(CollectSink()).name("Sink")
    return env


class Moments(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[int]:
        yield ctx.timer_service().current_processing_time()


@pytest.mark.parametrize("seed", range(10))
def test_markers_never_overtake_records_and_records_never_overtake_markers(seed: int) -> None:
    SEEN.clear()
    finished(with_markers(seed))
    everything = [what for seen in SEEN.values() for what, _ in seen]
    assert everything.count("record") == 60
    assert everything.count("marker") > 20
    for seen in SEEN.values():
        moments = [moment for _, moment in seen]
        assert moments == sorted(moments)


def test_latencies_are_there_for_every_operator_and_source() -> None:
    seed = 3
    job = finished(with_markers(seed)).job()
    counts = {name: value for name, value in job.items() if name.endswith("latency_count")}
    assert len(counts) == 7, "one operator beside the source, and three with two subtasks behind it"
    assert sum(counts.values()) == 4 * max(counts.values()), "a marker is seen once by each operator"
    by_subtask = finished(with_markers(seed, "subtask")).job()
    assert any(".source_subtask_index.0." in name for name in by_subtask)
    single = finished(with_markers(seed, "single")).job()
    assert not any("source_id" in name for name in single)
    assert any(name.startswith("latency.operator_id.") for name in single)


def test_without_an_interval_there_are_no_markers() -> None:
    SEEN.clear()
    env = simulated_environment(parallelism=2)
    env.from_collection([1, 2, 3]).rebalance().transform("Watching", Watching()).add_sink(CollectSink())
    job = finished(env).job()
    assert not any(name.startswith("latency") for name in job)
    assert {what for seen in SEEN.values() for what, _ in seen} == {"record"}


def test_set_latency_tracking_interval_is_the_option() -> None:
    SEEN.clear()
    env = simulated_environment(parallelism=1)
    env.get_config().set_latency_tracking_interval(100)
    env.from_collection([1]).rebalance().transform("Watching", Watching()).add_sink(CollectSink())
    assert any(name.startswith("latency.source_id") for name in finished(env).job())


# Reporters ---------------------------------------------------------------------------------------------

OWN_REPORTER = """
from firesteel.metrics import MetricReporter

TOLD = []


class Remembering(MetricReporter):
    def open(self, settings):
        self.name = settings["greeting"]

    def report(self, metrics):
        TOLD.append((self.name, {metric.logical_name: metric.value for metric in metrics}))
"""


def reporting(class_name: str, **more: str) -> Configuration:
    options = {"factory.class": class_name, "interval": "1 h", **more}
    return Configuration.from_dict({f"metrics.reporter.own.{key}": value for key, value in options.items()})


def test_a_reporter_of_ones_own_has_the_last_word_before_the_job_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_metric_reporter.py").write_text(OWN_REPORTER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    more = {"greeting": "hello", "filter.includes": "*:numRecordsIn"}
    env = simulated_environment(
        parallelism=1, configuration=reporting("own_metric_reporter:Remembering", **more)
    )
    env.from_collection([1, 2, 3]).rebalance().add_sink(CollectSink())
    env.execute()
    told: Any = importlib.import_module("own_metric_reporter").TOLD
    name, metrics = told[-1]
    assert name == "hello"
    assert metrics["taskmanager.job.task.numRecordsIn"] == 3
    assert {each.rpartition(".")[2] for each in metrics} == {"numRecordsIn"}


def test_a_reporter_that_is_none_is_refused_before_the_job_starts() -> None:
    env = simulated_environment(parallelism=1, configuration=reporting("no_such_module:Reporter"))
    env.from_collection([1]).add_sink(CollectSink())
    with pytest.raises(InvalidOptionError, match="expected a class of Flink's or 'module:Class' of your own"):
        env.execute()


class OwnName(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_metrics_group().gauge("numRecordsIn", lambda: 7)

    def map(self, value: int) -> int:
        return value


def test_a_function_may_use_a_name_of_the_system_and_reporters_keep_that_of_the_system() -> None:
    env = simulated_environment(parallelism=1)
    env.from_collection([1, 2]).map(OwnName()).add_sink(CollectSink())
    client: Any = env.execute_async()
    client.wait()
    assert client.metrics().total("numRecordsIn").maximum == 7
    of_map = [m for m in client.all_metrics() if m.variables.get("operator_name") == "Map"]
    assert [metric.value for metric in of_map if metric.name == "numRecordsIn"] == [2]
