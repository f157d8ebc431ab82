"""The argument that names a job, and how shells complete it."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from firesteel.jobmaster.remote.registry import entries

__all__ = ["complete_job_id", "job_argument"]


def complete_job_id(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The ids of the jobs of this machine; those of services are not asked for while somebody types."""
    return [
        CompletionItem(entry.job_id, help=entry.name)
        for entry in entries()
        if entry.job_id.startswith(incomplete.lower())
    ]


job_argument = click.argument("job_id", required=False, shell_complete=complete_job_id)
