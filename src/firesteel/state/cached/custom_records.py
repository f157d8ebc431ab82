"""Records in a store that the user brings along: what the cache needs and a store does not have.

A store knows one state of its records, the present one. Snapshots read the records as they were when the snapshot
began, so a view that is open remembers what is overwritten or removed meanwhile. One store holds the records of all
spaces, such as those of states per key and of those per namespace; the first byte of a record key says which.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from operator import lt
from typing import Any

from firesteel.common.errors import StorageError, short_repr
from firesteel.contracts.state_backend import StateStore
from firesteel.state.cached.record_store import RecordView

__all__ = ["CheckedStore", "CustomRecords"]

Record = tuple[bytes, bytes]

_LEAST_PAGE = 256


class CheckedStore:
    """A user's store: its errors say whose it is, and its answers are looked at before they are believed."""

    def __init__(self, store: StateStore, name: str, operator: str) -> None:
        self._store = store
        self._name = name
        self._operator = operator

    def get_all(self, record_keys: list[bytes]) -> list[bytes | None]:
        """The records under some record keys."""
        records: list[bytes | None] = self._list("get_all", record_keys)
        if len(records) != len(record_keys):
            raise self._wrong("get_all", f"{len(record_keys)} records, one for each record key", len(records))
        if not set(map(type, records)) <= {bytes, type(None)}:
            raise self._wrong("get_all", "bytes, or None where there is no record", records)
        return records

    def put_all(self, records: list[Record], gone: list[bytes]) -> None:
        """Store records and remove others, in one call of the user's store."""
        self._call("put_all", records, gone)

    def scan(self, after: bytes, count: int) -> list[Record]:
        """Up to ``count`` records behind a record key."""
        records: list[Record] = self._list("scan", after, count)
        if len(records) > count:
            raise self._wrong("scan", f"at most {count} records", len(records))
        if not all(map(_is_record, records)):
            raise self._wrong("scan", "pairs of record key and record, both bytes", records)
        record_keys = [after, *[record_key for record_key, _ in records]]
        if not all(map(lt, record_keys, islice(record_keys, 1, None))):
            raise self._wrong("scan", f"record keys behind {after!r} in ascending order", record_keys[1:])
        return records

    def close(self) -> None:
        """Close the user's store; what it raises is an error with its name."""
        self._call("close")

    def _list(self, method: str, *arguments: Any) -> list[Any]:
        answer = self._call(method, *arguments)
        if not isinstance(answer, Sequence):
            raise self._wrong(method, "a list", answer)
        return list(answer)

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._store, method)(*arguments)
        except Exception as error:
            error.add_note(
                f"raised in {method}() of the state store {self._name} of operator {self._operator!r}"
            )
            raise

    def _wrong(self, method: str, expected: str, got: object) -> StorageError:
        return StorageError(
            f"{method}() of the state store {self._name} of operator {self._operator!r} must give {expected}, "
            f"got {short_repr(got)}; the documentation of StateStore says what each method does"
        )


def _is_record(answer: Any) -> bool:
    try:
        record_key, record = answer
    except (TypeError, ValueError):
        return False
    return type(record_key) is bytes and type(record) is bytes


