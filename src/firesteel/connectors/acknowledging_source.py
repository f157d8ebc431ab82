"""Sources on queues that forget what was acknowledged: messages are acknowledged when a checkpoint has them.

A message that was not acknowledged comes again, after a failure or a lost connection: at least once. Where messages have
ids, those that were read and are not known to be acknowledged are part of every checkpoint, and what comes again is
recognised by them: exactly once. A queue cannot be asked for a message, so those ids must be where the message comes
again, and such a source has one subtask.

1. A thread of the reader owns the client: it receives, and it acknowledges.
2. A poll gives what was received. It remembers tags, and ids, for the next checkpoint.
3. When a checkpoint is complete, the thread acknowledges what was given before it.
4. When it has, the ids are forgotten. Tags of a connection that is lost are worth nothing: their messages come again.
"""

from __future__ import annotations

import logging
import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from firesteel.common._override import override
from firesteel.common._values import private_batch
from firesteel.connectors.backoff import Backoff, drop, retries_exhausted
from firesteel.connectors.hand_over import CAPACITY, HandOver
from firesteel.connectors.handed_reader import CLOSE_SECONDS
from firesteel.connectors.message_source import MessageSource, times_of
from firesteel.contracts.source import Boundedness, Polled, SourceReader, SourceReaderContext, T
from firesteel.formats.decoding import Decoded

#: How long the thread waits for messages before it looks for something to acknowledge.
RECEIVE_SECONDS = 0.05

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message, the tag by which this connection acknowledges it, and its id, if it has one."""

    value: Any
    tag: Any
    id: Hashable = None
    timestamp: int | None = None


class AcknowledgingClient(ABC):
    """A connection to a queue, used by one thread."""

    @abstractmethod
    def receive(self, seconds: float) -> list[Delivery]:
        """What has come, waiting at most about so long for the first."""

    @abstractmethod
    def acknowledge(self, tags: list[Any]) -> None:
        """These will never be wanted again; returns when the other side knows."""

    def keep_alive(self) -> None:
        """Called now and then while the job is too busy to take messages."""

    def close(self) -> None:
        """Called once, also after errors."""


class AcknowledgingSource(MessageSource[T]):
    """Reads a queue through an `AcknowledgingClient`.

    ``retry_on`` are errors of a connection after which a new one is made, as often as ``backoff`` says; messages that come
    begin the count again. Records are what they were when the client gave them; ``gives_away``: as in `SourceReader`.
    ``recognises``: messages have ids, and those that come again are left out. ``capacity``: how many
    messages wait for the task at the most, and a batch more; fewer for large ones.
    """

    retry_on: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    backoff: Backoff = Backoff()
    gives_away: bool = False
    recognises: bool = False
    capacity: int = CAPACITY

    def describe(self) -> str:
        """What it does, for errors: "reading ..." and from where."""
        return f"reading with {type(self).__name__}"

    @abstractmethod
    def connect(self, context: SourceReaderContext) -> AcknowledgingClient:
        """A new connection; called in the thread that uses it."""

    def end_of_stream(self) -> Callable[[Any], bool] | None:
        """What says that the input ends with a record, which does not count any more; None if it never ends."""
        return None

    @property
    @override
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    @override
    def max_subtasks(self) -> int | None:
        return 1 if self.recognises else None

    @override
    def splits_of(self, subtask: int, parallelism: int) -> Sequence[Any]:
        """None to begin with; checkpoints have the ids of messages that may come again."""
        return []

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader with the thread."""
        return _AcknowledgingReader(self, context)


class _Given(NamedTuple):
    """A message that was given to the job and is not acknowledged."""

    connection: int
    tag: Any
    id: Hashable


