"""The lease of a job's leader as files in a directory; `election` says what it is for.

::

    leader-<n>        who the n-th leader is; whoever makes this file leads
    lease-<n>-<k>     the n-th leader's k-th sign of life
    ended-<n>         the n-th leader's last word

A look that shows less than one before - no leader although there was one, or somebody's file but not its content - is a
`StorageError`: it is to be tried again. Files are never written twice, so the same few operations serve for local
directories and object stores. Where two can make the same ``leader-<n>`` at the same moment, the later one stays; the
other one reads that when it next wants to give a sign of life.

With its signs of life a leader writes down the epoch with which it has claimed the directory of the job's checkpoints. Who
comes after a leader that died and finds a smaller epoch there knows that the checkpoints are gone, or looks for them in
the wrong directory. The last word of a job that has ended says 0: then checkpoints may be gone.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any

from firesteel.checkpoint.storage import Storage
from firesteel.common.errors import FileMissingError, StorageError
from firesteel.jobmaster.leaders.election import LeaseEnd, LeaseView, Outcome

__all__ = ["Holder", "Lease"]

_FILE = re.compile(r"(leader|ended)-(\d+)|lease-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Holder:
    """A leader: ``token`` tells it from all others, ``who`` is for people.

    ``claimed`` is the epoch with which the leader before it had claimed the directory of the job's checkpoints; the name is
    one in lease files. ``job_name`` shows when different jobs were given the same id.
    """

    token: str
    who: str
    claimed: int = 0
    job_name: str = ""


class Lease:
    """The files below one directory. What storage refuses raises `StorageError`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._signs: list[str] = []
        self._directory_id: str | None = None  # its identity, when a leader was seen in it

    def look(self) -> LeaseView:
        """The newest leader, the number of its last sign of life, and its last word if it has said that."""
        names = self._storage.list()
        number = max((_number(name) for name in names), default=0)
        if number == 0:
            return LeaseView()
        if self._directory_id is None:
            self._directory_id = self._storage.directory_id()
        counter = max((_counter(name, number) for name in names), default=0)
        return LeaseView(number, counter, self._end(number) if f"ended-{number}" in names else None)

    def holder(self, number: int) -> Holder | None:
        """Who is written down as n-th leader."""
        fields = self._read(f"leader-{number}")
        if fields is None:
            return None
        name = str(fields.get("job_name", ""))
        return Holder(str(fields.get("token")), str(fields.get("who")), _epoch(fields), name)

    def claimed_epoch(self, view: LeaseView) -> int:
        """The epoch that must be found where the job's checkpoints are; 0: none."""
        if view.number == 0:
            return 0
        if view.end is not None:
            return _epoch(self._read_surely(f"ended-{view.number}"))
        leader = self._read_surely(f"leader-{view.number}")
        sign = self._read_surely(f"lease-{view.number}-{view.counter}") if view.counter else None
        return max(_epoch(sign), _epoch(leader))

    def acquire(self, number: int, holder: Holder) -> bool:
        """Become n-th leader; False when somebody else is, or a later one."""
        try:
            self._write(f"leader-{number}", dataclasses.asdict(holder))
        except StorageError:
            if self.holder(number) is None:
                raise
        # A driver that was held up may make a file that later leaders have deleted already.
        leads = self.holder(number) == holder and self.look().number == number
        if leads and self._storage.directory_id() != self._directory_id:
            raise StorageError("the directory of the lease is another one now: is a volume not mounted?")
        return leads

    def renew(self, number: int, counter: int, epoch: int) -> None:
        """Give a sign of life, greater than those before."""
        sign = f"lease-{number}-{counter}"
        self._signs.append(sign)  # before it is written: it may be there although storage says no
        self._write(sign, {"claimed": epoch})
        for older in self._signs[:-1]:
            self._storage.delete(older)
        self._signs = [sign]

    def end(self, number: int, end: LeaseEnd, epoch: int) -> None:
        """Leave a last word; a second one changes nothing."""
        fields = {"outcome": end.outcome.value, "sentence": end.sentence, "claimed": epoch}
        try:
            self._write(f"ended-{number}", fields)
        except StorageError:
            if not self._storage.exists(f"ended-{number}"):
                raise

    def forget_before(self, number: int) -> None:
        """Delete what earlier leaders have left."""
        for name in self._storage.list():
            if 0 < _number(name) < number:
                self._storage.delete(name)

    def _end(self, number: int) -> LeaseEnd:
        fields = self._read_surely(f"ended-{number}")
        try:
            return LeaseEnd(Outcome(fields.get("outcome")), str(fields.get("sentence")))
        except ValueError:  # of another version of this program
            return LeaseEnd(Outcome.RELEASED)

    def _read_surely(self, name: str) -> dict[str, Any]:
        """A file that was seen a moment ago."""
        fields = self._read(name)
        if fields is None:
            raise StorageError(
                f"{name} was there and cannot be read: the lease has changed, or its storage is away"
            )
        return fields

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            fields = json.loads(self._storage.read(name))
        except (FileMissingError, ValueError):
            return None
        return fields if isinstance(fields, dict) else None

    def _write(self, name: str, fields: dict[str, Any]) -> None:
        self._storage.publish(name, (json.dumps(fields) + "\n").encode())


def _epoch(fields: dict[str, Any] | None) -> int:
    return 0 if fields is None else int(fields.get("claimed", 0))


def _number(name: str) -> int:
    match = _FILE.fullmatch(name)
    return 0 if match is None else int(match[2] or match[3])


def _counter(name: str, number: int) -> int:
    match = _FILE.fullmatch(name)
    return int(match[4]) if match is not None and match[3] == str(number) else 0
