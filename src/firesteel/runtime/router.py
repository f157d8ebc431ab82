"""Records -> target subtasks -> chunks: hop 4 of a record's journey.

There is one router per outgoing edge of a subtask. It sorts a batch into one buffer per receiver with as
little work per record as the distribution allows (slices for round robin, one loop for keys) and turns
full buffers into payloads. Signals (watermark, status, end) go to every receiver, after the records that
came before them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from firesteel.common.errors import JobExecutionError, ProgramError, short_repr
from firesteel.plan.exchange import Broadcast, Custom, Distribution, Global, KeyGroups, Shuffle
from firesteel.plan.job_plan import EdgePlan, JobPlan
from firesteel.plan.key_groups import KeyPlacement, stable_hash
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.blame import RAISED_BY_USERS, Blame, explain_key, failing_record, is_unhashable
from firesteel.runtime.elements import END_OF_INPUT, Barrier, Element, StreamStatus, Watermark
from firesteel.runtime.operator import Timestamps
from firesteel.runtime.outbox import Outbox
from firesteel.runtime.user_function import UserFunction
from firesteel.runtime.wire_format import HEADER, encode, encode_chunk_body

_FIRST_CHUNK = 64
_CHUNK_BYTES = 512 * 1024

KeyOf = Callable[[Any], Any]
Scatter = Callable[[Iterator[Any]], list[int]]


class ChannelWriter:
    """The channels of one edge from one subtask: buffers records and writes payloads to the outbox."""

    def __init__(
        self, plan: JobPlan, edge: EdgePlan, sender: int, outbox: Outbox, chunk_records: int, blame: Blame
    ) -> None:
        source, target = plan.vertices[edge.source], plan.vertices[edge.target]
        self.targets = edge.distribution.targets(sender, source.parallelism, target.parallelism)
        self._edge = edge.id
        self._sender = sender
        self._outbox = outbox
        self._blame = blame
        # An edge that skips stages is relayed: the next stage's task is a function of the final one,
        # so that all payloads of a channel take the same way and keep their order.
        tasks = plan.stages[source.stage + 1].tasks
        self._rows = {t: (target.first_task + t) % tasks for t in self.targets}
        self._sequence = dict.fromkeys(self.targets, 0)
        self._max_records = chunk_records
        # The size of records is unknown before the first chunk; start small.
        self._limit = min(_FIRST_CHUNK, chunk_records)
        self.values: dict[int, list[Any]] = {t: [] for t in self.targets}
        self.timestamps: dict[int, list[int | None]] = {t: [] for t in self.targets}
        self.has_time = False

    def prepare(self, timestamps: Timestamps) -> None:
        """Chunks have timestamps for all their records or for none: a change starts new chunks."""
        if (timestamps is not None) != self.has_time:
            self.flush()
            self.has_time = timestamps is not None

    def write_full(self) -> None:
        """Write the buffers that have reached the size of a chunk."""
        for target, values in self.values.items():
            if len(values) >= self._limit:
                self._write_buffer(target, values)

    def flush(self) -> None:
        """Write every buffer that is not empty."""
        for target, values in self.values.items():
            if values:
                self._write_buffer(target, values)

    def write_to_all(self, values: list[Any], timestamps: Timestamps) -> None:
        """The same records to every receiver, encoded once."""
        limit = self._limit  # the one at the start: encoding changes it
        for start in range(0, len(values), limit):
            piece = slice(start, start + limit)
            kind, body = self._encode(values[piece], None if timestamps is None else timestamps[piece])
            for target in self.targets:
                self._write(target, kind, body)

    def signal(self, element: Element) -> None:
        """A signal to every receiver, behind all records so far."""
        self.flush()
        for target in self.targets:
            payload = encode(element, self._edge, self._sender, target, self._sequence[target])
            self._sequence[target] += 1
            self._outbox.add(self._rows[target], payload)

    def _write_buffer(self, target: int, values: list[Any]) -> None:
        stamps = self.timestamps[target] if self.has_time else None
        limit = self._limit
        if len(values) <= 2 * limit:
            self._write(target, *self._encode(values, stamps))
        else:
            for start in range(0, len(values), limit):
                piece = slice(start, start + limit)
                self._write(target, *self._encode(values[piece], None if stamps is None else stamps[piece]))
        # Emptied in place: routing loops hold on to the bound append of these very lists.
        values.clear()
        self.timestamps[target].clear()

    def _encode(self, values: list[Any], timestamps: Timestamps) -> tuple[int, bytes]:
        try:
            kind, body = encode_chunk_body(values, timestamps)
        except Exception as error:
            raise self._unsendable(values) from error
        per_record = max(1, len(body) // len(values))
        self._limit = max(1, min(self._max_records, _CHUNK_BYTES // per_record))
        return kind, body

    def _unsendable(self, values: list[Any]) -> JobExecutionError:
        """Which record cannot be pickled, and why."""
        for value in values:
            try:
                encode_chunk_body([value], None)
            except Exception as error:  # noqa: BLE001 - the one that is looked for
                reason = ProgramError(
                    f"{type(value).__name__} objects cannot be sent to another task: {type(error).__name__}: {error}; "
                    "emit plain data, or give its class a __reduce__ method"
                )
                return self._blame.error(reason, value)
        return self._blame.error(ProgramError("the records cannot be sent to another task together"))

    def _write(self, target: int, kind: int, body: bytes) -> None:
        sequence = self._sequence[target]
        self._sequence[target] = sequence + 1
        self._outbox.add(
            self._rows[target], HEADER.pack(kind, self._edge, self._sender, target, sequence) + body
        )


class Router:
    """Receiver at the end of a chain for one edge; subclasses differ in `receive` only."""

    def __init__(self, channels: ChannelWriter) -> None:
        self.channels = channels

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Sort a batch into the buffers."""
        raise NotImplementedError

    def watermark(self, timestamp: int) -> None:
        """To every receiver."""
        self.channels.signal(Watermark(timestamp))

    def status(self, active: bool) -> None:
        """To every receiver."""
        self.channels.signal(StreamStatus(active))

    def barrier(self, order: CheckpointOrder) -> None:
        """To every receiver."""
        self.channels.signal(Barrier(order))

    def end(self) -> None:
        """To every receiver; only barriers may follow."""
        self.channels.signal(END_OF_INPUT)


