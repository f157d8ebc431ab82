"""The inputs of a subtask: hop 7 of a record's journey and hop 5 of a checkpoint's life.

Spark delivers the rows of all senders in one stream, so a channel that must not be read yet cannot be left alone, as in
Flink: what others have sent comes behind its payloads. Each payload is processed at once, or it waits on its channel::

    receive --+-- channel is open -----------------------> check, decode, feed --> head of the chain
              |                                              ^
              +-- channel is closed: waits on its channel    |
                    and is read, once that is open ----------+

Channels are closed for one of three reasons. A barrier has come and those of other channels are missing
(`BarrierAlignment`). In BATCH, another input of the operator is read to its end first, as broadcast state is. Or the
operator chooses the input that is read next, by the record (`selected_input`).

Whatever the reason, what waits on open channels is read before anything new is received: that is the back pressure of
a gate, and why what waits does not add up. In STREAMING there is a limit to it, too: an alignment for which too much
waits is ended, and its checkpoint declined.

A chunk is fed in slices (see `firesteel.runtime.pace`). What is left of one waits on its channel like a payload.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from firesteel.common.errors import DataLossError, JobExecutionError
from firesteel.common.options import WAITING_INPUT_LIMIT
from firesteel.common.time import MIN_TIMESTAMP
from firesteel.plan.job_plan import JobPlan, VertexPlan
from firesteel.plan.operator_specs import RuntimeMode, TwoInputTransformSpec
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.elements import (
    Barrier,
    Chunk,
    EndOfInput,
    LatencyMarker,
    StreamStatus,
    WatermarkSignal,
)
from firesteel.runtime.harmless import notice
from firesteel.runtime.inputs.channels import InputChannel, OpenChannels, ReceiveSome, Turns
from firesteel.runtime.inputs.payload_queue import PayloadSpace
from firesteel.runtime.inputs.selected_input import SelectedInput
from firesteel.runtime.inputs.sorted_input import SortedInput
from firesteel.runtime.inputs.temporary_files import TemporaryFiles
from firesteel.runtime.inputs.watermark_valve import WatermarkValve
from firesteel.runtime.operator import Timestamps
from firesteel.runtime.operator_chain import ChainLink
from firesteel.runtime.pace import Pace, Slices
from firesteel.runtime.services import TaskServices
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.wire_format import BARRIER, Header, decode, read_header

__all__ = ["BarrierAlignment", "GateListener", "InputGate"]

_PAYLOADS_AT_ONCE = 16
_RECORDS_AT_ONCE = 1024  # where a turn is a record


class GateListener(Protocol):
    """The subtask behind a gate."""

    def barriers_complete(self, order: CheckpointOrder, waited: float) -> None:
        """The barrier has come on all channels, ``waited`` seconds after the first: the snapshot is due."""
        ...

    def barriers_declined(self, checkpoint_id: int, reason: str) -> None:
        """The barriers of a checkpoint are not waited for any longer."""
        ...

    def input_ended(self) -> None:
        """All input has been read."""
        ...


class InputGate:
    """All channels of one subtask, and ``head``, the first link of its chain; a pure machine."""

    def __init__(
        self,
        plan: JobPlan,
        vertex: VertexPlan,
        subtask: int,
        head: ChainLink,
        services: TaskServices,
        settings: TaskSettings,
        listener: GateListener,
    ) -> None:
        self.vertex = vertex
        self._name = f"{vertex.name!r} ({subtask + 1}/{vertex.parallelism})"
        self._head = head
        self._listener = listener
        self._now = services.now
        self._pace: Pace = services.pace
        self._slices: Slices = services.pace.create_slices()
        files = TemporaryFiles.of(settings.configuration, subtask)
        self._space = PayloadSpace(files=files)
        self._waiting_limit = settings.waiting_input_limit if plan.mode is RuntimeMode.STREAMING else math.inf
        self.channels = self._create_channels(plan, vertex, subtask)
        self._valve = WatermarkValve(len(self.channels))
        self._alignment = BarrierAlignment(len(self.channels), settings.exactly_once)
        self._aligning_since = 0.0
        self._awaited = self._channels_read_first(plan, vertex)
        self._selected = self._create_selected(vertex)
        self._closed = self._closed_channels()
        self._turns: Turns = OpenChannels(self._closed) if self._selected is None else self._selected
        self._feed = self._feed_slice if self._selected is None else self._feed_record
        self._sorted = self._create_sorted(plan, vertex, files)
        self._ends_keys = False  # whether keys end behind the sorted records that are being read
        #: Chunks that were read so far, and their bytes.
        self.chunks_in = self.bytes_in = 0

    def _create_channels(self, plan: JobPlan, vertex: VertexPlan, subtask: int) -> list[InputChannel]:
        channels: list[InputChannel] = []
        for edge in plan.edges_into(vertex.id):
            senders = plan.vertices[edge.source].parallelism
            receive = self._receiver(edge.input_index)
            for sender in edge.distribution.sources(subtask, senders, vertex.parallelism):
                channels.append(InputChannel(edge, sender, len(channels), receive, self._space))
        return channels

    def _receiver(self, index: int) -> ReceiveSome:
        return self._head.receive_some if index == 0 else self._head.receive_some_second

    # Why channels are closed --------------------------------------------------------------------------

    def _channels_read_first(self, plan: JobPlan, vertex: VertexPlan) -> set[int]:
        """The channels that others wait for, until they have ended."""
        first = vertex.operators[0].spec.reads_first
        if first is None or plan.mode is not RuntimeMode.BATCH:
            return set()
        return {channel.number for channel in self.channels if channel.edge.input_index == first}

    def _create_selected(self, vertex: VertexPlan) -> SelectedInput | None:
        """What gives channels their turns when the operator chooses; None when it wants all at any time."""
        spec = vertex.operators[0].spec
        if not isinstance(spec, TwoInputTransformSpec) or not spec.selects:
            return None
        indexes = [channel.edge.input_index for channel in self.channels]
        return SelectedInput(self._head.next_selection, (indexes.count(0), indexes.count(1)))

    def _closed_channels(self) -> set[int]:
        """The channels whose payloads wait, whenever that is looked at.

        The three reasons never meet: barriers come in STREAMING, inputs wait for each other in BATCH, and a job with
        checkpoints has no operator that chooses.
        """
        everything = {channel.number for channel in self.channels}
        if self._selected is not None:
            return everything
        return everything - self._awaited if self._awaited else self._alignment.blocked

    def _create_sorted(self, plan: JobPlan, vertex: VertexPlan, files: TemporaryFiles) -> SortedInput | None:
        """Where keyed inputs are sorted in BATCH; None when they are processed as they arrive."""
        selectors = vertex.operators[0].key_selectors
        if plan.mode is not RuntimeMode.BATCH or not any(selectors) or self._selected is not None:
            return None
        head = self._head
        sorted_input = SortedInput(head.keys_of, head.operator.one_key_at_a_time, files=files)
        for channel in self.channels:
            index = channel.edge.input_index
            if index < len(selectors) and selectors[index] is not None:
                channel.receive = sorted_input.receiver(index, channel.number)
        return sorted_input

    # Reading ------------------------------------------------------------------------------------------

    @property
    def may_read(self) -> bool:
        """Whether something waits that can be read now; as long as it does, nothing new is to be received."""
        return self._turns.may_read or (self._sorted is not None and self._sorted.is_open)

    @property
    def has_rest(self) -> bool:
        """Whether the next slice of a chunk is to be read."""
        return self._turns.has_rest

    @property
    def waiting_bytes(self) -> int:
        """How much waits on all channels, in memory and in a file."""
        return self._space.size

    @property
    def sorts(self) -> bool:
        """Whether input is sorted before it is processed."""
        return self._sorted is not None

    def receive(self, channel: InputChannel, header: Header, payload: bytes | memoryview) -> None:
        """A payload has arrived; `may_read` must be false."""
        if channel.number in self._closed:
            self._hold(channel, payload)
        else:
            self._process(channel, header, payload)
            if channel.rest is not None:
                self._turns.add(channel)

    def read(self) -> bool:
        """Read some of what waited, so little that what it leads to can leave in between; whether there was any."""
        did_something = False
        for _ in range(_PAYLOADS_AT_ONCE if self._selected is None else _RECORDS_AT_ONCE):
            if self._turns.has_rest or not self.read_next():
                break
            did_something = True
        return did_something

    def read_next(self) -> bool:
        """Read the next slice or payload of what waits; whether there was one."""
        channel = self._turns.next()
        if channel is None:
            return self._read_sorted()
        if channel.rest is not None:
            self._feed(channel, *channel.rest)
        else:
            payload = channel.payloads.take()
            self._process(channel, read_header(payload), payload)
        if channel.rest is not None or channel.payloads:
            self._turns.add(channel)
        return True

    def _hold(self, channel: InputChannel, payload: bytes | memoryview) -> None:
        """The one way for a payload to wait."""
        channel.payloads.add(payload)
        if self._space.size > self._waiting_limit:
            self._refuse_to_keep_more()
        if self._selected is not None:  # perhaps the operator has chosen this input
            self._selected.add(channel)
            self.read()

    def _process(self, channel: InputChannel, header: Header, payload: bytes | memoryview) -> None:
        sequence = header.sequence
        if sequence != channel.expected or (channel.ended and header.kind != BARRIER):
            raise self._lost(channel, sequence)
        channel.expected = sequence + 1
        match decode(header.kind, payload):
            case Chunk(values, timestamps):
                self.bytes_in += len(payload)
                self.chunks_in += 1
                notice(values)
                self._feed(channel, values, timestamps, 0)
            case WatermarkSignal(timestamp):
                self._watermark(channel, timestamp)
            case StreamStatus(active):
                self._status(channel, active)
            case Barrier(order):
                self._barrier(channel, order)
            case EndOfInput():
                self._end(channel)
            case LatencyMarker() as marker:
                self._head.latency_marker(marker)

    def _lost(self, channel: InputChannel, sequence: int) -> DataLossError:
        return DataLossError(
            f"payload {sequence} arrived on edge {channel.edge.id} from subtask {channel.sender + 1} at {self._name}, "
            f"expected {'nothing after the end' if channel.ended else channel.expected}: records were lost, repeated "
            "or reordered"
        )

    def _feed_slice(
        self, channel: InputChannel, values: list[Any], timestamps: Timestamps, begin: int
    ) -> None:
        """Give the chain the next slice of a chunk."""
        slices, now = self._slices, self._pace.now
        size = slices.next_size(len(values) - begin)
        if size < len(values):
            piece = slice(begin, begin + size)
            given, stamps = values[piece], None if timestamps is None else timestamps[piece]
        else:
            given, stamps = values, timestamps
        began = now()
        done = size - channel.receive(given, stamps)
        slices.took(done, now() - began)
        begin += done
        channel.rest = (values, timestamps, begin) if begin < len(values) else None

    def _feed_record(
        self, channel: InputChannel, values: list[Any], timestamps: Timestamps, begin: int
    ) -> None:
        """Give the chain the next record of a chunk: then the operator may choose another input."""
        end = begin + 1
        end -= channel.receive(values[begin:end], None if timestamps is None else timestamps[begin:end])
        channel.rest = (values, timestamps, end) if end < len(values) else None

    # Event time and the end ---------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """How far event time has come."""
        return self._valve.clock

    def slowest_channel(self) -> InputChannel | None:
        """The channel that holds event time back; None when all are idle."""
        number = self._valve.slowest()
        return None if number is None else self.channels[number]

    def restore_clock(self, clock: int) -> None:
        """Event time had come so far in the checkpoint that the job starts from."""
        if self.channels:
            self._valve.resume(clock)

    def ask_again(self) -> None:
        """A timer has fired: the operator may choose another input now."""
        if self._selected is not None:
            self._selected.ask_again()

    def _watermark(self, channel: InputChannel, timestamp: int) -> None:
        clock = self._valve.watermark(channel.number, timestamp)
        if clock is not None and self._sorted is None:
            self._head.watermark(clock)

    def _status(self, channel: InputChannel, active: bool) -> None:
        clock, status = self._valve.status(channel.number, active)
        if self._sorted is not None:
            return
        if clock is not None:
            self._head.watermark(clock)
        if status is not None:
            self._head.status(status)

    def _end(self, channel: InputChannel) -> None:
        channel.ended = True
        if self._selected is not None:
            self._selected.channel_ended(channel.edge.input_index)
        if channel.number in self._awaited:
            self._awaited.discard(channel.number)
            if not self._awaited:
                self._closed.clear()
                self._take_turns()
        if all(each.ended for each in self.channels):
            if self._sorted is None:
                self._listener.input_ended()
            else:
                self._begin_sorted(self._sorted)

    # Sorted input -------------------------------------------------------------------------------------

    def _begin_sorted(self, sorted_input: SortedInput) -> None:
        """All input is there: what `read` finds from now on comes in order, and goes to the operator."""
        sorted_input.seal()
        self._slices = self._pace.create_slices()
        for channel in self.channels:
            channel.receive = self._receiver(channel.edge.input_index)

    def _read_sorted(self) -> bool:
        """Read a run of what was sorted, and say where keys end."""
        if self._sorted is None or not self._sorted.is_open:
            return False
        if self._ends_keys:
            self._ends_keys = False
            self._head.end_keys()
        run = self._sorted.take()
        if run is None:
            self._end_sorted(self._sorted)
        else:
            self._ends_keys = run.ends_keys
            channel = next(each for each in self.channels if each.edge.input_index == run.input)
            self._feed(channel, run.values, run.timestamps, 0)
            if channel.rest is not None:
                self._turns.add(channel)
        return True

    def _end_sorted(self, sorted_input: SortedInput) -> None:
        sorted_input.close()
        self._sorted = None
        if self.clock > MIN_TIMESTAMP:
            self._head.watermark(self.clock)
        self._listener.input_ended()

    # Checkpoints --------------------------------------------------------------------------------------

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """The job master has aborted a checkpoint: its barriers are not waited for any longer."""
        self._alignment.abort(checkpoint_id)
        self._take_turns()

    def _barrier(self, channel: InputChannel, order: CheckpointOrder) -> None:
        alignment, now = self._alignment, self._now()
        if not alignment.blocked:
            self._aligning_since = now
        complete = alignment.barrier(channel.number, order)
        overtaken = alignment.take_declined()
        if overtaken:
            self._aligning_since = now
        if complete:
            self._listener.barriers_complete(order, self._now() - self._aligning_since)
        for checkpoint_id in overtaken:
            reason = f"checkpoint {order.id} began before all its barriers had come"
            self._listener.barriers_declined(checkpoint_id, reason)
        if complete or overtaken:
            self._take_turns()

    def _take_turns(self) -> None:
        """Channels may have been opened: those on which something waits are read again."""
        for channel in self.channels:
            if channel.payloads:
                self._turns.add(channel)

    def _refuse_to_keep_more(self) -> None:
        size, limit = (
            self._space.size,
            f"more than the {self._waiting_limit} that {WAITING_INPUT_LIMIT.key} allows",
        )
        if self._selected is not None:
            raise JobExecutionError(
                f"{self._name} has chosen to read one of its inputs, and {size} bytes of the other one wait, {limit}; "
                "read both from time to time, or raise the limit"
            )
        channels = len(self.channels)
        reason = (
            f"{size} bytes waited at {self._name} for the barriers of {channels - len(self._closed)} of {channels} "
            f"channels, {limit}: the senders of the others are slow, or far behind"
        )
        self._alignment.decline()
        for checkpoint_id in self._alignment.take_declined():
            self._listener.barriers_declined(checkpoint_id, reason)
        self._take_turns()

    def close(self) -> None:
        """Forget what still waits."""
        for channel in self.channels:
            channel.payloads.close()
        if self._sorted is not None:
            self._sorted.close()


class BarrierAlignment:
    """When a subtask takes its snapshot: the barriers of its channels, numbered from 0; a pure machine.

    With aligned barriers (EXACTLY_ONCE) a channel that has delivered the barrier is *blocked*: what comes on it belongs
    after the snapshot and waits until all other channels have delivered theirs. Without (AT_LEAST_ONCE) nothing
    waits, and the state may contain records of the next checkpoint already.

    A newer barrier ends the wait for an older one, as an abort by the job master does: somebody before this subtask
    has declined the older one. Barriers of checkpoints that are over are ignored.
    """

    def __init__(self, channels: int, exactly_once: bool) -> None:
        self._channels = channels
        self._exactly_once = exactly_once
        self._arrived: dict[int, set[int]] = {}  # checkpoint -> channels that delivered its barrier
        self._completed = 0  # the newest checkpoint of which all barriers have come
        self._aborted: set[int] = set()  # newer ones of which the barriers that still come are ignored
        #: One and the same set all the time.
        self.blocked: set[int] = set()
        self._declined: list[int] = []

    def barrier(self, channel: int, order: CheckpointOrder) -> bool:
        """A channel has delivered a barrier; whether it was the last one, so that the snapshot is due now."""
        if order.id <= self._completed or order.id in self._aborted:
            return False
        if self._exactly_once:
            self._decline_before(order.id)
        arrived = self._arrived.setdefault(order.id, set())
        arrived.add(channel)
        if len(arrived) < self._channels:
            if self._exactly_once:
                self.blocked.add(channel)
            return False
        self._decline_before(order.id)
        del self._arrived[order.id]
        self._completed = order.id
        self._aborted = {aborted for aborted in self._aborted if aborted > order.id}
        self.blocked.clear()
        return True

    def abort(self, checkpoint_id: int) -> None:
        """The job master has aborted a checkpoint."""
        if checkpoint_id > self._completed:
            self._aborted.add(checkpoint_id)
        if self._arrived.pop(checkpoint_id, None) is not None:
            self.blocked.clear()

    def decline(self) -> None:
        """Too much waits: the checkpoint whose barriers are missing is over, and the channels are free."""
        for waiting in self._arrived:
            self._aborted.add(waiting)
            self._declined.append(waiting)
        self._arrived.clear()
        self.blocked.clear()

    def take_declined(self) -> list[int]:
        """The checkpoints that this subtask has declined since the last time."""
        declined, self._declined = self._declined, []
        return declined

    def _decline_before(self, checkpoint_id: int) -> None:
        for older in [waiting for waiting in self._arrived if waiting < checkpoint_id]:
            del self._arrived[older]
            self._declined.append(older)
            self.blocked.clear()
