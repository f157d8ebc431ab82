"""What the registry knows of one running job."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RegistryEntry"]


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One running job. ``started`` is in milliseconds; ``secret`` in hexadecimal digits.

    ``rest``: the address of the REST interface that shows it; empty when there is none.
    """

    job_id: str
    name: str
    pid: int
    machine: str
    port: int
    secret: str
    started: int
    rest: str = ""
