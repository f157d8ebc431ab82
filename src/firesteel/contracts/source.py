"""Where records come from: sources that are polled, and source functions that run in a thread of their own.

A `Source` is a picklable description; each subtask asks it for a live `SourceReader` and polls that
for whole batches. What there is to read is cut into *splits*: picklable objects that say where to read and how far
the reader has come. Readers' splits are part of every checkpoint, and after a failure or with another parallelism
they are redistributed to the readers. There are three kinds of sources:

- `Source.create_enumerator` makes a `SplitEnumerator`: one object in the job master that finds splits while the job
  runs and assigns them to readers;
- `Source.splits_of` tells the splits of every subtask in advance;
- a source with neither has readers that find their own work; after a failure they begin again.

A `SourceFunction` is Flink's older form: its `run` blocks and calls ``ctx.collect``; the runtime runs it in a
thread and polls what it collected.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Self

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import DeserializationError
from firesteel.common.watermark_strategy import Watermark, WatermarkStrategy
from firesteel.contracts.functions import Function
from firesteel.contracts.java_classes import refuse_java_class
from firesteel.metrics import MetricGroup

#: What a source produces, and what a source function's context takes.
T = TypeVar("T", covariant=True, default=Any)
RECORD = TypeVar("RECORD", contravariant=True, default=Any)


class Boundedness(enum.Enum):
    """Whether the input has an end."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous_unbounded"


def _nobody_listens(*_: Any) -> None:
    """What readers of a source without an enumerator call in vain."""


def _unreported() -> MetricGroup:
    """For readers that are driven by hand: nobody reads their metrics."""
    return MetricGroup("source")


@dataclass(frozen=True, slots=True)
class SourceReaderContext:
    """What a reader knows about its subtask.

    ``now`` tells the time in seconds (a float); it is the simulator's clock in tests. ``wake`` may be
    called from any thread to have the reader polled again before the time it asked for. ``request_split`` and
    ``send_event`` are the way to the enumerator; they may be called in ``open``, ``poll`` and later, by the task's
    thread only. ``checkpointing``: checkpoints will come. ``metric_group`` gives the group under which the reader may register
    metrics of its own, in ``open`` and later, by the task's thread only.
    """

    subtask: int
    parallelism: int
    now: Callable[[], float]
    wake: Callable[[], None]
    request_split: Callable[[], None] = _nobody_listens
    send_event: Callable[[Any], None] = _nobody_listens
    checkpointing: bool = True
    metric_group: Callable[[], MetricGroup] = _unreported


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll gave: a batch, possibly empty, and when to ask again.

    ``timestamps`` runs parallel to ``values``; None when the source has none. ``retry_at`` is the time
    (as told by ``SourceReaderContext.now``) before which polling again is pointless; 0 means at once and
    infinity means only after ``wake``. ``ended`` says that nothing will ever follow. ``watermark`` and
    ``idle`` are signals that take effect after the values of the same poll.

    A reader of several splits (partitions, files) names in ``split`` the one that values and signals are of,
    so that each has watermarks of its own; None stands for the whole reader. ``splits_added`` are new to the
    reader, before the values: event time waits for their first records. ``splits_ended`` are over, after the
    values: event time advances without them.

    ``bad`` are messages that could not be deserialized, of a source that `Source.decodes`. The first one fails the job,
    unless the program has said otherwise with ``on_error``. ``ignored`` is how many errors the schema has passed over
    because the program wants that (``ignore_parse_errors``): they are counted.
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
    bad: Sequence[DeserializationError] = ()
    ignored: int = 0