class _AcknowledgingReader(SourceReader):
    def __init__(self, source: AcknowledgingSource[Any], context: SourceReaderContext) -> None:
        self._source = source
        self._is_end = source.end_of_stream()
        # Messages that are the records have been made values already; a function that looks for the end may keep them.
        is_value = source.gives_away or type(source).decode_batch is MessageSource.decode_batch
        self.gives_away = is_value and self._is_end is None
        self._at_once = not context.checkpointing
        self._thread = _QueueThread(source, context)
        self._begun = False
        self._stopped = False
        self._known: set[Hashable] = set()
        self._given: list[_Given] = []
        self._by_checkpoint: list[tuple[int, list[_Given]]] = []
        self._rest: list[Delivery] = []
        self._connection = 0

    @override
    def add_splits(self, splits: Sequence[tuple[Hashable, ...]]) -> None:
        """Ids of messages that may come again."""
        for ids in splits:
            self._known.update(ids)

    @override
    def poll(self, limit: int) -> Polled:
        if self._stopped:
            return Polled([], ended=True)
        if not self._begun:
            self._begun = True
            self._thread.start()
        self._forget()
        if not self._rest:
            taken = self._thread.hand_over.take()
            if taken is None:
                return Polled([], retry_at=math.inf)
            self._connection, self._rest = taken
        batch, self._rest = self._rest[:limit], self._rest[limit:]
        fresh = [delivery for delivery in batch if self._is_new(delivery)]
        decoded = self._source.decode_batch([delivery.value for delivery in fresh])
        end = None if self._is_end is None else _end(decoded, self._is_end)
        if end is not None:
            decoded, batch = self._end(decoded, end, fresh, batch)
        self._given += [_Given(self._connection, each.tag, each.id) for each in batch]
        if self._at_once:
            self._thread.to_acknowledge.append(self._take_given())
        times = times_of(decoded, [delivery.timestamp for delivery in fresh])
        return Polled(decoded.values, times, bad=decoded.bad, ignored=decoded.ignored)

    def _is_new(self, delivery: Delivery) -> bool:
        if not self._source.recognises or delivery.id is None:
            return True
        if delivery.id in self._known:
            return False
        self._known.add(delivery.id)
        return True

    def _end(
        self, decoded: Decoded, end: int, fresh: list[Delivery], batch: list[Delivery]
    ) -> tuple[Decoded, list[Delivery]]:
        """What comes before the record that ends the input; the messages behind it stay in the queue."""
        self._stopped = True
        last = end if decoded.origins is None else decoded.origins[end]
        self._known.difference_update(delivery.id for delivery in fresh[last + 1 :])
        bad = [error for error in decoded.bad if error.index is None or error.index < last]
        origins = list(range(end)) if decoded.origins is None else decoded.origins[:end]
        taken = next(number for number, delivery in enumerate(batch, 1) if delivery is fresh[last])
        return Decoded(decoded.values[:end], origins, bad, decoded.ignored), batch[:taken]

    def _forget(self) -> None:
        while self._thread.acknowledged:
            self._known.difference_update(self._thread.acknowledged.popleft())

    def _take_given(self) -> list[_Given]:
        given, self._given = self._given, []
        return given

    @override
    def snapshot_state(self, checkpoint_id: int) -> list[tuple[Hashable, ...]]:
        """The ids that may come again: given to the job, and not known to be acknowledged."""
        self._forget()
        self._by_checkpoint.append((checkpoint_id, self._take_given()))
        return [tuple(self._known)] if self._known else []

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledge what was given before it, also before earlier ones of which nobody has heard."""
        for number, given in self._by_checkpoint:
            if number <= checkpoint_id:
                self._thread.to_acknowledge.append(given)
        self._by_checkpoint = [each for each in self._by_checkpoint if each[0] > checkpoint_id]

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def close(self) -> None:
        if self._begun:
            self._thread.close()


def _end(decoded: Decoded, is_end: Callable[[Any], bool]) -> int | None:
    """The number of the first record that ends the input."""
    return next((number for number, value in enumerate(decoded.values) if is_end(value)), None)


def _as_values(deliveries: list[Delivery]) -> list[Delivery]:
    """What the client may use again while it waits for the task."""
    values = [delivery.value for delivery in deliveries]
    own = private_batch(values)
    if own is values:
        return deliveries
    return [replace(delivery, value=value) for delivery, value in zip(deliveries, own, strict=True)]


class _QueueThread:
    """Owns the client. What is to be acknowledged goes in by one queue, and what was comes out by another."""

    def __init__(self, source: AcknowledgingSource[Any], context: SourceReaderContext) -> None:
        self._source = source
        self._context = context
        self.hand_over = HandOver(context.wake, source.capacity)
        self.to_acknowledge: deque[list[_Given]] = deque()
        self.acknowledged: deque[list[Hashable]] = deque()
        self._connection = 0
        self._tried = 0
        self._thread = threading.Thread(target=self._run, name="firesteel-queue", daemon=True)

    def start(self) -> None:
        """Start the thread that connects, receives and acknowledges."""
        self._thread.start()

    def close(self) -> None:
        """Acknowledge what is due, and end."""
        self.hand_over.close()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            _LOG.warning("the thread of a source still waits for its queue after %g s", CLOSE_SECONDS)

    def _run(self) -> None:
        while not self.hand_over.closed:
            try:
                self._use_connection()
            except BaseException as error:  # noqa: BLE001 - whatever it is, the task has to know
                pause = self._failed(error)
                if pause is None or self.hand_over.pause(pause):
                    return

    def _failed(self, error: BaseException) -> float | None:
        retried = isinstance(error, self._source.retry_on)
        pause = self._source.backoff.pause(self._tried) if retried else None
        what = self._source.describe()
        if pause is not None:
            _LOG.warning("%s: again in %.1f s, after %s: %s", what, pause, type(error).__name__, error)
        elif retried:
            told = retries_exhausted(what, error, self._tried + 1)
            told.__cause__ = error
            self.hand_over.fail(told)
        else:
            self.hand_over.fail(error)
        self._tried += 1
        return pause

    def _use_connection(self) -> None:
        client = self._source.connect(self._context)
        self._connection += 1
        try:
            while not self.hand_over.closed:
                self._send_acknowledgements(client)
                deliveries = client.receive(RECEIVE_SECONDS)
                if deliveries:
                    self._tried = 0
                    self._hand_over(client, deliveries)
            self._send_acknowledgements(client)
        except BaseException:
            drop(client.close, self._source.describe())
            raise
        client.close()

    def _hand_over(self, client: AcknowledgingClient, deliveries: list[Delivery]) -> None:
        item = (self._connection, deliveries if self._source.gives_away else _as_values(deliveries))
        while not self.hand_over.offer(item, len(deliveries)):
            if self.hand_over.wait_for_room(RECEIVE_SECONDS):
                return
            self._send_acknowledgements(client)
            client.keep_alive()

    def _send_acknowledgements(self, client: AcknowledgingClient) -> None:
        while self.to_acknowledge:
            valid = [each for each in self.to_acknowledge.popleft() if each.connection == self._connection]
            if valid:
                client.acknowledge([each.tag for each in valid])
                self.acknowledged.append([each.id for each in valid])
