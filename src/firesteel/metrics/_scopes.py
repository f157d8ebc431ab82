"""Scopes: where in a job a metric belongs, and how its full name is put together.

A metric belongs to the driver, a job, the process of a task, a subtask of a vertex (Flink calls that a task) or an operator's
subtask. What is known of the place are *variables*, such as ``<host>``; formats (``metrics.scope.*``) make the parts of a name
of them. The *logical scope* has only the kinds of places, as in ``taskmanager.job.task.operator``: Prometheus and filters go by it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.common import options
from firesteel.common.configuration import Configuration

__all__ = ["ScopeFormats", "ScopeKind", "SystemScope"]

_VARIABLE = re.compile(r"<\w+>")


class ScopeKind(enum.Enum):
    """What a metric belongs to; the value is the logical scope."""

    JOB_MANAGER = ("jobmanager",)
    JOB_MANAGER_JOB = ("jobmanager", "job")
    TASK_MANAGER = ("taskmanager",)
    TASK_MANAGER_JOB = ("taskmanager", "job")
    TASK = ("taskmanager", "job", "task")
    OPERATOR = ("taskmanager", "job", "task", "operator")


@dataclass(frozen=True, slots=True)
class SystemScope:
    """The place of an operator's metrics: parts of their names, and variables with their angle brackets."""

    components: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = "."


@dataclass(frozen=True, slots=True)
class ScopeFormats:
    """How the names of metrics begin, by what they belong to."""

    formats: Mapping[ScopeKind, tuple[str, ...]]
    delimiter: str = "."

    @classmethod
    def of(cls, configuration: Configuration) -> ScopeFormats:
        """What the options say; a format that begins with ``*`` continues that of the place around."""
        get = configuration.get
        job_manager = _parts(get(options.METRICS_SCOPE_JM))
        task_manager = _parts(get(options.METRICS_SCOPE_TM))
        of_job = _parts(get(options.METRICS_SCOPE_TM_JOB), task_manager)
        task = _parts(get(options.METRICS_SCOPE_TASK), of_job)
        return cls(
            {
                ScopeKind.JOB_MANAGER: job_manager,
                ScopeKind.JOB_MANAGER_JOB: _parts(get(options.METRICS_SCOPE_JM_JOB), job_manager),
                ScopeKind.TASK_MANAGER: task_manager,
                ScopeKind.TASK_MANAGER_JOB: of_job,
                ScopeKind.TASK: task,
                ScopeKind.OPERATOR: _parts(get(options.METRICS_SCOPE_OPERATOR), task),
            },
            get(options.METRICS_SCOPE_DELIMITER),
        )

    def components(self, kind: ScopeKind, variables: Mapping[str, str]) -> tuple[str, ...]:
        """The parts of the names of metrics of a place; variables that are not known stay as they are."""

        def known(match: re.Match[str]) -> str:
            return variables.get(match[0], match[0])

        return tuple(_VARIABLE.sub(known, part) for part in self.formats[kind])

    def scope(self, kind: ScopeKind, variables: Mapping[str, str]) -> SystemScope:
        """The same with everything that a group needs."""
        return SystemScope(self.components(kind, variables), variables, self.delimiter)


def _parts(text: str, around: tuple[str, ...] = ()) -> tuple[str, ...]:
    parts = tuple(text.split("."))
    return (*around, *parts[1:]) if parts[0] == "*" else parts
