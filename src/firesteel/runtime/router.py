"""Records -> target subtasks -> chunks: hop 4 of a record's journey.

There is one router per outgoing edge of a subtask. It sorts a batch into one buffer per receiver with as
little work per record as the distribution allows (slices for round robin, one loop for keys) and turns
full buffers into payloads. Signals (watermark, status, end) go to every receiver, after the records that
came before them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from firesteel.common._override import override
from firesteel.common._values import private
from firesteel.common.errors import JobExecutionError, ProgramError, short_repr
from firesteel.common.options import RECORD_MAX_SIZE
from firesteel.common.typeinfo import TypeInformation, flat_type
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.plan.exchange import Broadcast, Custom, EdgeDistribution, Global, KeyGroups, Shuffle
from firesteel.plan.job_plan import EdgePlan, JobPlan, VertexPlan
from firesteel.plan.key_groups import KeyAssignment
from firesteel.plan.keys import subscript
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.asked import only_looks
from firesteel.runtime.blame import NO_RECORD, RAISED_BY_USERS, Blame, failing_record
from firesteel.runtime.elements import (
    END_OF_INPUT,
    Barrier,
    Element,
    LatencyMarker,
    StreamStatus,
    WatermarkSignal,
)
from firesteel.runtime.key_reader import KeyReader
from firesteel.runtime.operator import Timestamps
from firesteel.runtime.pace import Pace
from firesteel.runtime.runtime_context import without_state
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.user_function import UserFunction
from firesteel.runtime.wire_format import HEADER, encode, encode_chunk_body

#: How records, or records and their timestamps, are added to the buffers of a receiver.
_Appends = TypeVar("_Appends")

_FIRST_CHUNK = 64
_CHUNK_BYTES = 512 * 1024
#: Arrow and Java count the bytes of a row in 31 bits, and keep some for themselves.
_MOST_BYTES = 2_000_000_000

Scatter = Callable[[Iterator[Any]], list[int]]


class ChannelWriter:
    """The channels of one edge from one subtask: buffers records and writes payloads to the outbox."""

    def __init__(
        self, plan: JobPlan, edge: EdgePlan, sender: int, outbox: Outbox, settings: TaskSettings, blame: Blame
    ) -> None:
        source, target = plan.vertices[edge.source], plan.vertices[edge.target]
        self._flat = flat_type(_type_of(edge, source))
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
        self._max_records = settings.chunk_records
        self._max_bytes = min(settings.record_max_size, _MOST_BYTES)
        # The size of records is unknown before the first chunk; start small.
        self._limit = min(_FIRST_CHUNK, settings.chunk_records)
        self.values: dict[int, list[Any]] = {t: [] for t in self.targets}
        self.timestamps: dict[int, list[int | None]] = {t: [] for t in self.targets}
        self.has_time = False
        #: What has left so far: a record counts once, however many receivers it has; signals do not count.
        self.records_out = self.bytes_out = self.chunks_out = 0
        self._next_marked = sender % len(self.targets)

    def prepare(self, timestamps: Timestamps) -> None:
        """Chunks have timestamps for all their records or for none: a change starts new chunks."""
        if (timestamps is not None) != self.has_time:
            self.flush()
            self.has_time = timestamps is not None

    def append_to_one(self, values: list[Any], timestamps: Timestamps) -> None:
        """All records to the first receiver, the only one that counts."""
        self.prepare(timestamps)
        target = self.targets[0]
        self.values[target] += values
        if timestamps is not None:
            self.timestamps[target] += timestamps
        self.write_full()

    def write_full(self) -> None:
        """Write the buffers that have reached the size of a chunk; the last thing that is done with a batch."""
        for target, values in self.values.items():
            if len(values) >= self._limit:
                self._write_buffer(target, values)
        self._outbox.relieve()

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
            for kind, body in self._encode(values[piece], None if timestamps is None else timestamps[piece]):
                for target in self.targets:
                    self._write(target, kind, body)
        self._outbox.relieve()

    def signal(self, element: Element) -> None:
        """A signal to every receiver, behind all records so far."""
        self.flush()
        for target in self.targets:
            payload = encode(element, self._edge, self._sender, target, self._sequence[target])
            self._sequence[target] += 1
            self._outbox.add(self._rows[target], payload)

    def hurry(self) -> None:
        """What was written last may not wait for more."""
        self._outbox.hurry()

    def signal_one(self, element: Element) -> None:
        """A signal to one receiver, each time to the next one, behind the records for it."""
        target = self.targets[self._next_marked]
        self._next_marked = (self._next_marked + 1) % len(self.targets)
        if self.values[target]:
            self._write_buffer(target, self.values[target])
        payload = encode(element, self._edge, self._sender, target, self._sequence[target])
        self._sequence[target] += 1
        self._outbox.add(self._rows[target], payload)

    def _write_buffer(self, target: int, values: list[Any]) -> None:
        stamps = self.timestamps[target] if self.has_time else None
        limit = self._limit
        if len(values) <= 2 * limit:
            self._write_chunk(target, values, stamps)
        else:
            for start in range(0, len(values), limit):
                piece = slice(start, start + limit)
                self._write_chunk(target, values[piece], None if stamps is None else stamps[piece])
        # Emptied in place: routing loops hold on to the bound append of these very lists.
        values.clear()
        self.timestamps[target].clear()

    def _write_chunk(self, target: int, values: list[Any], timestamps: Timestamps) -> None:
        for kind, body in self._encode(values, timestamps):
            self._write(target, kind, body)

    def _encode(self, values: list[Any], timestamps: Timestamps) -> list[tuple[int, bytes]]:
        """The chunk; several when it would be too large for one row."""
        try:
            kind, body = encode_chunk_body(values, timestamps, flat=self._flat)
        except Exception as error:
            raise self._unsendable(values) from error
        size, count = len(body), len(values)
        self._limit = max(1, min(self._max_records, _CHUNK_BYTES // max(1, size // count)))
        if size <= self._max_bytes:
            self.records_out += count
            return [(kind, body)]
        if count == 1:
            raise self._too_large(values[0], size)
        del body  # it is large, and its halves are about to be made
        middle = count // 2
        first, second = (None, None) if timestamps is None else (timestamps[:middle], timestamps[middle:])
        return self._encode(values[:middle], first) + self._encode(values[middle:], second)

    def _too_large(self, value: Any, size: int) -> JobExecutionError:
        reason = ProgramError(
            f"a record of {size} bytes, pickled, cannot be sent to another task: a row of Spark takes at most "
            f"{self._max_bytes}; cut it into pieces, put it into a file and send its name, or raise {RECORD_MAX_SIZE.key} "
            f"(at most {_MOST_BYTES}, and Spark's JVMs need several times as much memory)"
        )
        return self._blame.error(reason, value)

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
        payload = HEADER.pack(kind, self._edge, self._sender, target, sequence) + body
        self.bytes_out += len(payload)
        self.chunks_out += 1
        self._outbox.add(self._rows[target], payload)


def _type_of(edge: EdgePlan, source: VertexPlan) -> TypeInformation | None:
    """The declared type of an edge's records."""
    operator = source.operators[edge.source_operator]
    tag = edge.side_output
    return operator.output_type if tag is None else operator.side_types.get(tag)


