import pytest

from firesteel.common.errors import ProgramError
from firesteel.connectors.datagen import DataGeneratorSource
from firesteel.connectors.rate_limit import RateLimiterStrategy
from firesteel.contracts.source import Boundedness


class Squares:
    """A generator object with a life cycle."""

    def open(self, context):
        self.subtask = context.subtask

    def map(self, index):
        return self.subtask, index * index

    def close(self):
        self.closed = True


def rate(records_per_second):
    return RateLimiterStrategy.per_second(records_per_second)


def test_the_function_is_called_with_every_index(drive):
    assert drive(DataGeneratorSource(lambda index: index * 10, 4)).values(limit=3) == [0, 10, 20, 30]


def test_an_object_is_opened_mapped_and_closed(drive):
    driven = drive(DataGeneratorSource(Squares(), 3))
    assert driven.values() == [(0, 0), (0, 1), (0, 4)]
    assert driven.reader._generator.closed


def test_subtasks_take_turns(drive):
    shares = [drive(DataGeneratorSource(lambda index: index, 8), subtask, 3).values() for subtask in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_without_a_count_it_never_ends(drive):
    source = DataGeneratorSource(lambda index: index)
    driven = drive(source, 1, 2)
    assert driven.poll(3).values == [1, 3, 5]
    assert not driven.poll(3).ended
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert DataGeneratorSource(lambda index: index, 1).boundedness is Boundedness.BOUNDED


def test_a_stopped_generator_ends(drive):
    driven = drive(DataGeneratorSource(lambda index: index))
    driven.poll(5)
    driven.reader.stop()
    assert driven.poll(5).ended


def test_no_records_end_at_once(drive):
    assert drive(DataGeneratorSource(lambda index: index, 0)).poll().ended


def test_a_thousand_per_second_is_one_every_millisecond(drive):
    driven = drive(DataGeneratorSource(lambda index: index, None, rate(1000)))
    start = driven.clock.now
    times = []
    for _ in range(1000):
        polled = driven.poll()
        assert len(polled.values) == 1
        times.append(polled.retry_at - start)
        driven.clock.now = polled.retry_at
    assert times == pytest.approx([n / 1000 for n in range(1, 1001)], abs=1e-5)


def test_a_high_rate_comes_in_groups_of_a_millisecond(drive):
    driven = drive(DataGeneratorSource(lambda index: index, 200_000, rate(200_000)))
    start = driven.clock.now
    sizes = [len(batch) for batch in driven.batches()]
    assert max(sizes) <= 201
    assert 995 <= len(sizes) <= 1010
    assert driven.clock.now - start == pytest.approx(1.0, abs=0.002)


def test_late_polls_keep_the_average_rate(drive):
    driven = drive(DataGeneratorSource(lambda index: index, None, rate(10_000)))
    start, count = driven.clock.now, 0
    while driven.clock.now < start + 1:
        polled = driven.poll()
        count += len(polled.values)
        driven.clock.now = polled.retry_at + 0.003
    assert count == pytest.approx(10_000, abs=50)


def test_a_long_stall_is_not_made_up_for(drive):
    driven = drive(DataGeneratorSource(lambda index: index, None, rate(200_000)))
    driven.poll()
    driven.clock.now += 5
    burst = driven.poll(100_000)
    assert len(burst.values) <= 201
    driven.clock.now = burst.retry_at
    assert len(driven.poll(100_000).values) <= 400


def test_a_batch_that_exceeds_the_limit_continues_at_once(drive):
    driven = drive(DataGeneratorSource(lambda index: index, None, rate(100_000)))
    driven.poll()
    driven.clock.now += 0.05
    polled = driven.poll(1024)
    assert len(polled.values) == 1024
    assert polled.retry_at == 0.0


def test_a_poll_before_the_time_gives_nothing(drive):
    driven = drive(DataGeneratorSource(lambda index: index, None, rate(10)))
    driven.poll()
    driven.clock.now += 0.05
    polled = driven.poll()
    assert polled.values == []
    assert polled.retry_at == pytest.approx(driven.clock.now + 0.05, abs=1e-5)


def test_the_rate_is_over_all_subtasks_which_alternate(drive):
    times = []
    for subtask in range(4):
        driven = drive(DataGeneratorSource(lambda index: index, 400, rate(100)), subtask, 4)
        start = driven.clock.now
        while True:
            polled = driven.poll()
            times += [driven.clock.now - start] * len(polled.values)
            if polled.ended:
                break
            driven.clock.now = polled.retry_at
    assert sorted(times) == pytest.approx([n / 100 for n in range(400)], abs=1e-5)


def test_what_is_no_generator_is_refused():
    with pytest.raises(ProgramError, match=r"function of the index or an object with map\(index\), got 3"):
        DataGeneratorSource(3, 1)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(value):
    with pytest.raises(ProgramError, match="above 0"):
        RateLimiterStrategy.per_second(value)