class SingleRouter(Router):
    """All records to one receiver: forward, global, and anything with just one receiver."""

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Append the batch to the one buffer."""
        channels = self.channels
        channels.prepare(timestamps)
        target = channels.targets[0]
        channels.values[target] += values
        if timestamps is not None:
            channels.timestamps[target] += timestamps
        channels.write_full()


class SingleKeyedRouter(SingleRouter):
    """All records to the one receiver that owns all keys.

    Where a key belongs does not matter as long as there is one receiver, but it will when the job goes on with
    more of them: a key without a stable hash is refused at once. The first key of each batch is looked at; all keys
    of a stream come from one selector and are of one kind, and a hash per record would cost more than the rest.
    """

    def __init__(self, channels: ChannelWriter, key_of: KeyOf, blame: Blame) -> None:
        super().__init__(channels)
        self._key_of = key_of
        self._blame = blame

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Look at the first key, then append the batch to the one buffer."""
        try:
            key = self._key_of(values[0])
            hash(key)  # as every look-up does
            stable_hash(key)
        except RAISED_BY_USERS as error:
            raise _key_failure(error, values[0], self._key_of, self._blame) from error
        super().receive(values, timestamps)


class RoundRobinRouter(Router):
    """Records in turn to the receivers: rebalance and rescale."""

    def __init__(self, channels: ChannelWriter, first: int) -> None:
        super().__init__(channels)
        self._turn = first % len(channels.targets)

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Deal the batch out by slices."""
        channels = self.channels
        channels.prepare(timestamps)
        count = len(channels.targets)
        for i, target in enumerate(channels.targets):
            mine = slice((i - self._turn) % count, None, count)
            channels.values[target] += values[mine]
            if timestamps is not None:
                channels.timestamps[target] += timestamps[mine]
        self._turn = (self._turn + len(values)) % count
        channels.write_full()


class BroadcastRouter(Router):
    """Every record to every receiver."""

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Write the batch once, address it to all."""
        self.channels.write_to_all(values, timestamps)


class ScatterRouter(Router):
    """Each record to the receiver that a function of the batch chooses: random or custom."""

    def __init__(self, channels: ChannelWriter, scatter: Scatter, blame: Blame) -> None:
        super().__init__(channels)
        self._scatter = scatter
        self._blame = blame

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Append each record to its receiver's buffer."""
        self.channels.prepare(timestamps)
        cursor = iter(values)
        try:
            targets = self._scatter(cursor)
        except RAISED_BY_USERS as error:
            raise self._blame.error(error, failing_record(values, cursor)) from error
        _append_all(self.channels.values, targets, values)
        if timestamps is not None:
            _append_all(self.channels.timestamps, targets, timestamps)
        self.channels.write_full()


