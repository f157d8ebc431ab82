"""Where records go: Flink's `SinkFunction`, called for every record, and `Sink` with its writer and committer.

A `Sink` is a picklable description. Each subtask asks it for a live `SinkWriter`, which writes records so that they
cannot be seen yet, and at every checkpoint hands over what it wrote as *committables*: picklable objects that say how
to make it seen. They are kept in the checkpoint; when it is complete, a `Committer` makes them seen. A sink without
a committer writes for everybody to see, once its writer is flushed.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.configuration import Configuration
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.functions import Function
from firesteel.contracts.java_classes import refuse_java_class
from firesteel.contracts.state import OperatorStateStore

IN = TypeVar("IN", contravariant=True, default=Any)


class SinkFunction(Function, Generic[IN]):
    """A sink written in Python: ``invoke`` is called for every record, in order per channel."""

    class Context(ABC):
        """What a sink may ask about the record at hand."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Event time of the record in milliseconds, None when it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Time of the machine in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Event time up to which the input is complete."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse the name of a Java class, which PyFlink takes."""
        refuse_java_class(cls, SinkFunction, "invoke", (*args, *kwargs.values()))
        return super().__new__(cls)

    @abstractmethod
    def invoke(self, value: IN, context: SinkFunction.Context, /) -> None:
        """Write one record."""


class DiscardingSink(SinkFunction[Any]):
    """Takes everything and keeps nothing; for measuring and for jobs whose effect lies elsewhere."""

    @override
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Forget the record."""


# Writers and committers -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a writer or committer knows about its place in the job.

    ``now`` tells the time in seconds. ``restored_checkpoint_id`` is None at a first start. ``input_type`` is the
    declared type of the records. ``checkpointing``: checkpoints will come. ``states`` hands out list states of the subtask, for writers that keep more than
    `SinkWriter.snapshot_state` gives; names that begin with a null character are taken.
    """

    job_id: str
    subtask: int
    parallelism: int
    attempt: int
    now: Callable[[], float]
    states: OperatorStateStore
    restored_checkpoint_id: int | None = None
    input_type: TypeInformation | None = None
    checkpointing: bool = True


class SinkWriter(ABC, Generic[IN]):
    """Writes the records of one subtask; plain Python, called from the task's only thread."""

    @abstractmethod
    def write(self, value: IN, context: SinkFunction.Context, /) -> None:
        """Write one record."""

    def write_batch(
        self, values: list[Any], timestamps: Sequence[int | None] | None, context: SinkFunction.Context, /
    ) -> None:
        """Write several records, in their order; ``timestamps`` are their event times, None when they have none.

        For writers that gain by it: one that overrides this is given its records here, all others by `write`. How many
        come at a time has no meaning. ``context.timestamp()`` says nothing here. An error that is about one of the records can
        say which by `at_record`.
        """
        raise NotImplementedError

    def flush(self, end_of_input: bool) -> None:
        """Write what is still held back. Comes before every checkpoint, and once at the end of the input."""

    def prepare_commit(self) -> list[Any]:
        """Hand over what was written since the last time, as committables; whatever happens, they can be committed.

        Called at every checkpoint after `flush`, and without checkpoints once, at the end of the input.
        """
        return []

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """What a new writer needs to resume, as a list of picklable objects; after `prepare_commit`.

        When the parallelism changes, they are redistributed. They are for `Sink.restore_writer`.
        """
        return []

    def next_deadline(self) -> float:
        """When `on_time` wants to be called, as told by ``SinkContext.now``; infinity for never."""
        return math.inf

    def on_time(self, now: float) -> None:
        """The time that was asked for has come."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint will never be undone; what it holds for the committer has been committed."""

    def close(self) -> None:
        """Called once at the end, also when the job failed: release everything, make nothing seen."""


def at_record(error: Exception, index: int) -> Exception:
    """The same error, which now says that it is about the record of this index in the batch; for `SinkWriter.write_batch`."""
    error.__dict__[_INDEX] = index
    return error