class SourceReader(ABC):
    """Reads one subtask's share of a source; plain Python, called from the task's only thread.

    Records are what they were when `poll` gave them: those that can change are copied. ``gives_away = True`` is a
    promise that makes looking and copying unnecessary: none of them can change, or the reader neither keeps nor
    changes a record that it has given, nor gives it twice.
    """

    gives_away: bool = False

    def open(self) -> None:
        """Called once before the first poll."""

    @abstractmethod
    def poll(self, limit: int) -> Polled:
        """Up to ``limit`` records that are there now. Must not block for more than a few milliseconds."""

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these, too. Comes after ``open``; also with the splits of a checkpoint, each at its position."""
        raise NotImplementedError(f"{type(self).__name__} takes no splits; it must have a method add_splits")

    def notify_no_more_splits(self) -> None:
        """No others will come: when all have been read, the input has ended."""

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """The splits that are not read to their end, with the positions up to which polls have given records.

        They go into the checkpoint. The reader continues, so it must hand out copies of what it will change.
        """
        return []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """What was read before the checkpoint will never be asked for again."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted."""

    def handle_source_event(self, event: Any) -> None:
        """The enumerator has something to say."""

    def pending_records(self) -> int | None:
        """How many records are there and not read yet, as far as the reader knows; None when it does not.

        Asked with every report of metrics until the reader is closed, so it must be quick. Without this method there is no such
        metric.
        """
        return None

    def stop(self) -> None:
        """No more records are wanted: end as if the input had ended (poll answers ``ended`` soon).

        Checkpoints may still come: what was not read stays part of them. A reader without this method is not polled
        any more.
        """

    def close(self) -> None:
        """Called once after the last poll, also when the job failed or was cancelled."""


class Source(ABC, Generic[T]):
    """Description of an input; travels to the tasks by pickle.

    ``decodes = True``: readers make records of messages, by a schema, and hand over in ``Polled.bad`` those that they could not.
    Then the program may say with ``on_error`` what becomes of them.
    """

    decodes: bool = False

    @property
    def boundedness(self) -> Boundedness:
        """Bounded unless a source says otherwise."""
        return Boundedness.BOUNDED

    @property
    def max_subtasks(self) -> int | None:
        """1 for a source that cannot be read in parallel, None for no limit."""
        return None

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The live reader of one subtask; without splits, unless they never change hands."""

    def splits_of(self, subtask: int, parallelism: int) -> Sequence[Any] | None:
        """The splits that a subtask begins with, for a source that knows all of them in advance; None for others.

        Only at a first start: a job that continues has the splits of its checkpoint, whatever is asked for here.
        """
        return None

    @property
    def has_enumerator(self) -> bool:
        """Whether splits are found and assigned by an enumerator in the job master."""
        return type(self).create_enumerator is not Source.create_enumerator

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        """The live enumerator of a job that starts."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerator")

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        """The live enumerator of a job that continues; ``state`` is what `SplitEnumerator.snapshot_state` gave."""
        raise NotImplementedError(
            f"{type(self).__name__} has an enumerator that cannot resume from a checkpoint; "
            "it must have a method restore_enumerator"
        )


class SplitEnumeratorContext(ABC):
    """What an enumerator may ask and do. All calls come from, and go to, one thread."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """How many readers there are, or will be."""

    @abstractmethod
    def registered_readers(self) -> list[int]:
        """The subtasks whose readers have begun."""

    @abstractmethod
    def now(self) -> float:
        """Time in seconds; the simulator's clock in tests."""

    @abstractmethod
    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        """Hand splits to readers, by subtask. From now on they belong to the readers' checkpoints."""

    def assign_split(self, split: Any, subtask: int) -> None:
        """Hand one split to one reader."""
        self.assign_splits({subtask: [split]})

    @abstractmethod
    def signal_no_more_splits(self, subtask: int) -> None:
        """Tell a reader that it has got all its splits."""

    @abstractmethod
    def send_event_to_source_reader(self, subtask: int, event: Any) -> None:
        """Send any picklable object to a reader."""

    @abstractmethod
    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, Exception | None], None],
        initial_delay: float = 0.0,
        interval: float | None = None,
    ) -> None:
        """Call something slow in another thread, then ``handler(result, error)`` in the enumerator's own.

        After ``initial_delay`` seconds, and with an ``interval`` again and again, the next time an interval after
        the handler has returned. An error that a handler raises fails the job.
        """


