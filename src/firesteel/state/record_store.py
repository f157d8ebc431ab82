"""Records outside of memory: bytes under bytes, in order, with views of the moment.

What leaves the memory of a backend goes to such a store, keys (`disk_space`) as well as timers (`spilling_timer_queue`).
`lmdb_records` has one in a file, `custom_records` makes one of a store that the user brings along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["RecordStore", "RecordView", "put_changed"]


class RecordView(Protocol):
    """The records as they were at one moment."""

    def get_all(self, places: list[bytes]) -> list[bytes | None]:
        """The records at some places."""
        ...

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Up to so many records behind a key, in the order of their keys."""
        ...

    def close(self) -> None:
        """Nobody will look any more."""
        ...


class RecordStore(Protocol):
    """Records outside of memory."""

    def get_all(self, places: list[bytes]) -> list[bytes | None]:
        """The records at some places."""
        ...

    def put_all(
        self,
        records: list[tuple[bytes, bytes]],
        new: list[tuple[bytes, bytes]],
        gone: list[bytes],
        size: int,
    ) -> list[bytes]:
        """Store records of so many bytes together, and remove those at the places ``gone``.

        There is something at the places of ``records`` and at those ``gone``. ``new`` ones are stored only where
        there is no other record; returns the places where there is one.
        """
        ...

    def view(self) -> RecordView:
        """The records as they are now."""
        ...

    def __len__(self) -> int: ...


def put_changed(
    store: RecordStore, stored: Mapping[bytes, bytes | None], changed: Mapping[bytes, bytes | None]
) -> None:
    """Put records in place of those that were read as ``stored``; None stands for no record."""
    records = sorted((place, record) for place, record in changed.items() if record is not None)
    known = [(place, record) for place, record in records if stored[place] is not None]
    new = [(place, record) for place, record in records if stored[place] is None]
    gone = [place for place, record in changed.items() if record is None and stored[place] is not None]
    store.put_all(known, new, gone, sum(len(record) for _, record in records))
