"""What is known of the place of a metric, under the names of Flink: for the names of metrics and the labels of reporters."""

from __future__ import annotations

import os
import socket
from functools import cache

from firesteel.plan.job_plan import OperatorPlan, VertexPlan

__all__ = ["job_variables", "operator_variables", "process_variables", "subtask_variables", "this_process"]

_MOST_OPERATOR_NAME = 80  # as in Flink; names of long chains of functions are longer than any label should be


def process_variables(host: str, pid: int) -> dict[str, str]:
    """The process of a task; it has the name that a task manager has in Flink."""
    return {"<host>": host, "<tm_id>": f"{host}:{pid}"}


def this_process() -> dict[str, str]:
    """The process that asks, whatever it is."""
    return process_variables(_host(), os.getpid())


@cache
def _host() -> str:
    return socket.gethostname()


def job_variables(job_id: str, job_name: str) -> dict[str, str]:
    """A job; the variables of its subtasks include these."""
    return {"<job_id>": job_id, "<job_name>": job_name}


def subtask_variables(
    job_id: str, job_name: str, vertex: VertexPlan, subtask: int, attempt: int
) -> dict[str, str]:
    """A vertex's subtask; attempts count from 1 here and from 0 in Flink."""
    number = str(max(attempt - 1, 0))
    task_id = vertex.operators[0].id
    return {
        **job_variables(job_id, job_name),
        "<task_id>": task_id,
        "<task_name>": vertex.name,
        "<task_attempt_id>": f"{task_id}_{subtask}_{number}",
        "<task_attempt_num>": number,
        "<subtask_index>": str(subtask),
    }


def operator_variables(operator: OperatorPlan) -> dict[str, str]:
    """An operator; a long name is cut off."""
    return {"<operator_id>": operator.id, "<operator_name>": operator.name[:_MOST_OPERATOR_NAME]}
