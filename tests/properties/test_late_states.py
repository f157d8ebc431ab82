"""A state that is renamed and migrated late, while snapshots are being written, against plain dictionaries.

A window function asks for a state when it needs it, and that may be long after the first checkpoint. What a snapshot sees
is what there was when it began, under the name that the state had then.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.typeinfo import Types
from firesteel.contracts.state import ValueState, ValueStateDescriptor
from firesteel.plan.state_handles import StateMeta
from firesteel.state.cached.disk_backend import DiskBackend
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.snapshot.keyed_snapshot import KeyedSnapshot

KEYS = range(25)
OLD = ValueStateDescriptor("old", Types.INT())
OTHER = ValueStateDescriptor("other", Types.INT())


def new_descriptor(renamed: bool) -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("new" if renamed else "old", Types.STRING())
    if renamed:
        descriptor.renamed_from("old")
    descriptor.set_version(2, lambda value, version: f"was {value}")
    return descriptor


def made(rng: random.Random) -> HashMapBackend:
    size = rng.choice((0, 1, 3, 8))
    if not size:
        return HashMapBackend(incremental=True)
    return DiskBackend(incremental=True, cache_entries=size, map_size=1 << 20)


def turn_to(backend: HashMapBackend, key: Any) -> None:
    if backend.tracks:
        backend.touch((key,))
    backend.current_key = key


def content(backend: HashMapBackend, state: ValueState[Any]) -> dict[Any, Any]:
    found = {}
    for key in KEYS:
        turn_to(backend, key)
        if state.value() is not None:
            found[key] = state.value()
    return found


def rest_of(snapshot: KeyedSnapshot) -> list[bytes]:
    blocks: list[bytes] = []
    while not snapshot.done:
        blocks += snapshot.step(3)
    return blocks


def check(rng: random.Random, blocks: list[bytes], metas: tuple[StateMeta, ...], *expected: Any) -> None:
    """The program that has changed resumes from a snapshot."""
    backend = made(rng)
    backend.expect(metas)
    for block in blocks:
        backend.restore_block(block)
    renamed, migrated, others = expected
    assert content(backend, backend.get_state(new_descriptor(renamed))) == migrated
    assert content(backend, backend.get_state(OTHER)) == others
    assert backend.unregistered() == []
    backend.close()


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), renamed=st.booleans(), first_is_over=st.booleans())
def test_snapshots_before_and_after_hold_what_there_was(
    seed: int, renamed: bool, first_is_over: bool
) -> None:
    rng = random.Random(seed)
    before = HashMapBackend()
    values: dict[Any, Any] = {key: key for key in rng.sample(KEYS, rng.randint(1, 20))}
    before.get_state(OLD)
    before.table("old").update(values)
    backend = made(rng)
    backend.expect(before.metas())
    for block in rest_of(before.begin_snapshot(1)):
        backend.restore_block(block)
    other = backend.get_state(OTHER)
    backend.opened()
    others: dict[Any, int] = {}

    def change_others() -> None:
        for key in rng.sample(KEYS, 5):
            turn_to(backend, key)
            other.update(rng.randint(0, 9))
            others[key] = other.value()

    change_others()
    first, metas = backend.begin_snapshot(1), backend.metas()
    expected = {key: f"was {value}" for key, value in values.items()}, dict(others)
    blocks = first.step(rng.randint(1, 5))
    if first_is_over:
        blocks += rest_of(first)
        backend.checkpoint_completed(1)
        change_others()

    turn_to(backend, 3)
    state = backend.get_state(new_descriptor(renamed))
    values = dict(expected[0])
    for key in rng.sample(KEYS, 4):
        turn_to(backend, key)
        if rng.random() < 0.5:
            state.clear()
            values.pop(key, None)
        else:
            state.update("new")
            values[key] = "new"
    change_others()
    if not first_is_over:
        blocks += rest_of(first)
        backend.checkpoint_completed(1)

    second, later_metas = backend.begin_snapshot(2), backend.metas()
    delta = rest_of(second)
    check(rng, blocks, metas, renamed, *expected)
    check(rng, [*(blocks if second.base == 1 else []), *delta], later_metas, renamed, values, others)
    backend.close()