class Router:
    """Receiver at the end of a chain for one edge; subclasses differ in `receive` only."""

    def __init__(self, channels: ChannelWriter) -> None:
        self.channels = channels

    def open(self, runtime: RuntimeContext) -> None:
        """Open the user's code that says where records go, when there is any."""

    def close(self) -> None:
        """Close it; called once, also after a failure."""

    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Sort a batch into the buffers."""
        raise NotImplementedError

    def watermark(self, timestamp: int) -> None:
        """To every receiver."""
        self.channels.signal(WatermarkSignal(timestamp))

    def status(self, active: bool) -> None:
        """To every receiver."""
        self.channels.signal(StreamStatus(active))

    def barrier(self, order: CheckpointOrder) -> None:
        """To every receiver, at once: the whole job waits for it."""
        self.channels.signal(Barrier(order))
        self.channels.hurry()

    def latency_marker(self, marker: LatencyMarker) -> None:
        """To one receiver, each time to the next one: so many receivers do not make many markers of one."""
        self.channels.signal_one(marker)

    def end(self) -> None:
        """To every receiver; only barriers may follow."""
        self.channels.signal(END_OF_INPUT)


class SingleRouter(Router):
    """All records to one receiver: forward, global, and anything with just one receiver."""

    @override
    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Append the batch to the one buffer."""
        self.channels.append_to_one(values, timestamps)


