"""Savepoints can be made from nothing and from others; what is not changed stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.checkpoint.storage import MemoryStorage
from firesteel.checkpoint.stored_checkpoint import load, verify
from firesteel.common.errors import InvalidKeyError, StateError, StorageError, WrongArgumentError
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from firesteel.graph.operator_ids import id_of_uid
from firesteel.plan.state_handles import CheckpointKind, StateMode
from firesteel.state.tracked_state import TableId
from firesteel.state_processor import REMOVE, SavepointReader, SavepointWriter, StateEntry
from firesteel.state_processor._saved_operator import SavedOperator

COUNT = ValueStateDescriptor("count", Types.INT())
LETTERS = {letter: number for number, letter in enumerate("abcdefgh", 1)}


class Average(AggregateFunction):
    """Sum and count."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def pairs(entries: Iterable[StateEntry]) -> dict[Any, Any]:
    return {entry.key: entry.value for entry in entries}


def counts(tmp_path: Path, parallelism: int = 1) -> str:
    writer = SavepointWriter.new_savepoint().with_operator("counter", parallelism=parallelism)
    return writer.with_keyed_state("counter", COUNT, LETTERS).write(str(tmp_path / "counts"))


def test_keyed_state_from_nothing(tmp_path: Path) -> None:
    path = counts(tmp_path, parallelism=3)
    reader = SavepointReader(path)
    assert pairs(reader.read("counter", "count")) == LETTERS
    (operator,) = reader.operators
    assert (operator.id, operator.uid) == (id_of_uid("counter"), "counter")
    assert (operator.parallelism, operator.max_parallelism) == (3, 128)
    assert load(path).manifest.kind is CheckpointKind.SAVEPOINT
    verify(load(path), deep=True)


@pytest.mark.parametrize(
    ("descriptor", "value"),
    [
        (ValueStateDescriptor("state", Types.INT()), 1),
        (ListStateDescriptor("state", Types.INT()), [1, 2]),
        (MapStateDescriptor("state", Types.STRING(), Types.INT()), {"x": 1}),
        (ReducingStateDescriptor("state", lambda a, b: a + b, Types.INT()), 3),
        (AggregatingStateDescriptor("state", Average(), Types.PICKLED_BYTE_ARRAY()), (6, 2)),
    ],
)
@pytest.mark.parametrize("expires", [False, True])
def test_all_kinds_of_keyed_state(
    tmp_path: Path, descriptor: StateDescriptor, value: Any, expires: bool
) -> None:
    if expires:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    path = (
        SavepointWriter.new_savepoint()
        .with_keyed_state("op", descriptor, [("k", value)])
        .write(str(tmp_path / "s"))
    )
    reader = SavepointReader(path)
    assert reader.get("op", "state", "k") == value
    assert reader.states("op")[0].has_ttl == expires


def test_lists_are_spread_over_the_subtasks(tmp_path: Path) -> None:
    descriptor = ListStateDescriptor("offsets", Types.INT())
    writer = SavepointWriter.new_savepoint().with_operator("source", parallelism=2)
    path = writer.with_list_state("source", descriptor, range(5)).write(str(tmp_path / "s"))
    reader = SavepointReader(path)
    assert [(entry.value, entry.subtask) for entry in reader.read("source", "offsets")] == [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 1),
        (4, 1),
    ]
    assert reader.states("source")[0].mode is StateMode.SPLIT


def test_union_and_broadcast_state(tmp_path: Path) -> None:
    writer = SavepointWriter.new_savepoint().with_operator("op", parallelism=2)
    writer.with_list_state("op", ListStateDescriptor("all", Types.INT()), [1, 2], union=True)
    writer.with_broadcast_state("op", MapStateDescriptor("rules", Types.STRING(), Types.INT()), {"r": 1})
    reader = SavepointReader(writer.write(str(tmp_path / "s")))
    assert {state.name: state.mode for state in reader.states("op")} == {
        "all": StateMode.UNION,
        "rules": StateMode.BROADCAST,
    }
    assert [entry.value for entry in reader.read("op", "all")] == [1, 2]
    assert pairs(reader.read("op", "rules")) == {"r": 1}


def test_values_are_updated_and_removed(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path, parallelism=2))
    writer.update("counter", "count", lambda entry: entry.value * 10 if entry.key < "c" else REMOVE)
    assert pairs(SavepointReader(writer.write(str(tmp_path / "new"))).read("counter", "count")) == {
        "a": 10,
        "b": 20,
    }
    assert pairs(SavepointReader(str(tmp_path / "counts")).read("counter", "count")) == LETTERS


def stored(path: str) -> tuple[int, int]:
    """Value and time of key "a"."""
    point = load(path)
    (operator,) = point.manifest.operators
    tables = SavedOperator(operator, point).fold(operator.subtasks[0]).tables
    found: tuple[int, int] = tables[TableId("count", False)]["a"]
    return found