class KeyedRouter(Router):
    """Each record to the receiver that owns its key.

    The hottest loop of a keyed job: one look-up takes a key straight to the ``append`` of its receiver's
    buffer, which is a third faster than looking up the receiver first.
    """

    def __init__(self, channels: ChannelWriter, key_of: KeyOf, placement: KeyPlacement, blame: Blame) -> None:
        super().__init__(channels)
        self._key_of = key_of
        self._placement = placement
        self._appends = _AppendByKey(placement, channels.values)
        self._blame = blame

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Append each record to its receiver's buffer."""
        self.channels.prepare(timestamps)
        key_of, cursor = self._key_of, iter(values)
        try:
            if timestamps is None:
                append_of = self._appends
                for value in cursor:
                    append_of[key_of(value)](value)
            else:
                placement = self._placement
                targets = [placement[key_of(value)] for value in cursor]
                _append_all(self.channels.values, targets, values)
                _append_all(self.channels.timestamps, targets, timestamps)
        except RAISED_BY_USERS as error:
            raise _key_failure(error, failing_record(values, cursor), self._key_of, self._blame) from error
        self.channels.write_full()


class _AppendByKey(dict[Any, Callable[[Any], None]]):
    """Key -> the ``append`` of the buffer it goes to; forgets its keys when the placement does."""

    def __init__(self, placement: KeyPlacement, buffers: Mapping[int, list[Any]]) -> None:
        super().__init__()
        self._placement = placement
        self._appends = {target: buffer.append for target, buffer in buffers.items()}

    def __missing__(self, key: Any) -> Callable[[Any], None]:
        if len(self) >= self._placement.limit:
            self.clear()
        append = self[key] = self._appends[self._placement.place(key)]
        return append


def _key_failure(
    error: Exception | SystemExit, record: Any, key_of: KeyOf, blame: Blame
) -> JobExecutionError:
    if is_unhashable(error):
        error = explain_key(error, record, key_of)
    return blame.error(error, record)


def _append_all(buffers: Mapping[int, list[Any]], targets: list[int], items: list[Any]) -> None:
    appends = {target: buffer.append for target, buffer in buffers.items()}
    for target, item in zip(targets, items, strict=True):
        appends[target](item)


def create_router(
    plan: JobPlan, edge: EdgePlan, sender: int, outbox: Outbox, chunk_records: int, rng: random.Random
) -> Router:
    """The router for one edge of one subtask."""
    distribution = edge.distribution
    blame = _blame(distribution, plan, edge, sender)
    channels = ChannelWriter(plan, edge, sender, outbox, chunk_records, blame)
    if isinstance(distribution, Broadcast):
        return BroadcastRouter(channels)
    target = plan.vertices[edge.target]
    if isinstance(distribution, KeyGroups) and target.parallelism == 1:
        return SingleKeyedRouter(channels, UserFunction(distribution.selector).method("get_key"), blame)
    if isinstance(distribution, Global) or len(channels.targets) == 1:
        return SingleRouter(channels)
    match distribution:
        case KeyGroups(selector):
            key_of = UserFunction(selector).method("get_key")
            return KeyedRouter(
                channels, key_of, KeyPlacement(target.max_parallelism, target.parallelism), blame
            )
        case Custom():
            return ScatterRouter(channels, _by_partitioner(distribution, target.parallelism), blame)
        case Shuffle():
            return ScatterRouter(channels, _at_random(rng, target.parallelism), blame)
    # Senders start at different receivers, so that few records do not all land on the first.
    return RoundRobinRouter(channels, first=sender)


def _blame(distribution: Distribution, plan: JobPlan, edge: EdgePlan, sender: int) -> Blame:
    user_code = distribution.selector if isinstance(distribution, KeyGroups | Custom) else None
    source = plan.vertices[edge.source]
    name = f"{source.operators[edge.source_operator].name}, routing to {plan.vertices[edge.target].name}"
    return Blame(name, sender, source.parallelism, "" if user_code is None else user_code.description)


def _at_random(rng: random.Random, receivers: int) -> Scatter:
    return lambda values: rng.choices(range(receivers), k=values.__length_hint__())  # type: ignore[attr-defined]


def _by_partitioner(distribution: Custom, receivers: int) -> Scatter:
    partition = UserFunction(distribution.partitioner).method("partition")
    key_of = UserFunction(distribution.selector).method("get_key")

    def target_of(value: Any) -> int:
        target = partition(key_of(value), receivers)
        if isinstance(target, int) and 0 <= target < receivers:
            return target
        raise ProgramError(
            f"{distribution.partitioner.description} returned partition {short_repr(target)}; "
            f"expected an int from 0 to {receivers - 1}"
        )

    return lambda values: [target_of(value) for value in values]
