"""Who the two ends of an encrypted control connection are: what the driver gives to its tasks, beside the secret."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["TlsIdentity"]


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """A certificate with its key, and the authority that has signed it, in PEM. Driver and tasks have the same."""

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)
