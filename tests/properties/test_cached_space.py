"""Tables on disk against plain dictionaries: whatever comes and goes, and whichever keys share a hash."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.state.cached.backend import CachedBackend
from firesteel.state.cached.custom_backend import CustomBackend, OpenedStore
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.cached.space import CachedSpace
from firesteel.state.tracked_state import TableId
from firesteel.testing.state_stores import DictStore
from firesteel_support.effort import cases

CASES = cases(500, 5_000)


@dataclass(frozen=True)
class Clash:
    """Keys that all have the same hash."""

    name: str

    def __hash__(self) -> int:
        return 7


KEYS = [-1, -2, 7, Clash("a"), Clash("b"), "tea", ("tea", 1), 3.5]
VALUES = [1, "text", (1, "x"), [1, [2]], {"a": (1,)}, Clash("value"), bytearray(b"x"), None]
TABLES = ["first", "second"]


class Run:
    """A space and its model, changed together."""

    def __init__(self, rng: random.Random, backend: CachedBackend) -> None:
        self.rng = rng
        self.backend = backend
        self.space: CachedSpace = backend._cached_spaces[0]
        self.model: dict[str, dict[Any, Any]] = {name: {} for name in TABLES[: rng.randint(1, 2)]}
        self.renamed = 0

    def keys(self) -> list[Any]:
        return self.rng.sample(KEYS, self.rng.randint(1, 4))

    def change(self) -> None:
        keys = self.keys()
        self.space.load(keys)
        for key in keys:
            name = self.rng.choice(list(self.model))
            if self.rng.random() < 0.4:
                self.space.table(name).pop(key, None)
                self.model[name].pop(key, None)
            else:
                value = copy.copy(self.rng.choice(VALUES))
                self.space.table(name)[key] = value
                self.model[name][key] = value

    def look(self) -> None:
        keys = self.keys()
        self.space.load(keys)
        for name, model in self.model.items():
            table = self.space.table(name)
            for key in keys:
                assert (key in table) == (key in model), (name, key)
                assert table.get(key) == model.get(key)

    def evict(self) -> None:
        self.space.evict(self.rng.randint(1, 6))

    def flush(self) -> None:
        self.space.flush()

    def restore(self) -> None:
        name, keys = self.rng.choice(list(self.model)), self.keys()
        if self.rng.random() < 0.7:
            values = [copy.copy(self.rng.choice(VALUES)) for _ in keys]
            self.backend._restore_entries(TableId(name, False), keys, values)
            self.model[name].update(zip(keys, values, strict=True))
        else:
            self.backend._remove_entries(TableId(name, False), keys)
            for key in keys:
                self.model[name].pop(key, None)

    def convert(self) -> None:
        name = self.rng.choice(list(self.model))
        self.space.convert(name, lambda value: [value])
        self.model[name] = {key: [value] for key, value in self.model[name].items()}

    def rename(self) -> None:
        old, self.renamed = self.rng.choice(list(self.model)), self.renamed + 1
        self.space.rename(old, f"table {self.renamed}")
        self.model[f"table {self.renamed}"] = self.model.pop(old)

    def drop(self) -> None:
        name = self.rng.choice(list(self.model))
        self.space.drop(name)
        self.renamed += 1
        del self.model[name]
        self.model[f"table {self.renamed}"] = {}

    def list_keys(self) -> None:
        found = [key for keys in self.space.all_keys() for key in keys]
        present = {key for table in self.model.values() for key in table}
        assert len(found) == len(set(found))
        assert present <= set(found)


def _actions(run: Run) -> Iterator[Any]:
    often = (run.change, run.look, run.evict, run.restore)
    seldom = (run.flush, run.convert, run.list_keys, run.rename, run.drop)
    while True:
        yield run.rng.choice(often if run.rng.random() < 0.95 else seldom)


@pytest.mark.parametrize("kind", ["disk", "custom"])
@settings(max_examples=CASES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_space_holds_what_dictionaries_would(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    size, store = rng.choice((1, 3, 100)), DictStore()
    if kind == "disk":
        backend: CachedBackend = DiskBackend(cache_entries=size, map_size=1 << 20)
    else:
        backend = CustomBackend(OpenedStore(lambda context: store, "DictStore"), cache_entries=size)
    run = Run(rng, backend)
    for _, action in zip(range(rng.randint(5, 120)), _actions(run), strict=False):
        action()
    for _ in range(20):
        run.look()
    if kind == "custom":
        assert len(run.space.records) == len(store.records)
    backend.close()
