"""Records in a store that the user brings along: what the cache needs and a store does not have.

A store knows one state of its records, the present one. Snapshots read the records as they were when the snapshot
began, so a view that is open remembers what is overwritten or removed meanwhile. One store holds the records of all
spaces, such as those of states per key and of those per namespace; the first byte of a place says which.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from operator import lt
from typing import Any

from firesteel.common.errors import StorageError, short_repr
from firesteel.contracts.state_backend import StateStore
from firesteel.state.record_store import RecordView

__all__ = ["CheckedStore", "CustomRecords"]

Record = tuple[bytes, bytes]

_LEAST_PAGE = 256


class CheckedStore:
    """A user's store: its errors say whose it is, and its answers are looked at before they are believed."""

    def __init__(self, store: StateStore, name: str, operator: str) -> None:
        self._store = store
        self._name = name
        self._operator = operator

    def get_all(self, places: list[bytes]) -> list[bytes | None]:
        """The records at some places."""
        found: list[bytes | None] = self._list("get_all", places)
        if len(found) != len(places):
            raise self._wrong("get_all", f"{len(places)} records, one for each place", len(found))
        if not set(map(type, found)) <= {bytes, type(None)}:
            raise self._wrong("get_all", "bytes, or None where there is no record", found)
        return found

    def put_all(self, records: list[Record], gone: list[bytes]) -> None:
        """Store and remove records."""
        self._call("put_all", records, gone)

    def scan(self, after: bytes, count: int) -> list[Record]:
        """Up to so many records behind a place."""
        found: list[Record] = self._list("scan", after, count)
        if len(found) > count:
            raise self._wrong("scan", f"at most {count} records", len(found))
        if not all(map(_is_record, found)):
            raise self._wrong("scan", "pairs of place and record, both bytes", found)
        places = [after, *[place for place, _ in found]]
        if not all(map(lt, places, islice(places, 1, None))):
            raise self._wrong("scan", f"places behind {after!r} in ascending order", places[1:])
        return found

    def close(self) -> None:
        """Let it go."""
        self._call("close")

    def _list(self, method: str, *arguments: Any) -> list[Any]:
        found = self._call(method, *arguments)
        if not isinstance(found, Sequence):
            raise self._wrong(method, "a list", found)
        return list(found)

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


def _is_record(found: Any) -> bool:
    try:
        place, record = found
    except (TypeError, ValueError):
        return False
    return type(place) is bytes and type(record) is bytes


class CustomRecords:
    """The records of one space."""

    def __init__(self, store: CheckedStore, space: bytes) -> None:
        self._store = store
        self._space = space  # the first byte of all its places
        self._count = 0
        self._is_empty = True  # until something is put there
        self._views: list[_View] = []

    def get_all(self, places: Sequence[bytes]) -> list[bytes | None]:
        """The records at some places."""
        if self._is_empty:
            return [None] * len(places)
        return self._store.get_all([self._space + place for place in places]) if places else []

    def put_all(self, records: list[Record], new: list[Record], gone: list[bytes], size: int) -> list[bytes]:
        """Store and remove records; see `RecordStore`."""
        places = [place for place, _ in new]
        known = dict(zip(places, self.get_all(places), strict=True))
        put = [*records, *[(place, record) for place, record in new if known[place] is None]]
        if self._views:
            self._remember([*[place for place, _ in put], *gone], known)
        if put or gone:
            self._is_empty = False
            space = self._space
            self._store.put_all(
                [(space + place, record) for place, record in put], [space + place for place in gone]
            )
        self._count += len(put) - len(records) - len(gone)
        return [place for place, record in new if known[place] not in (None, record)]

    def _remember(self, places: list[bytes], known: dict[bytes, bytes | None]) -> None:
        """Open views keep what is about to change at these places; some of it was read already."""
        unread = {place for view in self._views for place in view.lacks(places) if place not in known}
        known = known | dict(zip(unread, self.get_all(list(unread)), strict=True))
        for view in self._views:
            view.remember({place: known[place] for place in view.lacks(places)})

    def page(self, after: bytes, count: int) -> tuple[list[Record], bool]:
        """Some records behind a place as they are now, and whether they are the last ones."""
        if self._is_empty:
            return [], True
        found = self._store.scan(self._space + after, count)
        own = [(place[1:], record) for place, record in found if place[:1] == self._space]
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
        self._before: dict[bytes, bytes | None] = {}  # what was at the places that have changed since
        self._order: list[bytes] = []  # those of them where there was a record
        self._unsorted: list[bytes] = []  # and those which came since the last look

    def lacks(self, places: list[bytes]) -> list[bytes]:
        """Those of the places that have not changed yet."""
        before = self._before
        return [place for place in places if place not in before]

    def remember(self, before: dict[bytes, bytes | None]) -> None:
        """These places are about to change for the first time."""
        self._before.update(before)
        self._unsorted += [place for place, record in before.items() if record is not None]

    def get_all(self, places: list[bytes]) -> list[bytes | None]:
        """The records at some places."""
        unchanged = self.lacks(places)
        found = dict(zip(unchanged, self._records.get_all(unchanged), strict=True))
        return [found[place] if place in found else self._before[place] for place in places]

    def scan(self, after: bytes, count: int) -> list[Record]:
        """Up to so many records behind a place."""
        found: list[Record] = []
        is_last = False
        while len(found) < count and not is_last:
            page, is_last = self._records.page(after, max(count - len(found), _LEAST_PAGE))
            end = None if is_last else page[-1][0]
            found += self._as_it_was(page, after, end)
            after = after if end is None else end
        return found[:count]

    def _as_it_was(self, page: list[Record], after: bytes, end: bytes | None) -> list[Record]:
        """What was between two places, where there is a page of records now."""
        before = self._before
        if not before:
            return page
        if self._unsorted:
            self._order += self._unsorted
            self._order.sort()  # two pieces, of which the long one is in order: hardly more than a copy
            self._unsorted = []
        first = bisect_right(self._order, after)
        last = len(self._order) if end is None else bisect_right(self._order, end)
        found = [(place, record) for place, record in page if place not in before]
        for place in self._order[first:last]:
            record = before[place]
            assert record is not None
            found.append((place, record))
        return sorted(found)

    def close(self) -> None:
        """Nobody will look any more."""
        if self._on_close is not None:
            self._on_close(self)
            self._on_close = None
            self._before = {}
