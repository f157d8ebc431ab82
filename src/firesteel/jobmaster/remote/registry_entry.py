"""What the registry knows of one running job."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RegistryEntry"]


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One running job. ``started`` is in milliseconds.

    ``rest``: the address of the REST interface that shows it, through which it is commanded; empty when there is none.
    """

    job_id: str
    name: str
    pid: int
    machine: str
    started: int
    rest: str = ""
