"""Where records come from: sources that are polled, and source functions that run in a thread of their own.

A `Source` is a picklable description; each subtask asks it for a live `SourceReader` and polls that
for whole batches. A `SourceFunction` is Flink's older form: its `run` blocks and calls ``ctx.collect``;
the runtime runs it in a thread and polls what it collected.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from firesteel.contracts.functions import Function


class Boundedness(enum.Enum):
    """Whether the input has an end."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous_unbounded"


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a reader knows about its place in the job.

    ``now`` tells the time in seconds (a float); it is the simulator's clock in tests. ``wake`` may be
    called from any thread to have the reader polled again before the time it asked for.
    """

    subtask: int
    parallelism: int
    now: Callable[[], float]
    wake: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll gave: a batch, possibly empty, and when to ask again.

    ``timestamps`` runs parallel to ``values``; None when the source has none. ``retry_at`` is the time
    (as told by ``SourceContext.now``) before which polling again is pointless; 0 means at once and
    infinity means only after ``wake``. ``ended`` says that nothing will ever follow. ``watermark`` and
    ``idle`` are signals that take effect after the values of the same poll.

    A reader of several splits (partitions, files) names in ``split`` the one that values and signals are of,
    so that each has watermarks of its own; None stands for the whole reader. ``splits_added`` are new to the
    reader, before the values: event time waits for their first records. ``splits_ended`` are over, after the
    values: event time goes on without them.
    """

    values: list[Any]
    timestamps: list[int | None] | None = None
    retry_at: float = 0.0
    ended: bool = False
    watermark: int | None = None
    idle: bool = False
    split: Hashable = None
    splits_added: tuple[Hashable, ...] = ()
    splits_ended: tuple[Hashable, ...] = ()


class SourceReader(ABC):
    """Reads one subtask's share of a source; plain Python, called from the task's only thread."""

    def open(self) -> None:
        """Called once before the first poll."""

    @abstractmethod
    def poll(self, limit: int) -> Polled:
        """Up to ``limit`` records that are there now. Must not block for more than a few milliseconds."""

    def stop(self) -> None:
        """No more records are wanted: end as if the input had ended (poll answers ``ended`` soon)."""

    def close(self) -> None:
        """Called once after the last poll, also when the job failed or was cancelled."""


class Source(ABC):
    """Description of an input; travels to the tasks by pickle."""

    @property
    def boundedness(self) -> Boundedness:
        """Bounded unless a source says otherwise."""
        return Boundedness.BOUNDED

    @property
    def max_subtasks(self) -> int | None:
        """1 for a source that cannot be read in parallel, None for no limit."""
        return None

    @abstractmethod
    def create_reader(self, context: SourceContext) -> SourceReader:
        """The live reader of one subtask."""


class SourceFunction(Function):
    """A source written as a loop: ``run`` collects until it is done or cancelled.

    Not parallel: it always runs as one subtask. Subclass `ParallelSourceFunction` for one copy per subtask.
    """

    class SourceContext(ABC):
        """Through this ``run`` hands over records; every method may block while the job is busy."""

        @abstractmethod
        def collect(self, value: Any) -> None:
            """Emit a record without a timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
            """Emit a record with an event time in milliseconds."""

        @abstractmethod
        def emit_watermark(self, watermark: int) -> None:
            """Declare that no record at or before ``watermark`` follows."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Declare that no record follows for a while, so that nobody waits for this source's time."""

        @abstractmethod
        def is_running(self) -> bool:
            """False once the job wants this source to end."""

    bounded = False

    @abstractmethod
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Produce records until there are no more or `cancel` was called."""

    def cancel(self) -> None:
        """Make `run` return soon; called from another thread."""


class ParallelSourceFunction(SourceFunction):
    """A `SourceFunction` of which every subtask runs its own copy."""
