"""The bases for connectors: threads, event loops, acknowledgements, batches and staged batches, with real threads."""

from __future__ import annotations

import asyncio
import pickle
import queue
import threading
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from typing import Any

import pytest

from firesteel.common.errors import InvalidArgumentError, JobExecutionError, UserCodeError
from firesteel.common.serialization import DeserializationSchema
from firesteel.connectors import hand_over
from firesteel.connectors.hand_over import HandOver
from firesteel.contracts.source import Polled, SourceReaderContext
from firesteel.datastream.connectors import DeliveryGuarantee
from firesteel.datastream.connectors.base import (
    AcknowledgingClient,
    AcknowledgingSource,
    AsyncSource,
    Backoff,
    BatchClient,
    BatchingSink,
    BlockingSource,
    Boundedness,
    Decoded,
    Delivery,
    Fetched,
    RetryError,
    SinkContext,
    SourceReader,
    StagedBatch,
    StagedClient,
    StagingSink,
    decode,
)
from firesteel.formats.decoding import end_of_stream
from firesteel.testing import CheckpointHarness, check_sink, check_source

EXACTLY, AT_LEAST = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE
PATIENCE = 60.0

EXPECTED = [(letter, number) for letter in "abc" for number in range(25)]


def letter_of(value: tuple[str, int]) -> str:
    return value[0]


class Woken:
    """Drives a reader as a task does: polls, and sleeps until it is woken."""

    def __init__(self, source: Any, checkpointing: bool = True) -> None:
        self.event = threading.Event()
        context = SourceReaderContext(0, 1, lambda: 0.0, self.event.set, checkpointing=checkpointing)
        self.reader: SourceReader = source.create_reader(context)
        splits = source.splits_of(0, 1)
        if splits is not None:
            self.reader.add_splits(splits)
            self.reader.notify_no_more_splits()

    def poll(self, limit: int = 1024) -> Polled:
        """The next poll that gives something."""
        while True:
            self.event.clear()
            polled = self.reader.poll(limit)
            if polled.values or polled.bad or polled.ended:
                return polled
            assert self.event.wait(PATIENCE), "nobody woke the task"


# Blocking and asyncio clients -----------------------------------------------------------------------------


class Blocking(BlockingSource):
    """Three splits of 25 numbers, in batches of 4; ends."""

    boundedness = Boundedness.BOUNDED  # type: ignore[assignment]

    def splits(self) -> Mapping[Hashable, Any]:
        return dict.fromkeys("abc", 0)

    def read(self, positions: Mapping[Hashable, Any]) -> Iterator[Fetched | None]:
        yield None
        for letter, start in positions.items():
            for first in range(start, 25, 4):
                numbers = range(first, min(first + 4, 25))
                values = [(letter, number) for number in numbers]
                yield Fetched(values, letter, [number + 1 for number in numbers], ended=first + 4 >= 25)


class Async(AsyncSource):
    def splits(self) -> Mapping[Hashable, Any]:
        return dict.fromkeys("abc", 0)

    async def read(self, positions: Mapping[Hashable, Any]) -> AsyncIterator[Fetched]:
        for letter, start in positions.items():
            await asyncio.sleep(0)
            for first in range(start, 25, 4):
                numbers = range(first, min(first + 4, 25))
                yield Fetched([(letter, n) for n in numbers], letter, range(first + 1, numbers.stop + 1))
        await asyncio.Event().wait()  # more may come, and never does


@pytest.mark.parametrize("source", [Blocking, Async])
def test_sources_with_a_thread_pass_the_check(source: Callable[[], Any]) -> None:
    check_source(source, EXPECTED, split_of=letter_of)


def test_positions_in_a_checkpoint_are_those_of_polls_not_of_the_thread() -> None:
    driven = Woken(Blocking())
    assert driven.poll(3).values == [("a", 0), ("a", 1), ("a", 2)]
    assert driven.reader.snapshot_state(1)[0] == ("a", 3)
    assert driven.poll(100).values == [("a", 3)]
    assert driven.reader.snapshot_state(2) == [("a", 4), ("b", 0), ("c", 0)]
    driven.reader.close()


