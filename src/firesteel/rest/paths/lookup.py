"""Finding what a path names: jobs, vertices, subtasks, checkpoints; NotFound when there is none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from firesteel.jobmaster.checkpoints.statistics import CheckpointSummary
from firesteel.jobmaster.job_snapshot import JobSnapshot
from firesteel.rest.endpoints import Call, Parameter
from firesteel.rest.errors import NotFound
from firesteel.rest.outline import JobOutline, VertexOutline
from firesteel.rest.schemas import WHOLE
from firesteel.rest.served_jobs import ServedJob
from firesteel.rest.views.checkpoints import find_checkpoint
from firesteel.rest.views.subtasks import Subtask, attempts_of

__all__ = [
    "TAIL",
    "all_jobs",
    "attempt_in",
    "checkpoint_in",
    "job_in",
    "named_log",
    "subtask_in",
    "subtask_index",
    "vertex_in",
]

#: Of paths that answer a log.
TAIL = Parameter("tail", WHOLE, "How many bytes of its end are wanted; without it all.")


def all_jobs(call: Call) -> list[tuple[JobOutline, JobSnapshot]]:
    """Every job with what is known of it now."""
    return [(job.outline, job.snapshot()) for job in call.context.jobs.all()]


def job_in(call: Call) -> ServedJob:
    """The job that the path names."""
    job = call.context.jobs.find(call.path["jobid"])
    if job is None:
        raise NotFound(f"job {call.path['jobid']} is not one of this driver; GET /jobs lists those that are")
    return job


def vertex_in(call: Call, job: ServedJob) -> VertexOutline:
    """The vertex that the path names."""
    vertex = job.outline.vertex(call.path["vertexid"])
    if vertex is None:
        raise NotFound(
            f"job {call.path['jobid']} has no vertex {call.path['vertexid']}; GET /jobs/{call.path['jobid']}/plan has its "
            "vertices"
        )
    return vertex


def subtask_index(call: Call, vertex: VertexOutline) -> int:
    """The subtask that the path names."""
    return subtask_in(call.path["subtaskindex"], vertex)


def subtask_in(index: int, vertex: VertexOutline) -> int:
    """The subtask with this number, if there is one."""
    if not 0 <= index < vertex.parallelism:
        raise NotFound(
            f"vertex {vertex.id} has subtasks 0 to {vertex.parallelism - 1}, and no subtask {index}"
        )
    return index


def attempt_in(call: Call, vertex: VertexOutline, snapshot: JobSnapshot) -> Subtask:
    """The attempt of a subtask that the path names."""
    attempts = attempts_of(vertex, subtask_index(call, vertex), snapshot)
    matches = [each for each in attempts if each.attempt == call.path["attempt"]]
    if not matches:
        known = ", ".join(str(each.attempt) for each in attempts)
        raise NotFound(f"attempt {call.path['attempt']} of the subtask is not known; these are: {known}")
    return matches[-1]


def named_log(call: Call, files: Iterable[Path], where: str) -> Path:
    """The file that the path names: one of the list, never a path that a client makes up."""
    name = call.path["logname"]
    log_file = next((file for file in files if file.name == name), None)
    if log_file is None:
        raise NotFound(f"there is no log file {name[:100]!r}; GET {where} lists them")
    return log_file


def checkpoint_in(call: Call, snapshot: JobSnapshot) -> CheckpointSummary:
    """The checkpoint that the path names."""
    checkpoint = find_checkpoint(snapshot.statistics.checkpoints, call.path["checkpointid"])
    if checkpoint is None:
        raise NotFound(
            f"checkpoint {call.path['checkpointid']} of job {snapshot.job_id} never was, or is not remembered any more: "
            "'web.checkpoints.history' says how many are"
        )
    return checkpoint
