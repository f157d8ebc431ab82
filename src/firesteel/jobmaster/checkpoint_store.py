"""Performs what a core wants of storage, one `StorageInstruction` at a time, in whatever thread calls it.

The store of a job is also where a new core begins: `CheckpointStore.take_up` claims the job for this driver, so that no
earlier one can complete a checkpoint any more, and says where to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from firesteel.checkpoint import layout, matching
from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.checkpoint.restore_point import RestorePoint
from firesteel.checkpoint.storage import Storage, open_storage
from firesteel.common.errors import CheckpointError, JobTakenOverError
from firesteel.jobmaster.events import (
    CheckpointNotPublished,
    CheckpointPublished,
    Event,
    RestoreFound,
    RestoreNotFound,
)
from firesteel.jobmaster.instructions import (
    CleanUp,
    DiscardSnapshots,
    FindRestore,
    PublishCheckpoint,
    StorageInstruction,
    SubsumeOlder,
)
from firesteel.jobmaster.master_core import Beginning
from firesteel.jobmaster.start_point import StartPoint
from firesteel.plan.job_plan import JobPlan, VertexPlan
from firesteel.plan.messages import SnapshotAcknowledged
from firesteel.plan.state_handles import CheckpointOrder, OperatorHandle

_LOG = logging.getLogger(__name__)

#: Attempts are numbered on from driver to driver, so that files of tasks that outlived their driver have other names.
ATTEMPTS_PER_DRIVER = 1000
#: How many checkpoints a driver may begin in a row without leaving a trace in storage.
RESERVED_IDS = 1000


class CheckpointStore:
    """The checkpoints of one job, as its master needs them.

    ``uids`` are those of the operators that have one, by operator id. ``open_directory`` opens the directory of
    a savepoint.
    """

    def __init__(
        self,
        checkpoints: JobCheckpoints,
        plan: JobPlan,
        job_id: str,
        uids: Mapping[str, str] | None = None,
        open_directory: Callable[[str], Storage] = open_storage,
        warn: Callable[[str], object] = _LOG.warning,
    ) -> None:
        self._checkpoints = checkpoints
        self._plan = plan
        self._job_id = job_id
        self._uids = uids or {}
        self._open_directory = open_directory
        self._warn = warn

    def take_up(self, point: StartPoint | None = None, who: str = "") -> Beginning:
        """Take the job over from earlier drivers, to go on from ``point``, else from its newest checkpoint."""
        self._checkpoints.claim(who)
        return beginning_of(self._checkpoints, self._job_id, point or self._find(deep=False))

    def perform(self, instruction: StorageInstruction) -> Event | None:
        """Do it; what it led to, for instructions that have an answer. Never raises."""
        match instruction:
            case PublishCheckpoint(order):
                try:
                    return CheckpointPublished(order.id, self._publish(instruction))
                except Exception as error:  # noqa: BLE001 - storage fails in all kinds of ways
                    return CheckpointNotPublished(order.id, error, isinstance(error, JobTakenOverError))
            case FindRestore(attempt, unusable):
                try:
                    return RestoreFound(attempt, self._find(deep=bool(unusable)))
                except Exception as error:  # noqa: BLE001
                    return RestoreNotFound(attempt, error)
            case DiscardSnapshots() | SubsumeOlder() | CleanUp():
                try:
                    self._delete(instruction)
                except Exception as error:  # noqa: BLE001 - what is left lying costs space only
                    self._warn(
                        f"files of checkpoints of job '{self._plan.name}' could not be deleted: {error}"
                    )
        return None

    # Publishing.

    def _publish(self, instruction: PublishCheckpoint) -> str:
        order = instruction.order
        manifest = self._manifest(instruction)
        self._check_base(order, manifest)
        if order.kind.is_savepoint:
            return self._checkpoints.publish_savepoint(manifest, order.root)
        return self._checkpoints.publish(manifest)

    def _manifest(self, instruction: PublishCheckpoint) -> Manifest:
        order = instruction.order
        return Manifest(
            job_id=self._job_id,
            job_name=self._plan.name,
            checkpoint_id=order.id,
            timestamp=order.timestamp,
            kind=order.kind,
            operators=tuple(self._operator_states(instruction)),
        )

    def _operator_states(self, instruction: PublishCheckpoint) -> list[OperatorState]:
        handles = _handles_by_operator(instruction.acknowledgements)
        return [
            OperatorState(
                id=operator.id,
                name=operator.name,
                parallelism=vertex.parallelism,
                max_parallelism=vertex.max_parallelism,
                uid=self._uids.get(operator.id),
                subtasks=tuple(handles.get(operator.id, ())),
                enumerator=instruction.enumerators.get(operator.id),
                types=operator.state_types,
            )
            for vertex in self._plan.vertices
            for operator in vertex.operators
        ]

    def _check_base(self, order: CheckpointOrder, manifest: Manifest) -> None:
        """A delta is worth nothing without the files of earlier checkpoints that it builds on."""
        for file in manifest.files:
            name = file.rpartition("/")[2]
            if layout.checkpoint_of_file(name) != order.id and not self._checkpoints.storage.exists(file):
                raise CheckpointError(f"it builds on {file}, which is not there any more")

    # Finding.

    def _find(self, *, deep: bool) -> StartPoint | None:
        self._checkpoints.check_not_taken_over()
        found = self._checkpoints.newest_valid(self._warn, deep=deep)
        return None if found is None else start_point(found)

    # Deleting.

    def _delete(self, instruction: DiscardSnapshots | SubsumeOlder | CleanUp) -> None:
        match instruction:
            case DiscardSnapshots(order):
                self._discard(order)
            case SubsumeOlder(needed_from):
                self._checkpoints.subsume(needed_from)
            case CleanUp(keep):
                if not keep:
                    self._checkpoints.delete_all()

    def _discard(self, order: CheckpointOrder) -> None:
        if order.kind.is_savepoint:
            storage = self._open_directory(order.root)
            if storage.exists(layout.METADATA):  # published too late
                self._checkpoints.forget_savepoint(order.id)
            else:
                storage.delete_directory()
            return
        # Another driver may use the same numbers by now.
        self._checkpoints.check_not_taken_over()
        self._checkpoints.discard_incomplete(order.id)


def beginning_of(checkpoints: JobCheckpoints, job_id: str, point: StartPoint | None) -> Beginning:
    """How a core goes on from ``point`` with a job that this driver has claimed."""
    first_unused = checkpoints.next_id()
    if point is not None:
        first_unused = max(first_unused, point.checkpoint_id + 1)
    if checkpoints.root:
        _reserve_ids(checkpoints, first_unused)
    return Beginning(
        job_id=job_id,
        root=checkpoints.root,
        point=point,
        completed=tuple(checkpoints.completed()),
        next_checkpoint=first_unused,
        first_attempt=(checkpoints.epoch - 1) * ATTEMPTS_PER_DRIVER + 1,
    )


def _reserve_ids(checkpoints: JobCheckpoints, first: int) -> None:
    """Leave a trace of the numbers that this driver may use, so that the next one uses others.

    No number may be used twice, even if nothing of its checkpoint is left: sinks and user code may name things outside
    after it. The trace looks like a state file and goes as soon as newer checkpoints leave traces of their own.
    """
    trace = layout.state_file(layout.SHARED, 0, 0, 0, first + RESERVED_IDS - 1)
    if not checkpoints.storage.exists(trace):
        checkpoints.storage.publish(trace, b"")


def start_point(point: RestorePoint) -> StartPoint:
    """What the same program goes on from."""
    return StartPoint(point.to_restore(), point.manifest.enumerators, point.location)


def matched_start(
    point: RestorePoint, plan: JobPlan, program: Sequence[matching.ProgramOperator], allow_non_restored: bool
) -> tuple[StartPoint, JobPlan]:
    """What a changed program goes on from, and its plan with the numbers of key groups and the types of its state.

    Raises `IncompatibleStateError` when it cannot go on.
    """
    found = matching.match(point, program, allow_non_restored)
    for dropped in found.dropped:
        _LOG.warning(
            "the state of %s is dropped: the program has no such operator", matching.shown_operator(dropped)
        )
    vertices = tuple(_adopting(vertex, found) for vertex in plan.vertices)
    restore = replace(found.restore, changed_program=True)
    start = StartPoint(restore, found.enumerators, point.location)
    return start, replace(plan, vertices=vertices)


def _adopting(vertex: VertexPlan, found: matching.Match) -> VertexPlan:
    """The vertex with what its operators take over from their state."""
    numbers = [
        found.max_parallelism[each.id] for each in vertex.operators if each.id in found.max_parallelism
    ]
    operators = tuple(
        replace(each, state_types=found.state_types.get(each.id, each.state_types))
        for each in vertex.operators
    )
    max_parallelism = numbers[0] if numbers else vertex.max_parallelism
    return replace(vertex, max_parallelism=max_parallelism, operators=operators)


def _handles_by_operator(
    acknowledgements: tuple[SnapshotAcknowledged, ...],
) -> dict[str, list[OperatorHandle]]:
    found: dict[str, list[OperatorHandle]] = {}
    for acknowledgement in acknowledgements:
        for handle in acknowledgement.operators:
            found.setdefault(handle.operator_id, []).append(handle)
    return found