def test_a_fast_client_waits_for_a_slow_job(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Endless(BlockingSource):
        def read(self, positions: Mapping[Hashable, Any]) -> Iterator[Fetched | None]:
            for number in range(1_000_000_000):
                read.append(number)
                yield Fetched([number])

    driven = Woken(Endless())
    driven.poll()
    reading = driven.reader._reading  # type: ignore[attr-defined]
    while reading.hand_over._waiting < hand_over.CAPACITY:
        threading.Event().wait(0.001)
    assert len(read) <= hand_over.CAPACITY + 3
    driven.reader.close()


def test_a_batch_that_finds_no_room_waits_and_is_refused_after_the_end() -> None:
    full = HandOver(lambda: None, capacity=2)
    assert full.offer("a", 2)
    assert not full.offer("b", 1)
    assert full.take() == "a"
    assert full.offer("b", 1)
    full.close()
    assert not full.put("c", 1)
    assert full.take() is None


def test_an_error_comes_behind_the_records_before_it() -> None:
    class Breaks(BlockingSource):
        def read(self, positions: Mapping[Hashable, Any]) -> Iterator[Fetched | None]:
            yield Fetched([1, 2])
            raise ValueError("a record of the wrong kind")

    driven = Woken(Breaks())
    assert driven.poll(1).values == [1]
    assert driven.poll(1).values == [2]
    with pytest.raises(ValueError, match="a record of the wrong kind"):
        driven.poll()
    driven.reader.close()


class Flaky(Blocking):
    """Loses its connection after every batch."""

    backoff = Backoff(first=0.0, most=0.0, tries=2)

    def read(self, positions: Mapping[Hashable, Any]) -> Iterator[Fetched | None]:
        for batch in super().read(positions):
            if batch is not None:
                yield batch
                raise ConnectionResetError("cut")


class FlakyAsync(Async):
    backoff = Backoff(first=0.0, most=0.0, tries=2)

    async def read(self, positions: Mapping[Hashable, Any]) -> AsyncIterator[Fetched]:
        async for batch in super().read(positions):
            yield batch
            raise ConnectionResetError("cut")


@pytest.mark.parametrize("source", [Flaky, FlakyAsync])
def test_a_lost_connection_goes_on_at_the_last_position(source: Callable[[], Any]) -> None:
    check_source(source, EXPECTED, split_of=letter_of, seeds=range(3))


@pytest.mark.parametrize("base", [BlockingSource, AsyncSource])
def test_tries_run_out_and_the_error_says_how_many_there_were(base: Any) -> None:
    calls: list[int] = []

    class Down(base):  # type: ignore[misc]
        backoff = Backoff(first=0.0, most=0.0, tries=3)

        def read(self, positions: Mapping[Hashable, Any]) -> Any:
            calls.append(1)
            raise ConnectionRefusedError("nobody listens")

    driven = Woken(Down())
    sentence = "reading with Down failed in 4 tries: ConnectionRefusedError: nobody listens"
    with pytest.raises(JobExecutionError, match=sentence):
        driven.poll()
    assert len(calls) == 4
    driven.reader.close()


@pytest.mark.parametrize("base", [BlockingSource, AsyncSource])
def test_closing_ends_the_generator_in_its_thread(base: Any) -> None:
    closed = threading.Event()

    class Waits(BlockingSource):
        def read(self, positions: Mapping[Hashable, Any]) -> Iterator[Fetched | None]:
            try:
                yield Fetched([1])
                while True:
                    yield None
            finally:
                closed.set()

    class WaitsAsync(AsyncSource):
        async def read(self, positions: Mapping[Hashable, Any]) -> AsyncIterator[Fetched]:
            try:
                yield Fetched([1])
                await asyncio.Event().wait()
            finally:
                closed.set()

    driven = Woken(Waits() if base is BlockingSource else WaitsAsync())
    assert driven.poll().values == [1]
    driven.reader.close()
    assert closed.is_set()


def test_a_batch_whose_positions_do_not_fit_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"2 records of the split 'a' has 1 positions; each record needs one"
    ):
        Fetched([1, 2], "a", [1])


def test_splits_that_come_later_are_read_too_and_nothing_twice() -> None:
    driven = Woken(Blocking())
    given = list(driven.poll(2).values)
    splits = driven.reader.snapshot_state(1)
    driven.reader.add_splits([type(splits[0])("d", 20)])
    while not (polled := driven.poll()).ended:
        given += polled.values
    driven.reader.close()
    assert sorted(given) == sorted([*EXPECTED, *(("d", n) for n in range(20, 25))])


