"""Performs what a core wants of storage: hop 10 of a checkpoint's life.

It performs one `StorageInstruction` at a time, in whatever thread calls it.
What is to be deleted may be deleted in a thread of its own (`deletions`): nobody waits for it, but the end of the job.

Where a new core begins is decided by `takeover`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from firesteel.checkpoint import layout, matching, stored_checkpoint
from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.repository import JobCheckpoints
from firesteel.checkpoint.storage import Storage, open_storage, parent_uri, shown
from firesteel.checkpoint.stored_checkpoint import StoredCheckpoint
from firesteel.common.errors import (
    CorruptStateError,
    FileMissingError,
    JobTakenOverError,
    NoSuchSnapshotError,
    StorageError,
)
from firesteel.jobmaster.checkpoints.deletions import Deletions
from firesteel.jobmaster.events import (
    CheckpointNotPublished,
    CheckpointPublished,
    Event,
    RestoreFound,
    RestoreNotFound,
)
from firesteel.jobmaster.instructions import (
    ChangePlan,
    CleanUp,
    Deletion,
    DiscardSnapshots,
    FindRestore,
    PublishCheckpoint,
    StorageInstruction,
    SubsumeOlder,
)
from firesteel.jobmaster.job_restore import JobRestore
from firesteel.plan.job_plan import JobPlan, VertexPlan
from firesteel.plan.messages import SnapshotAcknowledged
from firesteel.plan.state_handles import CheckpointOrder, OperatorHandle

_LOG = logging.getLogger(__name__)


class CheckpointStore:
    """The checkpoints of one job, as its master needs them.

    ``uids`` are those of the operators that have one, by operator id. ``open_directory`` opens the directory of
    a savepoint. ``aside`` makes what calls a function for everything that is to be deleted, later, such as
    a `DeletionThread`; without it everything is deleted at once.
    """

    def __init__(
        self,
        checkpoints: JobCheckpoints,
        plan: JobPlan,
        job_id: str,
        uids: Mapping[str, str] | None = None,
        open_directory: Callable[[str], Storage] = open_storage,
        warn: Callable[[str], object] = _LOG.warning,
        aside: Callable[[Callable[[Deletion], object]], Deletions] | None = None,
    ) -> None:
        self._deletions = None if aside is None else aside(self._delete)
        self._given: JobRestore | None = None
        self._given_place: str | None = None
        #: Whether checkpoints stay when the job is over, whatever is asked for then.
        self.keeps_checkpoints = False
        self._checkpoints = checkpoints
        self._plan = plan
        self._job_id = job_id
        self._uids = uids or {}
        self._open_directory = open_directory
        self._warn = warn

    @property
    def has_checkpoints(self) -> bool:
        """Whether there is a complete checkpoint, as far as this driver knows, that another one could resume from."""
        return bool(self._checkpoints.root) and self._checkpoints.has_complete

    def begin_with(self, point: JobRestore | None) -> None:
        """Remember what the job was told to begin with: it goes back to it until it has checkpoints of its own."""
        self._given = point
        if point is not None and point.path:
            self._given_place = self._open_directory(parent_uri(point.path)).directory_id()

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
                    return RestoreFound(attempt, self._find(unusable))
                except Exception as error:  # noqa: BLE001
                    return RestoreNotFound(attempt, error)
            case ChangePlan(plan):
                self._plan = plan  # what is published from now on is of its attempts
            case DiscardSnapshots() | SubsumeOlder():
                if self._deletions is None:
                    self._delete(instruction)
                else:
                    self._deletions.add(instruction)
            case CleanUp(keep):
                if self._deletions is not None:
                    self._deletions.finish(drop=not keep)
                self._delete(instruction)
        return None

    # Publishing.

    def _publish(self, instruction: PublishCheckpoint) -> str:
        order = instruction.order
        manifest = self._manifest(instruction)
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

    # Finding.

    def _find(self, unusable: frozenset[int]) -> JobRestore | None:
        self._checkpoints.check_not_taken_over()
        newest = self._checkpoints.newest_valid(self._warn, deep=bool(unusable))
        if newest is not None:
            return job_restore_of(newest)
        given = self._given
        return (
            given if given is not None and given.checkpoint_id in unusable and self._is_whole(given) else None
        )

    def _is_whole(self, given: JobRestore) -> bool:
        """Whether tasks that could not read what the job began with can do so now: its storage was away."""

        def verify_all() -> None:
            point = stored_checkpoint.load(given.path, self._open_directory)
            stored_checkpoint.verify(point, self._open_directory(point.root), deep=True)

        try:
            stored_checkpoint.retry_after_check(verify_all, lambda: self._check_given_place(given.path))
        except (CorruptStateError, FileMissingError, NoSuchSnapshotError):
            return False
        return True

    def _check_given_place(self, path: str) -> None:
        base = parent_uri(path)
        if self._open_directory(base).directory_id() != self._given_place:
            raise StorageError(
                f"job '{self._plan.name}' has to resume from {shown(path)}, but {shown(base)} is not the directory that it "
                "was: is a volume not mounted?"
            )

    # Deleting.

    def _delete(self, instruction: Deletion) -> None:
        try:
            self._try_to_delete(instruction)
        except Exception as error:  # noqa: BLE001 - what is left lying costs space only
            self._warn(f"files of checkpoints of job '{self._plan.name}' could not be deleted: {error}")

    def _try_to_delete(self, instruction: Deletion) -> None:
        match instruction:
            case DiscardSnapshots(order):
                self._discard(order)
            case SubsumeOlder(needed_from, newest):
                bases = [id for id in (needed_from, newest) if id is not None]
                self._checkpoints.subsume(min(bases, default=None), up_to=newest)
            case CleanUp(keep):
                if not keep and not self.keeps_checkpoints:
                    self._checkpoints.delete_all()

    def _discard(self, order: CheckpointOrder) -> None:
        if order.kind.is_savepoint:
            self._discard_savepoint(order)
            return
        # Another driver may use the same numbers by now.
        self._checkpoints.check_not_taken_over()
        self._checkpoints.discard_incomplete(order.id)

    def _discard_savepoint(self, order: CheckpointOrder) -> None:
        storage = self._open_directory(order.root)
        names = storage.list()
        if layout.METADATA in names:
            # Published after it was aborted. The job may have resumed from it already, and so it counts for good.
            return
        # One after the other, as they were seen beside no manifest: another look might be at another volume.
        for name in names:
            storage.delete(name)
        if names and not storage.list():
            storage.delete_directory()


def job_restore_of(point: StoredCheckpoint) -> JobRestore:
    """What the same program resumes from."""
    return JobRestore(
        point.to_restore(), point.manifest.enumerators, point.location, point.manifest.kind.is_savepoint
    )


def matched_start(
    point: StoredCheckpoint,
    plan: JobPlan,
    program: Sequence[matching.ProgramOperator],
    allow_non_restored: bool,
) -> tuple[JobRestore, JobPlan]:
    """What a changed program resumes from, and its plan with the numbers of key groups and the types of its state.

    Raises `IncompatibleStateError` when it cannot resume.
    """
    match = matching.match(point, program, allow_non_restored)
    for dropped in match.dropped:
        _LOG.warning(
            "the state of %s is dropped: the program has no such operator", matching.shown_operator(dropped)
        )
    vertices = tuple(_adopting(vertex, match) for vertex in plan.vertices)
    restore = replace(match.restore, changed_program=True)
    start = JobRestore(restore, match.enumerators, point.location, point.manifest.kind.is_savepoint)
    return start, replace(plan, vertices=vertices)


def _adopting(vertex: VertexPlan, match: matching.Match) -> VertexPlan:
    """The vertex with what its operators take over from their state."""
    numbers = [
        match.max_parallelism[each.id] for each in vertex.operators if each.id in match.max_parallelism
    ]
    operators = tuple(
        replace(each, state_types=match.state_types.get(each.id, each.state_types))
        for each in vertex.operators
    )
    max_parallelism = numbers[0] if numbers else vertex.max_parallelism
    return replace(vertex, max_parallelism=max_parallelism, operators=operators)


def _handles_by_operator(
    acknowledgements: tuple[SnapshotAcknowledged, ...],
) -> dict[str, list[OperatorHandle]]:
    handles: dict[str, list[OperatorHandle]] = {}
    for acknowledgement in acknowledgements:
        for handle in acknowledgement.operators:
            handles.setdefault(handle.operator_id, []).append(handle)
    return handles
