from collections import Counter

import pytest

from firesteel.common import Configuration, Duration, WatermarkStrategy
from firesteel.common.errors import ProgramError, WrongArgumentError
from firesteel.connectors.hybrid.messages import HybridSplit
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader
from firesteel.datastream import MapFunction, ProcessFunction
from firesteel.datastream.connectors import (
    DataGeneratorSource,
    FileSource,
    NumberSequenceSource,
    RateLimiterStrategy,
    StreamFormat,
)
from firesteel.datastream.connectors.hybrid_source import HybridSource
from firesteel.testing import simulated_environment

RESTARTS = {
    "execution.checkpointing.interval": "10 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "1 ms",
}


def numbers(env, source, strategy=None):
    return env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "hybrid")


def lines(*files):
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), *files).build()


@pytest.fixture
def files(tmp_path):
    for name, part in {"a": range(40), "b": range(40, 70)}.items():
        (tmp_path / name).write_text("".join(f"file {n}\n" for n in part))
    return tmp_path


class FailsOnce(MapFunction):
    """Fails at the first record that it likes, in the first attempts."""

    left: Counter

    def __init__(self, *at):
        self._at = at

    def map(self, value):
        if value in self._at and FailsOnce.left[value] > 0:
            FailsOnce.left[value] -= 1
            raise RuntimeError("on purpose")
        return value


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_sources_are_read_one_after_the_other(files, seed, parallelism):
    source = HybridSource.builder(lines(str(files))).add_source(NumberSequenceSource(1, 100)).build()
    found = list(numbers(simulated_environment(seed, parallelism), source).execute_and_collect())
    assert sorted(map(str, found)) == sorted([f"file {n}" for n in range(70)] + list(map(str, range(1, 101))))
    if parallelism == 1:
        assert found[70:] == list(range(1, 101))


def test_the_next_source_begins_when_all_readers_have_read_theirs(files):
    source = HybridSource.builder(NumberSequenceSource(1, 200)).add_source(lines(str(files))).build()
    env = simulated_environment(3, 3)
    found = list(numbers(env, source).rebalance().map(lambda x: x).set_parallelism(1).execute_and_collect())
    first_file = next(index for index, value in enumerate(found) if isinstance(value, str))
    # What was sent before may be on its way when the next source begins, but nothing is read out of turn.
    assert Counter(found)[200] == 1
    assert first_file > 0


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_failures_neither_lose_nor_repeat_records_of_any_source(files, seed, parallelism):
    FailsOnce.left = Counter({20: 2, "file 5": 1, "file 69": 1, 130: 1})
    source = (
        HybridSource.builder(NumberSequenceSource(1, 50))
        .add_source(lines(str(files)))
        .add_source(NumberSequenceSource(101, 150))
        .build()
    )
    env = simulated_environment(seed, parallelism, Configuration.from_dict(RESTARTS))
    stream = numbers(env, source).map(FailsOnce(20, "file 5", "file 69", 130))
    found = Counter(stream.execute_and_collect())
    assert found == Counter([*range(1, 51), *(f"file {n}" for n in range(70)), *range(101, 151)])
    assert not +FailsOnce.left


class Watermarks(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


def test_what_was_read_before_does_not_hold_time_back():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    slow = DataGeneratorSource(lambda n: 1000 + n, 500, RateLimiterStrategy.per_second(1000))
    source = HybridSource.builder(NumberSequenceSource(1, 10)).add_source(slow)
    env = simulated_environment(0, 1)
    env.get_config().set_auto_watermark_interval(1)
    found = list(
        numbers(env, source.build(), strategy).map(lambda x: x).process(Watermarks()).execute_and_collect()
    )
    assert max(watermark for _, watermark in found) >= 1000


class Endless(Source):
    @property
    def boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_reader(self, context):
        return EndlessReader()


class EndlessReader(SourceReader):
    def __init__(self):
        self.next = 1000

    def poll(self, limit):
        self.next += 1
        return Polled([self.next])


def test_the_last_source_may_have_no_end():
    source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(Endless()).build()
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    found = numbers(simulated_environment(0, 1), source).execute_and_collect(limit=6)
    assert found == [1, 2, 3, 1001, 1002, 1003]


def test_a_source_without_end_is_refused_before_another_one():
    with pytest.raises(ProgramError, match="Endless has no end, so nothing behind it would ever be read"):
        HybridSource.builder(Endless()).add_source(NumberSequenceSource(1, 2))


def test_what_is_no_source_is_refused():
    with pytest.raises(WrongArgumentError, match="needs a Source, got 'x'"):
        HybridSource.builder("x")


def test_splits_of_a_checkpoint_stay_part_of_checkpoints_until_they_are_read(drive):
    source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(NumberSequenceSource(4, 6)).build()
    reader = drive(source, splits=[]).reader
    kept = [HybridSplit(1, range(5, 7))]
    reader.add_splits(kept)
    assert reader.snapshot_state(1) == kept


def test_continuous_files_can_be_last(files):
    watched = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(files))
        .monitor_continuously(Duration.of_millis(10))
        .build()
    )
    source = HybridSource.builder(NumberSequenceSource(1, 5)).add_source(watched).build()
    found = numbers(simulated_environment(1, 2), source).execute_and_collect(limit=75)
    assert sorted(map(str, found)) == sorted([*map(str, range(1, 6)), *(f"file {n}" for n in range(70))])


class Counted(Source):
    """Tells by metrics how much it has given."""

    def create_reader(self, context):
        return CountedReader(context)


class CountedReader(SourceReader):
    def __init__(self, context):
        self._left = 3
        self._given = context.metric_group().counter("given")

    def poll(self, limit):
        self._given.inc()
        self._left -= 1
        return Polled([self._left], ended=self._left == 0)

    def pending_records(self):
        return self._left


def test_readers_have_metrics_of_their_own_also_in_a_hybrid_source():
    env = simulated_environment(parallelism=1)
    numbers(env, Counted()).map(lambda n: n).print()
    metrics = env.execute().metrics()
    assert metrics.total("given") == 3
    assert metrics.total("pendingRecords").maximum == 0
    env = simulated_environment(parallelism=1)
    hybrid = HybridSource.builder(Counted()).add_source(Counted()).build()
    numbers(env, hybrid).print()
    metrics = env.execute().metrics()
    assert [metrics.total(f"source.{n}.given") for n in (0, 1)] == [3, 3]
    assert metrics.total("pendingRecords").maximum == 0