@pytest.mark.parametrize("base", [BlockingSource, AsyncSource])
def test_a_client_that_is_cancelled_fails_the_task(base: Any) -> None:
    class Cancelled(base):  # type: ignore[misc]
        def read(self, positions: Mapping[Hashable, Any]) -> Any:
            raise asyncio.CancelledError("by somebody else")

    driven = Woken(Cancelled())
    with pytest.raises((JobExecutionError, asyncio.CancelledError), match="by somebody else"):
        driven.poll()
    driven.reader.close()


# Messages that do not fit -----------------------------------------------------------------------------------


class Numbers(BlockingSource):
    """Messages of one split, of which those that are no numbers do not fit; "-" is passed over. Their times are their places."""

    decodes = True
    boundedness = Boundedness.BOUNDED  # type: ignore[assignment]

    def __init__(self, *messages: bytes) -> None:
        self.messages = list(messages)

    def splits(self) -> Mapping[Hashable, Any]:
        return {"all": 0}

    def read(self, positions: Mapping[Hashable, Any]) -> Iterator[Fetched | None]:
        for split, start in positions.items():
            places = range(start, len(self.messages))
            yield Fetched(self.messages[start:], split, [n + 1 for n in places], list(places), ended=True)

    def decode_batch(self, messages: list[Any]) -> Decoded:
        return decode(Digits(), messages, lambda number: {"place": self.messages.index(messages[number])})


