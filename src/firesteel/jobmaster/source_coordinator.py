"""The enumerators of a job's sources, and which reader got which splits: hop 2 of a checkpoint's life.

Enumerators are user code; they run in whatever thread calls these methods, one at a time. What they want - splits for
a reader, work in another thread - is left in order in ``out`` and becomes instructions. An error of theirs
comes out as `UserCodeError` and names the source.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from firesteel.checkpoint import own_metadata, state_pickle
from firesteel.common._method_checks import check_methods
from firesteel.common._override import override
from firesteel.common.errors import FiresteelError, UserCodeError, WrongArgumentError
from firesteel.contracts.source import Source, SplitEnumerator, SplitEnumeratorContext
from firesteel.control.protocol import decode, encode
from firesteel.jobmaster.instructions import RunWork, SendToTasks
from firesteel.plan.job_plan import JobPlan, OperatorPlan, VertexPlan
from firesteel.plan.messages import (
    EnumeratorEvent,
    MasterMessage,
    ReaderEvent,
    ReaderRegistered,
    SourceMessage,
    SplitRequested,
    SplitsAssigned,
    TaskId,
)
from firesteel.plan.operator_specs import RuntimeMode, SourceSpec

_LOG = logging.getLogger(__name__)

SourceInstruction = SendToTasks | RunWork
Handler = Callable[[Any, Exception | None], None]


@dataclass(frozen=True, slots=True)
class _HostedSource:
    """A source with an enumerator, where it stands in the plan."""

    vertex: VertexPlan
    operator: OperatorPlan
    source: Source


@dataclass(frozen=True, slots=True)
class _Work:
    """A call that was handed out."""

    operator_id: str
    call: Callable[[], Any]
    handler: Handler
    interval: float | None


def _read(source: Source, state: bytes) -> Any:
    """The state of an enumerator; sources of a program may have saved anything, ours have not."""
    is_ours = type(source).__module__.startswith("firesteel.connectors.")
    return own_metadata.loads(state) if is_ours else state_pickle.loads(state)


class SourceCoordinator:
    """Hosts the enumerators of one job, new ones for each attempt."""

    def __init__(self, plan: JobPlan) -> None:
        self._hosted = {hosted.operator.id: hosted for hosted in _sources_with_enumerators(plan)}
        #: Whether the engine may run a task of an attempt once more.
        self.repeats_tasks = plan.mode is RuntimeMode.BATCH
        self._enumerators: dict[str, SplitEnumerator] = {}
        self._contexts: dict[str, _Context] = {}
        self._work: dict[int, _Work] = {}
        self._next_work = 1
        self.now = 0.0
        #: What the enumerators want, in order; drained by whoever calls.
        self.out: list[SourceInstruction] = []

    def change_plan(self, plan: JobPlan) -> None:
        """Tasks of another plan take the place of those that have ended."""
        self.stop()
        self._hosted = {hosted.operator.id: hosted for hosted in _sources_with_enumerators(plan)}

    # Attempts.

    def start(self, states: Mapping[str, bytes]) -> None:
        """Make and start all enumerators, with their states where a checkpoint has them."""
        self.stop()
        for operator_id, hosted in self._hosted.items():
            context = self._contexts[operator_id] = _Context(self, hosted)
            with self._blamed(operator_id):
                if operator_id in states:
                    state = _read(hosted.source, states[operator_id])
                    enumerator = hosted.source.restore_enumerator(context, state)
                else:
                    enumerator = hosted.source.create_enumerator(context)
                check_methods(enumerator, "create_enumerator()")
                self._enumerators[operator_id] = enumerator
                enumerator.start()

    def stop(self) -> None:
        """Close all enumerators; what they wanted and what they still wait for is forgotten."""
        enumerators, self._enumerators = self._enumerators, {}
        self._contexts = {}
        self._work = {}
        self.out = []
        for operator_id, enumerator in enumerators.items():
            try:
                enumerator.close()
            except Exception:  # noqa: BLE001 - it is over, and the others have to be closed too
                name = self._hosted[operator_id].operator.name
                _LOG.warning("the enumerator of source '%s' failed to close", name, exc_info=True)

    # Readers.

    def reader_said(self, message: SourceMessage) -> None:
        """A reader has begun, wants a split, or sends its enumerator an event."""
        enumerator = self._enumerators.get(message.operator_id)
        if enumerator is None:
            return
        with self._blamed(message.operator_id):
            match message:
                case ReaderRegistered(operator_id, subtask):
                    self._register(self._contexts[operator_id], enumerator, subtask)
                case SplitRequested(_, subtask):
                    enumerator.handle_split_request(subtask)
                case ReaderEvent(_, subtask, event):
                    enumerator.handle_source_event(subtask, decode(event))

    def _register(self, context: _Context, enumerator: SplitEnumerator, subtask: int) -> None:
        splits = context.assigned.pop(subtask, [])
        if splits:  # Spark repeats a task of a batch job, from the beginning
            enumerator.add_splits_back(splits, subtask)
        context.registered.add(subtask)
        enumerator.add_reader(subtask)

    # Checkpoints.

    def snapshot(self, checkpoint_id: int) -> dict[str, bytes]:
        """The states of all enumerators, by operator id."""
        states = {}
        for operator_id, enumerator in self._enumerators.items():
            with self._blamed(operator_id):
                states[operator_id] = state_pickle.dumps(enumerator.snapshot_state(checkpoint_id))
        return states

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Tell all enumerators."""
        for operator_id, enumerator in self._enumerators.items():
            with self._blamed(operator_id):
                enumerator.notify_checkpoint_complete(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell all enumerators."""
        for operator_id, enumerator in self._enumerators.items():
            with self._blamed(operator_id):
                enumerator.notify_checkpoint_aborted(checkpoint_id)

    # Work in other threads.

    def work_done(self, number: int, result: Any, error: BaseException | None) -> None:
        """A call that an enumerator asked for has ended; those of an earlier attempt do not count."""
        work = self._work.pop(number, None)
        if work is None:
            return
        if error is not None and not isinstance(error, Exception):
            raise error
        with self._blamed(work.operator_id):
            work.handler(result, error)
        if work.interval is not None and work.operator_id in self._enumerators:
            self.hand_out(work, work.interval)

    def hand_out(self, work: _Work, delay: float) -> None:
        """Have a call made after ``delay`` seconds."""
        number = self._next_work
        self._next_work += 1
        self._work[number] = work
        self.out.append(RunWork(number, work.call, delay))

    @contextmanager
    def _blamed(self, operator_id: str) -> Iterator[None]:
        try:
            yield
        except FiresteelError:
            raise
        except Exception as error:
            hosted = self._hosted[operator_id]
            reason = f"the enumerator of the source failed: {type(error).__name__}: {error}"
            raise UserCodeError(
                reason,
                operator=hosted.operator.name,
                function=hosted.operator.spec.user_code.description if hosted.operator.spec.user_code else "",
                traceback_text="".join(traceback.format_exception(error)),
            ) from error


class _Context(SplitEnumeratorContext):
    """What one enumerator may ask and do."""

    def __init__(self, coordinator: SourceCoordinator, hosted: _HostedSource) -> None:
        self._coordinator = coordinator
        self._hosted = hosted
        #: The subtasks whose readers have begun.
        self.registered: set[int] = set()
        #: Of a batch job, by subtask, the splits it got in this attempt: its task may be repeated. In a streaming job
        #: the loss of a task ends the attempt, and the next one reads its splits from a checkpoint; remembering them
        #: would take more memory with every file that a job ever reads.
        self.assigned: dict[int, list[Any]] = {}
        self._remembers = coordinator.repeats_tasks

    @override
    def current_parallelism(self) -> int:
        """How many readers there will be."""
        return self._hosted.vertex.parallelism

    @override
    def registered_readers(self) -> list[int]:
        """The subtasks whose readers have begun."""
        return sorted(self.registered)

    @override
    def now(self) -> float:
        """The time of the event that is being handled."""
        return self._coordinator.now

    @override
    def assign_splits(self, assignment: Mapping[int, Sequence[Any]]) -> None:
        for subtask in assignment:
            self._check(subtask, "assign splits to")
        for subtask, splits in assignment.items():
            if splits:
                if self._remembers:
                    self.assigned.setdefault(subtask, []).extend(splits)
                self._send(subtask, SplitsAssigned(self._id, subtask, encode(list(splits))))

    @override
    def signal_no_more_splits(self, subtask: int) -> None:
        """Tell a reader that it has got all its splits."""
        self._check(subtask, "signal the end of splits to")
        self._send(subtask, SplitsAssigned(self._id, subtask, encode([]), no_more=True))

    @override
    def send_event_to_source_reader(self, subtask: int, event: Any) -> None:
        """Send an object to a reader."""
        self._check(subtask, "send an event to")
        self._send(subtask, EnumeratorEvent(self._id, subtask, encode(event)))

    @override
    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Handler,
        initial_delay: float = 0.0,
        interval: float | None = None,
    ) -> None:
        """Have something called in another thread."""
        self._coordinator.hand_out(_Work(self._id, callable, handler, interval), initial_delay)

    @property
    def _id(self) -> str:
        return self._hosted.operator.id

    def _check(self, subtask: int, action: str) -> None:
        if subtask not in self.registered:
            raise WrongArgumentError(
                f"source '{self._hosted.operator.name}' cannot {action} reader {subtask}, which has not begun; readers "
                f"that have: {self.registered_readers()}; wait for add_reader() or handle_split_request()"
            )

    def _send(self, subtask: int, message: MasterMessage) -> None:
        vertex = self._hosted.vertex
        task = TaskId(vertex.stage, vertex.first_task + subtask)
        self._coordinator.out.append(SendToTasks((task,), message))


def _sources_with_enumerators(plan: JobPlan) -> Iterator[_HostedSource]:
    for vertex in plan.vertices:
        for operator in vertex.operators:
            if isinstance(operator.spec, SourceSpec) and operator.spec.enumerated:
                yield _HostedSource(vertex, operator, operator.spec.function.load())