class _UserRouter(Router):
    """A router that runs user code, to open and to close; what it raises is explained.

    What takes too long is cut, as in operators; see `firesteel.runtime.pace`.
    """

    def __init__(
        self, channels: ChannelWriter, parts: Sequence[KeyReader | UserFunction], blame: Blame, pace: Pace
    ) -> None:
        super().__init__(channels)
        self._parts = parts
        self._blame = blame
        self._pace = pace

    @override
    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch, to its end."""
        left = self._receive_some(values, timestamps)
        while left:
            values, timestamps = values[-left:], None if timestamps is None else timestamps[-left:]
            self._pace.breathe()
            left = self._receive_some(values, timestamps)

    def _receive_some(self, values: list[Any], timestamps: Timestamps) -> int:
        """A batch, or its beginning: returns how many records are left at its end."""
        raise NotImplementedError

    def _failure(
        self, error: Exception | SystemExit, values: list[Any], cursor: Iterator[Any]
    ) -> JobExecutionError:
        return self._blame.error(error, failing_record(values, cursor, self._pace.taken_out_of(cursor)))

    @override
    def open(self, runtime: RuntimeContext) -> None:
        try:
            for part in self._parts:
                part.open(without_state(runtime))
        except RAISED_BY_USERS as error:
            raise self._blame.error(error) from error

    @override
    def close(self) -> None:
        """Close those that were opened, whatever goes wrong with the others."""
        try:
            with ExitStack() as last:
                for part in self._parts:
                    last.callback(part.close)
        except RAISED_BY_USERS as error:
            raise self._blame.error(error) from error


class SingleKeyedRouter(_UserRouter):
    """All records to the one receiver that owns all keys, which does not look at them itself.

    Where a key belongs does not matter as long as there is one receiver, but a key is a key or is none with any
    number of them.
    """

    def __init__(self, channels: ChannelWriter, reader: KeyReader, blame: Blame, pace: Pace) -> None:
        super().__init__(channels, (reader,), blame, pace)
        self._key_of = reader.key_of

    @override
    def _receive_some(self, values: list[Any], timestamps: Timestamps) -> int:
        """Look at the keys, then append the batch to the one buffer."""
        key_of, cursor = self._key_of, self._pace.begin(values)
        try:
            for value in cursor:
                key_of(value)
        except RAISED_BY_USERS as error:
            raise self._failure(error, values, cursor) from error
        left = self._pace.end()
        if left:
            values, timestamps = values[:-left], None if timestamps is None else timestamps[:-left]
        self.channels.append_to_one(values, timestamps)
        return left


class RoundRobinRouter(Router):
    """Records in turn to the receivers: rebalance and rescale."""

    def __init__(self, channels: ChannelWriter, first: int) -> None:
        super().__init__(channels)
        self._turn = first % len(channels.targets)

    @override
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

    @override
    def receive(self, values: list[Any], timestamps: Timestamps) -> None:
        """Write the batch once, address it to all."""
        self.channels.write_to_all(values, timestamps)


class ScatterRouter(_UserRouter):
    """Each record to the receiver that a function of the batch chooses: random or custom."""

    def __init__(
        self,
        channels: ChannelWriter,
        scatter: Scatter,
        blame: Blame,
        pace: Pace,
        parts: Sequence[KeyReader | UserFunction] = (),
    ) -> None:
        super().__init__(channels, parts, blame, pace)
        self._scatter = scatter

    @override
    def _receive_some(self, values: list[Any], timestamps: Timestamps) -> int:
        """Append each record to its receiver's buffer."""
        self.channels.prepare(timestamps)
        cursor = self._pace.begin(values)
        try:
            targets = self._scatter(cursor)
        except RAISED_BY_USERS as error:
            raise self._failure(error, values, cursor) from error
        left = self._pace.end()
        _append_all(self.channels.values, targets, values)
        if timestamps is not None:
            _append_all(self.channels.timestamps, targets, timestamps)
        self.channels.write_full()
        return left