def test_an_update_keeps_the_time_of_values_that_expire(tmp_path: Path) -> None:
    descriptor = ValueStateDescriptor("count", Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    first = (
        SavepointWriter.new_savepoint()
        .with_keyed_state("op", descriptor, {"a": 1})
        .write(str(tmp_path / "1"))
    )
    writer = SavepointWriter.from_existing_savepoint(first).update("op", "count", lambda entry: 2)
    assert stored(writer.write(str(tmp_path / "2"))) == (2, stored(first)[1])


def test_put_sets_single_keys_and_leaves_the_others(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path, parallelism=2)).put(
        "counter", "count", {"a": 100, "new": 1}
    )
    found = pairs(SavepointReader(writer.write(str(tmp_path / "new"))).read("counter", "count"))
    assert found == {**LETTERS, "a": 100, "new": 1}


def test_put_into_a_list_is_refused(tmp_path: Path) -> None:
    writer = SavepointWriter.new_savepoint().with_list_state("op", ListStateDescriptor("l", Types.INT()), [1])
    with pytest.raises(StateError, match="has no keys"):
        writer.put("op", "l", {"a": 1})


def test_keys_are_removed_from_all_states(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path))
    writer.with_keyed_state("counter", ValueStateDescriptor("last", Types.STRING()), {"a": "x", "b": "y"})
    reader = SavepointReader(writer.remove_keys("counter", ["a"]).write(str(tmp_path / "new")))
    assert "a" not in list(reader.keys("counter"))
    assert pairs(reader.read("counter", "last")) == {"b": "y"}


def test_states_are_removed_and_renamed(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path))
    writer.with_keyed_state("counter", ValueStateDescriptor("last", Types.STRING()), {"a": "x"})
    writer.remove_state("counter", "last").rename_state("counter", "count", "total")
    reader = SavepointReader(writer.write(str(tmp_path / "new")))
    assert [state.name for state in reader.states("counter")] == ["total"]
    assert pairs(reader.read("counter", "total")) == LETTERS


def test_changes_apply_in_the_order_they_were_asked_for(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path))
    writer.update("counter", "count", lambda entry: entry.value + 1).rename_state("counter", "count", "total")
    writer.put("counter", "total", {"a": 0}).update("counter", "total", lambda entry: entry.value * 2)
    reader = SavepointReader(writer.write(str(tmp_path / "new")))
    assert reader.get("counter", "total", "a") == 0
    assert reader.get("counter", "total", "b") == 6


def test_a_state_cannot_be_renamed_to_one_that_exists(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path))
    writer.with_keyed_state("counter", ValueStateDescriptor("last", Types.STRING()), {})
    with pytest.raises(StateError, match="has a state 'last' already"):
        writer.rename_state("counter", "count", "last")


def test_operators_are_removed_and_get_other_uids(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path)).with_keyed_state(
        "other", COUNT, {"x": 1}
    )
    writer.remove_operator("other").change_operator_identifier("counter", "word counter")
    reader = SavepointReader(writer.write(str(tmp_path / "new")))
    assert [(operator.uid, operator.id) for operator in reader.operators] == [
        ("word counter", id_of_uid("word counter"))
    ]
    assert pairs(reader.read("word counter", "count")) == LETTERS


class Unreadable:
    """Cannot be unpickled."""

    def __reduce__(self) -> Any:
        return int, ("not a number",)


def test_what_is_not_changed_is_copied_without_being_read(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path))
    first = writer.with_keyed_state("strange", COUNT, {"x": Unreadable()}).write(str(tmp_path / "first"))
    with pytest.raises(StateError):
        list(SavepointReader(first).read("strange", "count"))
    second = SavepointWriter.from_existing_savepoint(first).put("counter", "count", {"a": 0})
    assert verify(load(second.write(str(tmp_path / "second"))), deep=True) is None


def test_an_existing_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = counts(tmp_path)
    with pytest.raises(StorageError, match="exists already"):
        SavepointWriter.from_existing_savepoint(path).write(path)
    verify(load(path), deep=True)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing_savepoint(counts(tmp_path))
    writer.update("counter", "count", lambda entry: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        writer.write(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_none_is_refused_as_a_value(tmp_path: Path) -> None:
    with pytest.raises(WrongArgumentError, match="None cannot be"):
        SavepointWriter.new_savepoint().with_keyed_state("op", COUNT, {"a": None})
    with pytest.raises(WrongArgumentError, match="a dict, got"):
        SavepointWriter.new_savepoint().with_keyed_state(
            "op", MapStateDescriptor("m", Types.INT(), Types.INT()), {"a": 1}
        )


def test_a_key_that_cannot_be_placed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidKeyError):
        SavepointWriter.new_savepoint().with_keyed_state("op", COUNT, [(object(), 1)])


def test_a_savepoint_may_be_moved(tmp_path: Path) -> None:
    moved = Path(counts(tmp_path)).rename(tmp_path / "elsewhere")
    assert SavepointReader(str(moved)).get("counter", "count", "a") == 1


@given(st.dictionaries(st.text() | st.integers(), st.integers()), st.integers(1, 5), st.integers(5, 40))
def test_every_key_is_with_the_subtask_that_owns_it(
    entries: dict[Any, int], parallelism: int, max_parallelism: int
) -> None:
    path = "memory://savepoint-writer/all"
    MemoryStorage.forget(path)
    writer = SavepointWriter.new_savepoint(max_parallelism).with_operator("op", parallelism=parallelism)
    reader = SavepointReader(writer.with_keyed_state("op", COUNT, entries).write(path))
    for key, value in entries.items():
        assert [entry.value for entry in reader.read("op", "count", key=key)] == [value]