class SplitEnumerator(ABC):
    """Finds what there is to read and says which reader reads it; lives in the job master, one per source.

    Plain Python, called from one thread. A split belongs to the enumerator's checkpoints until it is assigned, and
    to its reader's from then on.
    """

    def start(self) -> None:
        """Called once, before anything else; the place for `SplitEnumeratorContext.call_async`."""

    @abstractmethod
    def handle_split_request(self, subtask: int) -> None:
        """A reader has nothing left to read."""

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """A reader failed alone, with splits that no checkpoint knows to be its own: assign them again."""
        raise NotImplementedError(f"{type(self).__name__} takes no splits back")

    def add_reader(self, subtask: int) -> None:
        """A reader has begun; it has the splits of its checkpoint and asks for no others yet."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Any:
        """All that is needed to resume, as a picklable object: at least the splits not yet assigned."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint, and with it every earlier one, will never be undone."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted."""

    def handle_source_event(self, subtask: int, event: Any) -> None:
        """A reader has something to say."""

    def close(self) -> None:
        """Called once at the end, also when the job failed."""


class SourceFunction(Function, Generic[T]):
    """A source written as a loop: ``run`` collects until it is done or cancelled.

    Not parallel: it always runs as one subtask. Subclass `ParallelSourceFunction` for one copy per subtask.
    It continues where it was after a failure when it is also a `CheckpointedFunction` or `ListCheckpointed` and
    does its work under the checkpoint lock; `CheckpointListener` tells it how checkpoints end.
    """

    class SourceContext(ABC, Generic[RECORD]):
        """Through this ``run`` hands over records; every method may block while the job is busy."""

        @abstractmethod
        def collect(self, value: RECORD) -> None:
            """Emit a record without a timestamp."""

        @abstractmethod
        def collect_with_timestamp(self, value: RECORD, timestamp: int) -> None:
            """Emit a record with an event time in milliseconds."""

        @abstractmethod
        def emit_watermark(self, watermark: int | Watermark) -> None:
            """Declare that no record at or before ``watermark`` follows; a timestamp, or a `Watermark` of one."""

        @abstractmethod
        def mark_as_temporarily_idle(self) -> None:
            """Declare that no record follows for a while, so that nobody waits for this source's time."""

        @abstractmethod
        def is_running(self) -> bool:
            """False once the job wants this source to end."""

        @abstractmethod
        def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
            """Hold it (``with ctx.get_checkpoint_lock():``) while collecting a record and advancing the position.

            No checkpoint is taken meanwhile, so that the positions in a checkpoint and the records before it agree.
            It may be taken again by the thread that holds it.
            """

    bounded = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse the name of a Java class, which PyFlink takes."""
        refuse_java_class(cls, SourceFunction, "run", (*args, *kwargs.values()))
        return super().__new__(cls)

    @abstractmethod
    def run(self, ctx: SourceFunction.SourceContext[T], /) -> None:
        """Produce records until there are no more or `cancel` was called."""

    def cancel(self) -> None:
        """Make `run` return soon; called from another thread."""


class ParallelSourceFunction(SourceFunction[T]):
    """A `SourceFunction` of which every subtask runs its own copy."""


class SourceFunctionOfSource(SourceFunction[T]):
    """A source function that stands for a `Source`, under its older name: ``add_source`` adds that one instead."""

    @abstractmethod
    def as_source(self) -> Source[T]:
        """The source that is added in place of this function."""

    def watermark_strategy(self) -> WatermarkStrategy[Any]:
        """How its records get timestamps and watermarks."""
        return WatermarkStrategy.no_watermarks()

    @override
    def run(self, ctx: SourceFunction.SourceContext[T], /) -> None:
        """Not called: the source has readers."""
        raise NotImplementedError(
            f"{type(self).__name__} is added to a job by add_source(), and not run by hand"
        )
