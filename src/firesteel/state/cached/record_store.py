"""Records outside of memory: bytes under bytes, in order, with views of the moment.

What leaves the memory of a backend goes to such a store, keys (`space`) as well as timers (`spilling_timer_queue`).
`lmdb_records` has one in a file, `custom_records` makes one of a store that the user brings along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["RecordStore", "RecordView", "put_changed"]


class RecordView(Protocol):
    """The records as they were at one moment."""

    def get_all(self, record_keys: list[bytes]) -> list[bytes | None]:
        """The records under some record keys."""
        ...

    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Up to ``count`` records behind a record key, in the order of their keys."""
        ...

    def close(self) -> None:
        """Release the view: nobody will look any more."""
        ...


class RecordStore(Protocol):
    """Records outside of memory."""

    def get_all(self, record_keys: list[bytes]) -> list[bytes | None]:
        """The records under some record keys."""
        ...

    def put_all(
        self,
        records: list[tuple[bytes, bytes]],
        new: list[tuple[bytes, bytes]],
        gone: list[bytes],
        size: int,
    ) -> list[bytes]:
        """Store records of ``size`` bytes together, and remove those under the record keys ``gone``.

        There is something under the keys of ``records`` and under those ``gone``. ``new`` ones are stored only where
        there is no other record; returns the record keys that are occupied.
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
    records = sorted((record_key, record) for record_key, record in changed.items() if record is not None)
    known = [(record_key, record) for record_key, record in records if stored[record_key] is not None]
    new = [(record_key, record) for record_key, record in records if stored[record_key] is None]
    gone = [
        record_key
        for record_key, record in changed.items()
        if record is None and stored[record_key] is not None
    ]
    store.put_all(known, new, gone, sum(len(record) for _, record in records))