def record_of(error: Exception) -> int | None:
    """The index that `at_record` noted; None when it was not called for this error."""
    index: int | None = error.__dict__.get(_INDEX)
    return index


_INDEX = "_firesteel_record_index"


class CommitOutcome(enum.Enum):
    """What became of a request."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RETRY = "retry"
    FAILED = "failed"


class CommitRequest:
    """A committable on its way to be seen. It counts as committed unless the committer says otherwise."""

    __slots__ = ("_checkpoint_id", "_committable", "error", "outcome", "retries")

    def __init__(self, committable: Any, retries: int = 0, checkpoint_id: int | None = None) -> None:
        self._committable = committable
        self._checkpoint_id = checkpoint_id
        self.retries = retries
        self.outcome = CommitOutcome.COMMITTED
        self.error: Exception | None = None

    def get_committable(self) -> Any:
        """What to make seen; after `update_and_retry_later`, what is left of it."""
        return self._committable

    def get_checkpoint_id(self) -> int | None:
        """The checkpoint that it was first part of; None in a job without checkpoints."""
        return self._checkpoint_id

    def get_number_of_retries(self) -> int:
        """How often it was tried before."""
        return self.retries

    def signal_already_committed(self) -> None:
        """It was committed before, by an attempt that could not say so."""
        self.outcome = CommitOutcome.ALREADY_COMMITTED

    def retry_later(self) -> None:
        """It did not work, but it may work in a while."""
        self.outcome = CommitOutcome.RETRY

    def update_and_retry_later(self, committable: Any) -> None:
        """A part of it worked: try later with what is left."""
        self._committable = committable
        self.outcome = CommitOutcome.RETRY

    def signal_failed_with_known_reason(self, error: Exception) -> None:
        """It will never work, and everybody knows why: what it stands for is given up, with a warning."""
        self.outcome, self.error = CommitOutcome.FAILED, error

    def signal_failed_with_unknown_reason(self, error: Exception) -> None:
        """It failed, nobody knows why: fail the job."""
        raise error


class Committer(ABC):
    """Makes seen what a writer has written; plain Python, called from the task's only thread."""

    @abstractmethod
    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit all requests, oldest first; use their methods for those that cannot be, or already are, committed.

        The same committable may come again after a failure, so committing twice must do what committing once does.
        """

    def close(self) -> None:
        """Called once at the end, also when the job failed."""


@dataclass(frozen=True, slots=True)
class DriverJob:
    """What a sink's part in the driver knows of the job: how many slots it takes, and whether it only is simulated."""

    configuration: Configuration
    slots: int
    is_simulated: bool = False


class DriverPart(ABC):
    """What a sink does in the driver, beside its writers and committers in the tasks: never pickled.

    A driver may be killed and another one take over, so what it has to do must be found in a place that outlives it.
    """

    @abstractmethod
    def start(self, job: DriverJob) -> None:
        """The job is about to begin; raises what keeps it from that. Threads are its own."""

    @abstractmethod
    def stop(self) -> None:
        """The job is over, in whatever way, or did not begin. Who waits for the end of the job waits for this, too."""


class Sink(ABC, Generic[IN]):
    """Description of an output; travels to the tasks by pickle."""

    @abstractmethod
    def create_writer(self, context: SinkContext, /) -> SinkWriter[IN]:
        """The live writer of one subtask."""

    def restore_writer(self, context: SinkContext, states: Sequence[Any], /) -> SinkWriter[IN]:
        """The live writer of a subtask that continues: ``states`` are from `SinkWriter.snapshot_state`."""
        if states:
            raise NotImplementedError(
                f"the writers of {type(self).__name__} put state into checkpoints that nobody takes back; "
                "it must have a method restore_writer"
            )
        return self.create_writer(context)

    def create_committer(self, context: SinkContext) -> Committer | None:
        """The live committer of one subtask; None when there is nothing to commit."""
        return None

    def create_driver_part(self, input_type: TypeInformation | None) -> DriverPart | None:
        """What has to run in the driver while the job runs; None for nothing. Called when the program is built."""
        return None