class CustomRecords:
    """The records of one space."""

    def __init__(self, store: CheckedStore, space: bytes) -> None:
        self._store = store
        self._space = space  # the first byte of all its record keys
        self._count = 0
        self._is_empty = True  # until something is put there
        self._views: list[_View] = []

    def get_all(self, record_keys: Sequence[bytes]) -> list[bytes | None]:
        """The records under some record keys."""
        if self._is_empty:
            return [None] * len(record_keys)
        space = self._space
        return self._store.get_all([space + record_key for record_key in record_keys]) if record_keys else []

    def put_all(self, records: list[Record], new: list[Record], gone: list[bytes], size: int) -> list[bytes]:
        """Store and remove records; see `RecordStore`."""
        record_keys = [record_key for record_key, _ in new]
        known = dict(zip(record_keys, self.get_all(record_keys), strict=True))
        put = [*records, *[(record_key, record) for record_key, record in new if known[record_key] is None]]
        if self._views:
            self._remember([*[record_key for record_key, _ in put], *gone], known)
        if put or gone:
            self._is_empty = False
            space = self._space
            self._store.put_all(
                [(space + record_key, record) for record_key, record in put],
                [space + record_key for record_key in gone],
            )
        self._count += len(put) - len(records) - len(gone)
        return [record_key for record_key, record in new if known[record_key] not in (None, record)]

    def _remember(self, record_keys: list[bytes], known: dict[bytes, bytes | None]) -> None:
        """Open views keep what is about to change under these record keys; some of it was read already."""
        unread = {
            record_key
            for view in self._views
            for record_key in view.unchanged(record_keys)
            if record_key not in known
        }
        known = known | dict(zip(unread, self.get_all(list(unread)), strict=True))
        for view in self._views:
            view.remember({record_key: known[record_key] for record_key in view.unchanged(record_keys)})

    def page(self, after: bytes, count: int) -> tuple[list[Record], bool]:
        """Some records behind a record key as they are now, and whether they are the last ones."""
        if self._is_empty:
            return [], True
        records = self._store.scan(self._space + after, count)
        own = [(record_key[1:], record) for record_key, record in records if record_key[:1] == self._space]
        return own, len(own) < count

    def view(self) -> RecordView:
        """The records as they are now."""
        view = _View(self, self._views.remove)
        self._views.append(view)
        return view

    def __len__(self) -> int:
        return self._count


class _View:
    """The present records, with what has changed since then undone."""

    def __init__(self, records: CustomRecords, on_close: Callable[[_View], None]) -> None:
        self._records = records
        self._on_close: Callable[[_View], None] | None = on_close
        self._before: dict[bytes, bytes | None] = {}  # the records that have changed since, as they were
        self._order: list[bytes] = []  # those of them where there was a record
        self._unsorted: list[bytes] = []  # and those which came since the last look

    def unchanged(self, record_keys: list[bytes]) -> list[bytes]:
        """Which of these record keys have the same record as when the view was opened."""
        before = self._before
        return [record_key for record_key in record_keys if record_key not in before]

    def remember(self, before: dict[bytes, bytes | None]) -> None:
        """The records under these keys are about to change for the first time."""
        self._before.update(before)
        self._unsorted += [record_key for record_key, record in before.items() if record is not None]

    def get_all(self, record_keys: list[bytes]) -> list[bytes | None]:
        """The records under some record keys."""
        unchanged = self.unchanged(record_keys)
        current = dict(zip(unchanged, self._records.get_all(unchanged), strict=True))
        return [
            current[record_key] if record_key in current else self._before[record_key]
            for record_key in record_keys
        ]

    def scan(self, after: bytes, count: int) -> list[Record]:
        """Up to ``count`` records behind a record key."""
        records: list[Record] = []
        is_last = False
        while len(records) < count and not is_last:
            page, is_last = self._records.page(after, max(count - len(records), _LEAST_PAGE))
            end = None if is_last else page[-1][0]
            records += self._as_it_was(page, after, end)
            after = after if end is None else end
        return records[:count]

    def _as_it_was(self, page: list[Record], after: bytes, end: bytes | None) -> list[Record]:
        """The records between two record keys as they were, given those that are there now."""
        before = self._before
        if not before:
            return page
        if self._unsorted:
            self._order += self._unsorted
            self._order.sort()  # two pieces, of which the long one is in order: hardly more than a copy
            self._unsorted = []
        first = bisect_right(self._order, after)
        last = len(self._order) if end is None else bisect_right(self._order, end)
        records = [(record_key, record) for record_key, record in page if record_key not in before]
        for record_key in self._order[first:last]:
            record = before[record_key]
            assert record is not None
            records.append((record_key, record))
        return sorted(records)

    def close(self) -> None:
        """Forget what was remembered: nobody will look any more."""
        if self._on_close is not None:
            self._on_close(self)
            self._on_close = None
            self._before = {}
