"""State stores in tests: one in a dictionary, and a check that a store of one's own does what is asked of it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.errors import short_repr
from firesteel.contracts.state_backend import StateStore, StateStoreContext, qualified_name, store_opener
from firesteel.state.cached.custom_backend import OpenedStore
from firesteel.state.cached.custom_records import CheckedStore

__all__ = ["DictStore", "check_state_store"]

_STEPS = 400


class DictStore(StateStore):
    """The simplest store there is; the model that others are compared with."""

    def __init__(self, context: StateStoreContext | None = None) -> None:
        self.records: dict[bytes, bytes] = {}

    @override
    def get_all(self, places: Sequence[bytes]) -> list[bytes | None]:
        """The records at some places."""
        return [self.records.get(place) for place in places]

    @override
    def put_all(self, records: Sequence[tuple[bytes, bytes]], gone: Sequence[bytes]) -> None:
        self.records.update(records)
        for place in gone:
            del self.records[place]

    @override
    def scan(self, after: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Up to that many records behind a place."""
        places = heapq.nsmallest(count, (place for place in self.records if place > after))
        return [(place, self.records[place]) for place in places]


def check_state_store(backend: object, configuration: Configuration | None = None, seed: int = 0) -> None:
    """Use a store as a job does, at random, and compare it with a dictionary; an AssertionError says what differs.

    ``backend`` is what ``CustomStateBackend`` takes. Call it with several seeds.

    >>> check_state_store(DictStore)
    """
    store = OpenedStore(
        store_opener(backend, "check_state_store()"),
        qualified_name(backend),
        operator="check_state_store",
        configuration=configuration,
    )
    rng, model = random.Random(seed), DictStore()
    try:
        for _ in range(_STEPS):
            _change(rng, store, model)
            _compare(rng, store, model)
    finally:
        store.close()


def _change(rng: random.Random, store: CheckedStore, model: DictStore) -> None:
    there = sorted(model.records)
    gone = rng.sample(there, rng.randint(0, min(len(there), 4)))
    places = {_place(rng) for _ in range(rng.randint(0, 4))}.difference(gone)
    records = [(place, rng.randbytes(rng.choice((1, 20, 5000)))) for place in sorted(places)]
    store.put_all(records, gone)
    model.put_all(records, gone)


def _compare(rng: random.Random, store: CheckedStore, model: DictStore) -> None:
    places = [_place(rng) for _ in range(5)]
    _same(f"get_all({places})", store.get_all(places), model.get_all(places))
    after, count = rng.choice((_place(rng), _place(rng)[:1], b"")), rng.choice((1, 3, 1000))
    _same(f"scan({after!r}, {count})", store.scan(after, count), model.scan(after, count))


def _place(rng: random.Random) -> bytes:
    """Nine bytes, as in jobs, of those that are compared in the wrong way most easily."""
    return bytes([rng.choice(b"kp"), 0, 0, 0, 0, 0, *rng.choices(b"\x00\x7f\x80\xff", k=3)])


def _same(call: str, answer: object, expected: object) -> None:
    assert answer == expected, f"{call} gives {short_repr(answer)}, expected {short_repr(expected)}"