class Digits(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return None if message == b"-" else int(message)

    def is_end_of_stream(self, next_element: Any) -> bool:
        return bool(next_element == 0)


def test_a_message_that_does_not_fit_comes_apart_from_the_others_with_where_it_is() -> None:
    driven = Woken(Numbers(b"1", b"x", b"-", b"4"))
    polled = driven.poll()
    assert (polled.values, polled.timestamps) == ([1, 4], [0, 3])
    assert [(error.message, error.where) for error in polled.bad] == [(b"x", {"place": 1})]
    driven.reader.close()


def test_the_position_moves_over_a_message_that_does_not_fit_with_the_poll_that_gives_it() -> None:
    driven = Woken(Numbers(b"x", b"2", b"y", b"4"))
    seen = []
    for checkpoint in range(4):
        polled = driven.poll(1)
        seen.append((polled.values, [error.message for error in polled.bad]))
        left = driven.reader.snapshot_state(checkpoint)
        assert left == ([("all", checkpoint + 1)] if checkpoint < 3 else [])
    assert seen == [([], [b"x"]), ([2], []), ([], [b"y"]), ([4], [])]
    driven.reader.close()


def test_a_source_with_messages_that_do_not_fit_passes_the_check() -> None:
    messages = [b"x%d" % n if n % 3 else b"%d" % n for n in range(40)]
    check_source(lambda: Tolerant(*messages), list(range(0, 40, 3)), split_of=lambda _: 0, seeds=range(4))


class Tolerant(Numbers):
    """Leaves out what does not fit, as a job with ``on_error`` does."""

    def decode_batch(self, messages: list[Any]) -> Decoded:
        return super().decode_batch(messages)._replace(bad=[])


# Queues that forget what was acknowledged -------------------------------------------------------------------


class Broker:
    """A queue: what a connection has not acknowledged when it ends comes again."""

    def __init__(self, messages: list[Any]) -> None:
        self.lock = threading.Lock()
        self.waiting = list(enumerate(messages))
        self.delivered: dict[tuple[int, int], tuple[int, Any]] = {}
        self.connections = 0
        self.refuse = 0
        self.cut_after = 1_000_000


BROKERS: dict[str, Broker] = {}


class QueueClient(AcknowledgingClient):
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        with broker.lock:
            broker.connections += 1
            self.number = broker.connections
            if broker.refuse:
                broker.refuse -= 1
                raise ConnectionRefusedError("the queue is down")
        self.tags = 0

    def receive(self, seconds: float) -> list[Delivery]:
        with self.broker.lock:
            taken, self.broker.waiting = self.broker.waiting[:5], self.broker.waiting[5:]
            found = []
            for number, value in taken:
                self.tags += 1
                self.broker.delivered[self.number, self.tags] = (number, value)
                found.append(Delivery(value, self.tags, f"id {number}", timestamp=number))
        if self.tags > self.broker.cut_after:
            self.broker.cut_after += 25
            raise ConnectionResetError("cut")
        if not found:
            threading.Event().wait(0.001)
        return found

    def acknowledge(self, tags: list[Any]) -> None:
        with self.broker.lock:
            for tag in tags:
                del self.broker.delivered[self.number, tag]

    def close(self) -> None:
        with self.broker.lock:
            mine = [key for key in self.broker.delivered if key[0] == self.number]
            self.broker.waiting = sorted(
                [*(self.broker.delivered.pop(key) for key in mine), *self.broker.waiting]
            )


class QueueSource(AcknowledgingSource):
    backoff = Backoff(first=0.0, most=0.0, tries=3)

    def __init__(self, name: str, recognises: bool = False) -> None:
        self.name = name
        self.recognises = recognises

    def connect(self, context: SourceReaderContext) -> AcknowledgingClient:
        return QueueClient(BROKERS[self.name])


def a_queue(recognises: bool, **settings: int) -> Callable[[], QueueSource]:
    def make() -> QueueSource:
        BROKERS["q"] = Broker(list(range(60)))
        vars(BROKERS["q"]).update(settings)
        return QueueSource("q", recognises)

    return make


def test_messages_without_ids_come_at_least_once() -> None:
    check_source(a_queue(recognises=False), range(60), guarantee=AT_LEAST)


def test_messages_with_ids_come_exactly_once() -> None:
    check_source(a_queue(recognises=True), range(60), guarantee=EXACTLY)


def test_messages_with_ids_come_exactly_once_over_lost_connections() -> None:
    check_source(a_queue(recognises=True, cut_after=7, refuse=2), range(60), guarantee=EXACTLY)


class Hasty(QueueClient):
    """Acknowledges what it has only just received."""

    def receive(self, seconds: float) -> list[Delivery]:
        found = super().receive(seconds)
        super().acknowledge([delivery.tag for delivery in found])
        return found

    def acknowledge(self, tags: list[Any]) -> None:
        pass


class HastySource(QueueSource):
    def connect(self, context: SourceReaderContext) -> AcknowledgingClient:
        return Hasty(BROKERS[self.name])


def a_hasty_queue() -> HastySource:
    BROKERS["q"] = Broker(list(range(60)))
    return HastySource("q")


def test_what_is_acknowledged_before_a_checkpoint_is_complete_is_found() -> None:
    with pytest.raises(AssertionError, match=r"lost: .* acknowledged too early"):
        check_source(a_hasty_queue, range(60), guarantee=AT_LEAST, patience=0.5)


def test_without_checkpoints_messages_are_acknowledged_as_they_are_given() -> None:
    driven = Woken(a_queue(recognises=False)(), checkpointing=False)
    given: list[int] = []
    while len(given) < 60:
        given += driven.poll().values
    driven.reader.close()
    assert given == list(range(60))
    assert not BROKERS["q"].waiting
    assert not BROKERS["q"].delivered


def test_a_checkpoint_that_is_complete_acknowledges_what_came_before_it_and_no_more() -> None:
    driven = Woken(a_queue(recognises=False)())
    driven.poll(3)
    driven.reader.snapshot_state(1)
    driven.poll(1)
    driven.reader.notify_checkpoint_complete(1)
    driven.reader.close()
    assert sorted(number for number, _ in BROKERS["q"].waiting) == list(range(3, 60))


def test_a_queue_that_stays_down_fails_the_task() -> None:
    driven = Woken(a_queue(recognises=False, refuse=100)())
    with pytest.raises(
        JobExecutionError, match=r"reading with QueueSource failed in 4 tries: .*the queue is down"
    ):
        driven.poll()
    driven.reader.close()


class StuckQueueClient(QueueClient):
    def close(self) -> None:
        super().close()
        raise RuntimeError("not connected")


class StuckQueue(QueueSource):
    def connect(self, context: SourceReaderContext) -> AcknowledgingClient:
        return StuckQueueClient(BROKERS[self.name])


def test_a_queue_whose_lost_connection_cannot_be_closed_is_read_on() -> None:
    a_queue(recognises=False, cut_after=7)()
    driven = Woken(StuckQueue("q"))
    given: set[int] = set()
    while len(given) < 60:
        given.update(driven.poll().values)
    driven.reader.close()


class NumberQueue(QueueSource):
    """A queue of texts that should be numbers; 0 ends it."""

    decodes = True

    def decode_batch(self, messages: list[Any]) -> Decoded:
        return decode(Digits(), [text.encode() for text in messages])

    def end_of_stream(self) -> Callable[[Any], bool] | None:
        return end_of_stream(Digits())


def a_number_queue(messages: list[str], recognises: bool = False) -> NumberQueue:
    BROKERS["q"] = Broker(messages)
    return NumberQueue("q", recognises)


def test_a_message_that_does_not_fit_is_acknowledged_like_the_others() -> None:
    driven = Woken(a_number_queue(["1", "x", "3"]))
    polled = driven.poll()
    assert (polled.values, [error.message for error in polled.bad]) == ([1, 3], [b"x"])
    driven.reader.snapshot_state(1)
    driven.reader.notify_checkpoint_complete(1)
    driven.reader.close()
    assert not BROKERS["q"].waiting


def test_a_message_that_does_not_fit_and_comes_again_is_recognised() -> None:
    source = a_number_queue(["1", "x", "3"], recognises=True)
    driven = Woken(source)
    assert len(driven.poll().bad) == 1
    ids = driven.reader.snapshot_state(1)
    driven.reader.close()
    BROKERS["q"].waiting.append((3, "4"))
    restored = Woken(source)
    restored.reader.add_splits(ids)
    polled = restored.poll()
    assert (polled.values, polled.bad) == ([4], [])
    restored.reader.close()


@pytest.mark.parametrize("recognises", [False, True])
def test_messages_behind_the_one_that_ends_the_input_stay_in_the_queue(recognises: bool) -> None:
    driven = Woken(a_number_queue(["x", "1", "0", "y", "5"], recognises))
    polled = driven.poll()
    assert (polled.values, [error.message for error in polled.bad]) == ([1], [b"x"])
    assert polled.timestamps == [1]
    assert driven.poll().ended
    (ids,) = driven.reader.snapshot_state(1) or [()]
    assert len(ids) == (3 if recognises else 0)
    driven.reader.notify_checkpoint_complete(1)
    driven.reader.close()
    assert [text for _, text in BROKERS["q"].waiting] == ["y", "5"]


def test_an_input_that_ends_keeps_the_times_of_what_came_before() -> None:
    driven = Woken(a_number_queue(["1", "2", "0"]))
    polled = driven.poll()
    assert (polled.values, polled.timestamps) == ([1, 2], [0, 1])
    driven.reader.close()


# Batches ----------------------------------------------------------------------------------------------------

TABLE: list[Any] = []
TROUBLE: queue.Queue[Exception] = queue.Queue()


class TableClient(BatchClient):
    def write_batch(self, batch: list[Any]) -> None:
        assert batch
        TABLE.append(list(batch))
        if not TROUBLE.empty():
            raise TROUBLE.get()


class TableSink(BatchingSink):
    batch_size = 4
    linger = 5.0
    backoff = Backoff(first=0.0, most=0.0, tries=2)

    def connect(self, context: SinkContext) -> BatchClient:
        return TableClient()


@pytest.fixture(autouse=True)
def empty_table() -> Iterator[None]:
    TABLE.clear()
    yield
    while not TROUBLE.empty():
        TROUBLE.get()


def test_the_batching_sink_passes_the_check() -> None:
    def make() -> TableSink:
        TABLE.clear()
        return TableSink()

    check_sink(make, lambda: [value for batch in TABLE for value in batch], guarantee=AT_LEAST)


def test_batches_are_written_when_they_are_full_old_or_in_front_of_a_checkpoint() -> None:
    harness = CheckpointHarness(TableSink())
    harness[0].process([1, 2, 3, 4, 5])
    assert TABLE == [[1, 2, 3, 4]]
    harness[0].advance(4.9)
    assert TABLE == [[1, 2, 3, 4]]
    harness[0].advance(0.2)
    assert TABLE == [[1, 2, 3, 4], [5]]
    harness[0].process([6])
    harness.checkpoint(1)
    assert TABLE == [[1, 2, 3, 4], [5], [6]]
    harness[0].process([7])
    harness.finish()
    assert TABLE[3:] == [[7]]


def test_a_batch_is_tried_again_and_what_was_taken_is_not() -> None:
    TROUBLE.put(ConnectionResetError("cut"))
    TROUBLE.put(RetryError("busy", left=[3, 4]))
    CheckpointHarness(TableSink())[0].process([1, 2, 3, 4])
    assert TABLE == [[1, 2, 3, 4], [1, 2, 3, 4], [3, 4]]


def test_a_batch_that_nobody_takes_fails_the_task_with_its_size_and_tries() -> None:
    for _ in range(3):
        TROUBLE.put(RetryError("busy"))
    sentence = r"writing with TableSink \(4 records\) failed in 3 tries: RetryError: busy"
    with pytest.raises(JobExecutionError, match=sentence):
        CheckpointHarness(TableSink())[0].process([1, 2, 3, 4])


def test_tries_are_counted_anew_when_a_part_of_the_batch_was_taken() -> None:
    for left in ([2, 3, 4], [3, 4], [4], [4]):
        TROUBLE.put(RetryError("busy", left=left))
    CheckpointHarness(TableSink())[0].process([1, 2, 3, 4])
    assert TABLE[-1] == [4]


def test_an_error_that_is_no_matter_of_time_is_not_tried_again() -> None:
    TROUBLE.put(ValueError("no such column"))
    with pytest.raises(UserCodeError, match="no such column"):
        CheckpointHarness(TableSink())[0].process([1, 2, 3, 4])
    assert len(TABLE) == 1


def test_a_batch_of_no_records_is_refused() -> None:
    class Empty(TableSink):
        batch_size = 0

    with pytest.raises(UserCodeError, match="at least one record, got batch_size=0"):
        CheckpointHarness(Empty())


# Staged batches -----------------------------------------------------------------------------------------------

MARKS: set[str] = set()


class StageClient(StagedClient):
    def write_once(self, batch: StagedBatch) -> None:
        if batch.id not in MARKS:
            MARKS.add(batch.id)
            TABLE.append(list(batch.records))
        if not TROUBLE.empty():
            raise TROUBLE.get()


class Stage(StagingSink):
    def connect(self, context: SinkContext) -> StagedClient:
        return StageClient()


class Stuck(TableClient):
    def close(self) -> None:
        raise RuntimeError("not connected")


class StuckStage(StageClient):
    def close(self) -> None:
        raise RuntimeError("not connected")


class StuckSink(TableSink):
    def connect(self, context: SinkContext) -> BatchClient:
        return TableClient() if TROUBLE.empty() else Stuck()


class StuckStageSink(Stage):
    def connect(self, context: SinkContext) -> StagedClient:
        return StageClient() if TROUBLE.empty() else StuckStage()


@pytest.mark.parametrize("sink", [StuckSink, StuckStageSink])
def test_a_client_that_cannot_even_be_closed_is_replaced(
    sink: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    TROUBLE.put(ConnectionResetError("cut"))
    harness = CheckpointHarness(sink())
    harness[0].process([1, 2])
    harness.checkpoint(1)
    harness.complete(1)
    harness[0].advance(5.0)
    harness.close()
    assert TABLE[-1] == [1, 2]
    assert "closing a lost connection: RuntimeError: not connected" in caplog.text


def test_the_staging_sink_passes_the_check() -> None:
    def make() -> Stage:
        TABLE.clear()
        return Stage()

    check_sink(
        make, lambda: [value for batch in TABLE for value in batch], guarantee=EXACTLY, seeds=range(40)
    )


def test_an_error_that_leaves_open_whether_a_batch_was_written_does_not_write_it_twice() -> None:
    harness = CheckpointHarness(Stage())
    harness[0].process([1, 2])
    harness.checkpoint(1)
    TROUBLE.put(ConnectionResetError("after the commit"))
    harness.complete(1)
    harness[0].advance(2.0)
    assert TABLE == [[1, 2]]


def test_a_staged_batch_that_cannot_be_written_fails_the_task_in_the_end() -> None:
    harness = CheckpointHarness(Stage())
    harness[0].process([1, 2])
    harness.checkpoint(1)
    for _ in range(20):
        TROUBLE.put(ConnectionResetError("down"))
    harness.complete(1)
    with pytest.raises(JobExecutionError, match=r"writing with Stage failed in 9 tries: .*down"):
        harness[0].advance(60.0)


def test_many_records_of_one_checkpoint_are_several_batches() -> None:
    harness = CheckpointHarness(Stage())
    harness[0].process(list(range(25_000)))
    harness.checkpoint(1)
    harness.complete(1)
    assert [len(batch) for batch in TABLE] == [10_000, 10_000, 5_000]


def test_backoffs_travel_and_say_what_is_wrong_with_them() -> None:
    assert pickle.loads(pickle.dumps(Backoff(tries=3))).tries == 3
    with pytest.raises(InvalidArgumentError, match="first <= most seconds"):
        Backoff(first=2.0, most=1.0)