class KeyedRouter(_UserRouter):
    """Each record to the receiver that owns its key.

    The hottest loop of a keyed job: one look-up takes what the selector returned straight to the ``append`` of the
    buffer for its receiver, which is a third faster than looking up the receiver first. The rule for keys is applied
    to what is seen for the first time only; that equal keys are one key makes it true for all. What cannot be looked
    up - a list, say - has the rule applied to every record from then on.
    """

    def __init__(
        self,
        channels: ChannelWriter,
        reader: KeyReader,
        placement: KeyAssignment,
        blame: Blame,
        pace: Pace,
    ) -> None:
        super().__init__(channels, (reader,), blame, pace)
        self._reader = reader
        self._use_keys(reader.selected, placement)

    def _use_keys(self, key_of: Callable[[Any], Any], placement: KeyAssignment) -> None:
        """Look up what ``key_of`` gives from now on."""
        self._key_of = key_of
        self._index = subscript(key_of)
        self._placement = placement
        buffers = self.channels.values
        self._appends = {target: buffer.append for target, buffer in buffers.items()}
        stamps = self.channels.timestamps
        self._pairs = {target: (append, stamps[target].append) for target, append in self._appends.items()}
        # By key, of what has been seen. Exact dicts: Python is quicker with them than with any class made of one.
        self._append_of: dict[Any, Callable[[Any], None]] = {}
        self._pair_of: dict[Any, tuple[Callable[[Any], None], Callable[[int | None], None]]] = {}

    @override
    def _receive_some(self, values: list[Any], timestamps: Timestamps) -> int:
        """Append each record to its receiver's buffer."""
        self.channels.prepare(timestamps)
        cursor = self._pace.begin(values)
        try:
            self._route(cursor, timestamps)
        except RAISED_BY_USERS as error:
            left = self._pace.end()
            record = failing_record(values, cursor, left)
            if not self._is_unhashable(error, record):
                raise self._blame.error(error, record) from error
            self._use_keys(self._reader.key_of, self._placement.of_formed())
            return left + len([record, *cursor])  # nothing became of this one
        self.channels.write_full()
        return self._pace.end()

    def _route(self, cursor: Iterator[Any], timestamps: Timestamps) -> None:
        if timestamps is not None:
            self._route_timed(cursor, timestamps)
        elif self._index is not None:
            self._route_by_subscript(cursor)
        else:
            key_of, append_of = self._key_of, self._append_of
            for value in cursor:
                key = key_of(value)
                try:
                    append = append_of[key]
                except KeyError:
                    append = self._learn(append_of, self._appends, key)
                append(value)

    def _route_by_subscript(self, cursor: Iterator[Any]) -> None:
        """The same for a selector that is nothing but ``record[index]``, which needs no call."""
        index, append_of = self._index, self._append_of
        for value in cursor:
            try:
                append = append_of[value[index]]
            except Exception:  # noqa: BLE001 - a new key; or the record has none, and the user's function says so
                append = self._learn(append_of, self._appends, self._key_of(value))
            append(value)

    def _route_timed(self, cursor: Iterator[Any], timestamps: list[int | None]) -> None:
        key_of, pair_of = self._key_of, self._pair_of
        # The cursor comes first: it knows which record fails, and it may be cut.
        for value, timestamp in zip(cursor, timestamps, strict=False):
            key = key_of(value)
            try:
                append, append_timestamp = pair_of[key]
            except KeyError:
                append, append_timestamp = self._learn(pair_of, self._pairs, key)
            append(value)
            append_timestamp(timestamp)

    def _learn(self, known: dict[Any, _Appends], by_target: Mapping[int, _Appends], key: Any) -> _Appends:
        """What belongs to a key that is not known yet, from now on, too; all are forgotten when there are too many."""
        if len(known) >= self._placement.limit:
            known.clear()
        appends = known[key] = by_target[self._placement.assign(key)]
        return appends

    def _is_unhashable(self, error: BaseException, record: Any) -> bool:
        """Whether the record's key has no hash, and that was seen for the first time."""
        if not isinstance(error, TypeError) or record is NO_RECORD or self._key_of is self._reader.key_of:
            return False
        try:
            hash(self._key_of(record))
        except TypeError:
            return True
        return False


def _append_all(buffers: Mapping[int, list[Any]], targets: list[int], items: list[Any]) -> None:
    appends = {target: buffer.append for target, buffer in buffers.items()}
    for target, item in zip(targets, items, strict=False):  # items behind a cut have no target yet
        appends[target](item)


