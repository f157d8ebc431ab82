"""The hosts that tasks of a job have run on: which of them were lost, when and why, and which are back.

A host is lost when the job fails because a task there is gone or gives no sign of life. That may be the host, its link, or
only the process; nobody can tell from afar. It is back when a task of a later attempt reports from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from firesteel.common.time import to_millis

__all__ = ["HostHistory", "HostRecord"]

#: Clusters that replace machines have new names for ever; those that were not heard of for longest are forgotten.
_REMEMBERED = 200


@dataclass(frozen=True, slots=True)
class HostRecord:
    """One host. Times are milliseconds since 1970.

    ``seen``: when a task last reported from there. ``losses``: how often it was lost, the last time at ``lost``, for
    ``reason``. ``returned``: when it was heard of again after that, None while it was not.
    """

    host: str
    seen: int
    losses: int = 0
    lost: int | None = None
    reason: str = ""
    returned: int | None = None

    @property
    def is_lost(self) -> bool:
        """Whether nothing was heard of it since it was lost."""
        return self.lost is not None and self.returned is None


class HostHistory:
    """Knows hosts by name; may be read from any thread."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostRecord] = {}  # who was heard of last is at the end
        self._shown: tuple[HostRecord, ...] = ()

    def seen(self, host: str, now: float) -> str | None:
        """A task reports from there at ``now`` (seconds since 1970); returns what people should know, if anything.

        >>> history = HostHistory()
        >>> history.seen("b", 10.0)
        >>> history.lost("b", 20.0, "no sign of life")
        >>> history.seen("b", 32.5)
        "host 'b', which was lost 12.5 s ago, is back: tasks of this job run there again"
        """
        if not host:
            return None
        known = self._hosts.pop(host, None)
        record = replace(known or HostRecord(host, 0), seen=to_millis(now))
        news = None
        if record.lost is not None and record.is_lost:
            seconds = (record.seen - record.lost) / 1000
            record = replace(record, returned=record.seen)
            news = f"host {host!r}, which was lost {seconds:.1f} s ago, is back: tasks of this job run there again"
        self._keep(record)
        return news

    def lost(self, host: str, now: float, reason: str) -> None:
        """The job has lost a task there."""
        if not host:
            return
        known = self._hosts.pop(host, None) or HostRecord(host, to_millis(now))
        losses = known.losses + (not known.is_lost)  # several of its tasks may be lost one after the other
        self._keep(replace(known, losses=losses, lost=to_millis(now), reason=reason, returned=None))

    def _keep(self, record: HostRecord) -> None:
        self._hosts[record.host] = record
        while len(self._hosts) > _REMEMBERED:
            del self._hosts[next(iter(self._hosts))]
        self._shown = tuple(sorted(self._hosts.values(), key=lambda each: each.host))

    @property
    def records(self) -> tuple[HostRecord, ...]:
        """All that are remembered, by name."""
        return self._shown
