"""The lease of a job's leader as files in a directory; `leadership` says what it is for.

::

    leader-<n>        who the n-th leader is; whoever makes this file leads
    lease-<n>-<k>     the n-th leader's k-th sign of life
    ended-<n>         the n-th leader's last word

Files are never written twice, so the same few operations serve for local directories and object stores. Where
two can make the same ``leader-<n>`` at the same moment, the later one stays; the other one reads that when it
next wants to give a sign of life.

With its signs of life a leader writes down which number it has claimed among the drivers of the job's checkpoints. Who
comes after a leader that died and finds a smaller number there knows that the checkpoints are gone, or looks for them in
the wrong place. The last word of a job that has ended says 0: then checkpoints may be gone.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any

from firesteel.checkpoint.storage import Storage
from firesteel.common.errors import FileMissingError, StorageError
from firesteel.jobmaster.leadership import LeaseEnd, LeaseView, Outcome

__all__ = ["Holder", "Lease"]

_FILE = re.compile(r"(leader|ended)-(\d+)|lease-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Holder:
    """A leader: ``token`` tells it from all others, ``who`` is for people.

    ``claimed`` is the number that the leader before it had claimed among the job's drivers. ``job_name`` shows when
    different jobs were given the same id.
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

    def look(self) -> LeaseView:
        """What is there now."""
        names = self._storage.list()
        number = max((_number(name) for name in names), default=0)
        counter = max((_counter(name, number) for name in names), default=0)
        return LeaseView(number, counter, self._end(number) if f"ended-{number}" in names else None)

    def holder(self, number: int) -> Holder | None:
        """Who is written down as n-th leader."""
        fields = self._read(f"leader-{number}")
        if fields is None:
            return None
        name = str(fields.get("job_name", ""))
        return Holder(str(fields.get("token")), str(fields.get("who")), _claimed(fields), name)

    def claimed(self) -> int:
        """The number among the job's drivers that must be found where its checkpoints are; 0: none."""
        view = self.look()
        if view.end is not None:
            return _claimed(self._read(f"ended-{view.number}"))
        sign, leader = self._read(f"lease-{view.number}-{view.counter}"), self._read(f"leader-{view.number}")
        return max(_claimed(sign), _claimed(leader))

    def claim(self, number: int, holder: Holder) -> bool:
        """Become n-th leader; False when somebody else is, or a later one."""
        try:
            self._write(f"leader-{number}", dataclasses.asdict(holder))
        except StorageError:
            if self.holder(number) is None:
                raise
        # A driver that was held up may make a file that later leaders have deleted already.
        return self.holder(number) == holder and self.look().number == number

    def renew(self, number: int, counter: int, claimed: int) -> None:
        """Give a sign of life, greater than those before."""
        sign = f"lease-{number}-{counter}"
        self._signs.append(sign)  # before it is written: it may be there although storage says no
        self._write(sign, {"claimed": claimed})
        for older in self._signs[:-1]:
            self._storage.delete(older)
        self._signs = [sign]

    def end(self, number: int, end: LeaseEnd, claimed: int) -> None:
        """Leave a last word; a second one changes nothing."""
        fields = {"outcome": end.outcome.value, "sentence": end.sentence, "claimed": claimed}
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
        fields = self._read(f"ended-{number}") or {}
        try:
            return LeaseEnd(Outcome(fields.get("outcome")), str(fields.get("sentence")))
        except ValueError:  # gone a moment later: somebody else leads now
            return LeaseEnd(Outcome.RELEASED)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            fields = json.loads(self._storage.read(name))
        except (FileMissingError, ValueError):
            return None
        return fields if isinstance(fields, dict) else None

    def _write(self, name: str, fields: dict[str, Any]) -> None:
        self._storage.publish(name, (json.dumps(fields) + "\n").encode())


def _claimed(fields: dict[str, Any] | None) -> int:
    return 0 if fields is None else int(fields.get("claimed", 0))


def _number(name: str) -> int:
    match = _FILE.fullmatch(name)
    return 0 if match is None else int(match[2] or match[3])


def _counter(name: str, number: int) -> int:
    match = _FILE.fullmatch(name)
    return int(match[4]) if match is not None and match[3] == str(number) else 0