def create_router(
    plan: JobPlan,
    edge: EdgePlan,
    sender: int,
    outbox: Outbox,
    settings: TaskSettings,
    rng: random.Random,
    pace: Pace | None = None,
) -> Router:
    """The router for one edge of one subtask."""
    distribution = edge.distribution
    pace = Pace() if pace is None else pace
    protects = not settings.object_reuse
    blame = _blame(distribution, plan, edge, sender)
    channels = ChannelWriter(plan, edge, sender, outbox, settings, blame)
    if isinstance(distribution, Broadcast):
        return BroadcastRouter(channels)
    target = plan.vertices[edge.target]
    if isinstance(distribution, KeyGroups) and target.parallelism == 1:
        if edge.reads_keys:
            return SingleRouter(channels)
        return SingleKeyedRouter(channels, KeyReader(distribution.selector, protects), blame, pace)
    if isinstance(distribution, Custom):
        function, reader = UserFunction(distribution.partitioner), KeyReader(distribution.selector, protects)
        scatter = _by_partitioner(function, reader, target.parallelism, protects)
        return ScatterRouter(channels, scatter, blame, pace, (function, reader))
    if isinstance(distribution, Global) or len(channels.targets) == 1:
        return SingleRouter(channels)
    match distribution:
        case KeyGroups(selector):
            reader = KeyReader(selector, protects)
            placement = KeyAssignment(target.max_parallelism, target.parallelism, reader.form())
            return KeyedRouter(channels, reader, placement, blame, pace)
        case Shuffle():
            return ScatterRouter(channels, _at_random(rng, target.parallelism), blame, Pace())
    # Senders start at different receivers, so that few records do not all land on the first.
    return RoundRobinRouter(channels, first=sender)


def _blame(distribution: EdgeDistribution, plan: JobPlan, edge: EdgePlan, sender: int) -> Blame:
    user_code = distribution.selector if isinstance(distribution, KeyGroups | Custom) else None
    source = plan.vertices[edge.source]
    name = f"{source.operators[edge.source_operator].name}, routing to {plan.vertices[edge.target].name}"
    return Blame(name, sender, source.parallelism, "" if user_code is None else user_code.description)


def _at_random(rng: random.Random, receivers: int) -> Scatter:
    return lambda values: rng.choices(range(receivers), k=values.__length_hint__())  # type: ignore[attr-defined]


def _by_partitioner(
    partitioner: UserFunction, selector: KeyReader, receivers: int, protects: bool
) -> Scatter:
    partition, key_of = partitioner.method("partition"), selector.selected
    if protects and (partitioner.is_rich or not only_looks(partition)):
        # The key may be a part of the record.
        call = partition
        partition = lambda key, receivers: call(private(key), receivers)  # noqa: E731

    def target_of(value: Any) -> int:
        target = partition(key_of(value), receivers)
        if isinstance(target, int) and 0 <= target < receivers:
            return target
        raise ProgramError(
            f"{partitioner.description} returned partition {short_repr(target)}; "
            f"expected an int from 0 to {receivers - 1}"
        )

    return lambda values: [target_of(value) for value in values]


# What leaves the task ---------------------------------------------------------------------------------
# Spark hands a row to a Python task only when it has seen the next row for the same task. So the last payload before a
# pause is followed by an empty *flush* row; under load the next payload does that job.


FLUSH = b""

_MANY_ROWS = 32
_MANY_BYTES = 512 << 10
_FULL_ROWS = 64
_FULL_BYTES = 4 << 20


class Outbox:
    """Rows of (task of the next stage, payload).

    It does not grow without bounds: when there is enough in it, `relieve` pauses the work of the task until the rows
    have been taken.
    """

    def __init__(self, pause: Callable[[], None] | None = None) -> None:
        self._pause = pause
        self._rows: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._stuck: set[int] = set()
        self._hurries = False

    def add(self, row: int, payload: bytes) -> None:
        """Append a payload for task ``row`` of the next stage."""
        self._rows.append((row, payload))
        self._bytes += len(payload)

    def hurry(self) -> None:
        """Somebody waits for what is in it: it leaves with the next look, and is pushed through."""
        self._hurries = True

    def relieve(self) -> None:
        """Let rows leave when there are many; called where nothing of the task is half done."""
        if (len(self._rows) >= _FULL_ROWS or self._bytes >= _FULL_BYTES) and self._pause is not None:
            self._pause()

    @property
    def has_much(self) -> bool:
        """Whether there is enough in it for a batch of its own, or somebody waits for it."""
        return self._hurries or len(self._rows) >= _MANY_ROWS or self._bytes >= _MANY_BYTES

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, flush: bool) -> list[tuple[int, bytes]]:
        """All rows so far; with ``flush``, or when somebody waits, also what pushes the last one of each receiver through."""
        rows, self._rows, self._bytes = self._rows, [], 0
        flush, self._hurries = flush or self._hurries, False
        self._stuck.update(row for row, _ in rows)
        if flush and self._stuck:
            rows += [(row, FLUSH) for row in sorted(self._stuck)]
            self._stuck.clear()
        return rows
