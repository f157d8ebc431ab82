"""Keys that are equal are placed alike, wherever they have been."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firesteel.plan.key_groups import groups_of_subtask, stable_hash, subtask_of_group
from firesteel_support.strategies import keys


@given(key=keys(), other=keys())
def test_equal_keys_hash_alike(key: Any, other: Any) -> None:
    assert stable_hash(pickle.loads(pickle.dumps(key))) == stable_hash(key)
    if key == other and hash(key) == hash(other):
        assert stable_hash(key) == stable_hash(other)


@given(number=st.integers(-(2**70), 2**70))
def test_numbers_hash_by_value(number: int) -> None:
    if float(number) == number:
        assert stable_hash(float(number)) == stable_hash(number)


@given(data=st.data(), max_parallelism=st.integers(1, 32768))
def test_every_group_belongs_to_one_subtask(data: st.DataObject, max_parallelism: int) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))
    group = data.draw(st.integers(0, max_parallelism - 1))
    subtask = subtask_of_group(group, max_parallelism, parallelism)
    assert 0 <= subtask < parallelism
    assert group in groups_of_subtask(subtask, max_parallelism, parallelism)
