"""Drive one operator by hand, with a recording output; the harnesses for users are made of it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.storage import Storage, open_storage
from firesteel.plan.job_plan import JobPlan, OperatorPlan, VertexPlan
from firesteel.plan.operator_specs import OperatorSpec, RuntimeMode
from firesteel.plan.shipped import Shipped
from firesteel.runtime.call_loop import CallLoop, SteppedLoop
from firesteel.runtime.elements import Chunk, Element, StreamStatus, WatermarkSignal
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operator_chain import ChainLink
from firesteel.runtime.pace import Pace
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.vertex import VertexSubtask
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.operator_state import OperatorStateBackend
from firesteel.state.snapshot.operator_snapshot import OperatorSnapshot
from firesteel.testing._remembered_results import RememberedResults
from firesteel.testing.manual_clock import ManualClock

__all__ = ["OperatorHarness", "RecordingOutput", "RecordingServices", "advance"]


class RecordingServices:
    """Task services that keep what a task says."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = ManualClock() if clock is None else clock
        self.job_id = "0" * 32
        self.attempt = 0
        self.random = random.Random(0)
        self.pace = Pace()
        self.now = self.clock.now
        self.texts: list[tuple[str, bool]] = []
        self.blobs: list[tuple[str, bytes]] = []
        self.files: dict[str, str] = {}
        self.local_copies: LocalCopies | None = None
        self.woken = threading.Event()
        self._call_loop = SteppedLoop(self.clock.now)

    def call_loop(self) -> CallLoop:
        """An event loop by the clock of the harness."""
        return self._call_loop

    def wake(self) -> None:
        """Whoever waits for a thread of the operator may look again."""
        self.woken.set()

    def write_text(self, text: str, to_stderr: bool = False) -> None:
        """Keep the text."""
        self.texts.append((text, to_stderr))

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> RememberedResults:
        """Keep the records."""
        return RememberedResults(lambda blob: self.blobs.append((collect_id, blob)), start)

    def storage(self, root: str) -> Storage:
        """Where the files of a checkpoint are."""
        return open_storage(root)

    def cached_file(self, name: str) -> str:
        """As the test set it."""
        return self.files[name]


class RecordingOutput:
    """An operator's output that keeps everything, in order of emission."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int | None] = []
        self.batches: list[list[Any]] = []
        self.sides: dict[str, list[Any]] = {}
        self.side_timestamps: dict[str, list[int | None]] = {}
        self.watermarks: list[int] = []
        self.statuses: list[bool] = []
        #: Main output and signals in the order in which they were emitted.
        self.elements: list[Element] = []

    def emit(self, values: list[Any], timestamps: Timestamps) -> None:
        """Keep a batch."""
        self.values += values
        self.timestamps += [None] * len(values) if timestamps is None else timestamps
        self.batches.append(list(values))
        if values:
            self.elements.append(Chunk(list(values), None if timestamps is None else list(timestamps)))

    def emit_side(self, tag_id: str, values: list[Any], timestamps: Timestamps) -> None:
        """Keep a batch of a side output."""
        self.sides.setdefault(tag_id, []).extend(values)
        stamps = [None] * len(values) if timestamps is None else timestamps
        self.side_timestamps.setdefault(tag_id, []).extend(stamps)

    def is_settled(self) -> bool:
        """Whoever reads what was kept may change it."""
        return False

    def watermark(self, timestamp: int) -> None:
        """Keep it."""
        self.watermarks.append(timestamp)
        self.elements.append(WatermarkSignal(timestamp))

    def status(self, active: bool) -> None:
        """Keep it."""
        self.statuses.append(active)
        self.elements.append(StreamStatus(active))


class OperatorHarness:
    """One operator, opened, with a recording output; errors are explained as in a job.

    >>> from firesteel.plan.operator_specs import MapSpec
    >>> harness = OperatorHarness(MapSpec(Shipped.of(lambda x: x + 1, "map")))
    >>> harness.process([1, 2])
    >>> harness.output.values
    [2, 3]
    """

    def __init__(
        self,
        spec: OperatorSpec,
        *,
        keys: tuple[Callable[[Any], Any] | Shipped | None, ...] = (),
        mode: RuntimeMode = RuntimeMode.STREAMING,
        parallelism: int = 1,
        subtask: int = 0,
        options: Mapping[str, str] | None = None,
        clock: ManualClock | None = None,
        snapshot: OperatorSnapshot | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.services = RecordingServices(clock)
        if pace is not None:
            self.services.pace = pace
        self.output = RecordingOutput()
        selectors = tuple(_shipped(key) for key in keys)
        operator = OperatorPlan("op", "Operator", spec, key_selectors=selectors)
        vertex = VertexPlan(0, "Operator", 0, 0, parallelism, 128, (operator,))
        plan = JobPlan("harness", mode, (), (vertex,), (), options or {})
        settings = TaskSettings.of(plan)
        self.vertex = VertexSubtask(plan, vertex, subtask, {}, self.services, settings)
        self.link = self.vertex.head
        self.operator = self.link.operator
        self.runtime = self.vertex.chain[0].context
        if snapshot is not None:
            snapshot.restore(self.state, self.operator_state)
        self.link.open(
            OperatorContext(
                self.output,
                self.runtime,
                self.services,
                mode,
                settings.watermark_interval_ms,
                self.operator_state,
                self.state if any(selectors) else None,
                None if snapshot is None else 0,
                protects=not settings.object_reuse,
                pace=self.services.pace,
            )
        )

    @property
    def state(self) -> KeyedBackend:
        """The keyed state of the first operator of the chain."""
        return self.vertex.chain[0].keyed_state

    @property
    def operator_state(self) -> OperatorStateBackend:
        """The list and broadcast states of the subtask."""
        return self.vertex.chain[0].operator_state

    def snapshot(self) -> OperatorSnapshot:
        """A copy of the state and timers, for a new harness."""
        return OperatorSnapshot.of(self.state, self.operator_state)

    def process(self, values: list[Any], timestamps: list[int | None] | None = None) -> None:
        """A batch of the first input."""
        self.link.receive(values, timestamps)

    def process_second(self, values: list[Any], timestamps: list[int | None] | None = None) -> None:
        """A batch of the second input."""
        self.link.receive_second(values, timestamps)

    def on_time(self) -> None:
        """Let the operator do all that is due by its clock."""
        while self.operator.next_deadline() <= self.services.now():
            self.link.on_time(self.services.now())

    def watermark(self, timestamp: int) -> None:
        """Event time advances."""
        self.link.watermark(timestamp)

    def status(self, active: bool) -> None:
        """The input becomes idle or active again."""
        self.link.status(active)

    def advance(self, seconds: float) -> None:
        """The machine's time advances: what is due happens at its own time, earliest first."""
        advance(self.link, self.services.clock, seconds)

    def finish(self) -> None:
        """The input has ended."""
        self.link.end()

    def close(self) -> None:
        """Close the operator, as at the end of a task."""
        self.link.close()


def advance(link: ChainLink, clock: ManualClock, seconds: float) -> None:
    """Let time pass for an operator: what is due happens at its own time, earliest first."""
    end = clock.now() + seconds
    while (due := link.operator.next_deadline()) <= end:
        clock.advance_to(due)
        link.on_time(clock.now())
    clock.advance_to(end)


def _shipped(key: Callable[[Any], Any] | Shipped | None) -> Shipped | None:
    return key if key is None or isinstance(key, Shipped) else Shipped.of(key, "key_by")
