"""Checkpoints and savepoints can be read: operators, states, keys, values, timers; deltas are applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.checkpoint.blocks import StateFileWriter, file_header
from firesteel.checkpoint.manifest import Manifest, OperatorState
from firesteel.checkpoint.storage import OutputFile, open_storage
from firesteel.common.errors import NoSuchSnapshotError, StateError
from firesteel.common.time import Time
from firesteel.common.typeinfo import Types
from firesteel.contracts.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from firesteel.contracts.windows import TimeWindow
from firesteel.plan.key_groups import key_group_of, subtask_of_group
from firesteel.plan.state_handles import CheckpointKind, OperatorHandle, Segment, StateMeta, StateMode
from firesteel.state.hashmap_backend import HashMapBackend
from firesteel.state.snapshot.keyed_snapshot import Block, read_block, write_block
from firesteel.state.tracked_state import TableId
from firesteel.state_processor import SavepointReader, StateEntry, TimerEntry
from firesteel.state_processor._folded_state import FoldedState

COUNT = ValueStateDescriptor("count", Types.INT())
Segments = Sequence[Iterable[Block]]


def saved(
    root: Path,
    keyed: Sequence[Segments],
    metas: Sequence[StateMeta] = (),
    lists: Sequence[Iterable[Block]] = (),
    uid: str | None = "counter",
) -> SavepointReader:
    """A checkpoint of one operator; ``keyed`` and ``lists`` hold the blocks of each subtask."""
    storage = open_storage(str(root))
    handles = []
    for subtask in range(max(len(keyed), len(lists))):
        output = storage.create(f"chk-3/0-{subtask}-0-3")
        output.write(file_header())
        writer = StateFileWriter(f"chk-3/0-{subtask}-0-3")

        def segment(
            blocks: Iterable[Block], writer: StateFileWriter = writer, output: OutputFile = output
        ) -> Segment:
            part = writer.segment()
            for block in blocks:
                output.write(part.add(write_block(block)))
            return part.finish()

        segments = tuple(segment(blocks) for blocks in keyed[subtask]) if keyed else ()
        lists_segment = segment(lists[subtask]) if lists else None
        output.close()
        handles.append(OperatorHandle("0" * 32, subtask, segments, lists_segment, tuple(metas)))
    operator = OperatorState("0" * 32, "Counter", len(handles), 128, uid, tuple(handles))
    manifest = Manifest("ab" * 16, "job", 3, 1000, CheckpointKind.CHECKPOINT, (operator,))
    storage.publish("chk-3/_metadata", manifest.encode())
    return SavepointReader(str(root / "chk-3"))


def of_backend(root: Path, backend: HashMapBackend) -> SavepointReader:
    snapshot = backend.begin_snapshot(1, full=True)
    payloads = []
    while not snapshot.done:
        payloads += snapshot.step()
    return saved(root, [[map(read_block, payloads)]], backend.metas())


def pairs(entries: Iterable[StateEntry]) -> list[tuple[Any, Any]]:
    return [(entry.key, entry.value) for entry in entries]


def value_meta(name: str = "count", kind: str = "value") -> StateMeta:
    return StateMeta(name, StateMode.KEYED, kind, "Integer")


def test_operators_and_states_are_listed(tmp_path: Path) -> None:
    reader = saved(
        tmp_path, [[[("put", "count", False, ["a"], [1])]]], [value_meta(kind="window value with ttl")]
    )
    (operator,) = reader.operators
    assert (operator.uid, operator.name, operator.parallelism, operator.max_parallelism) == (
        "counter",
        "Counter",
        1,
        128,
    )
    (state,) = operator.states
    assert (state.name, state.mode, state.kind, state.type) == ("count", StateMode.KEYED, "value", "Integer")
    assert (state.per_window, state.has_ttl, state.is_internal) == (True, True, False)
    assert (reader.job_id, reader.job_name, reader.checkpoint_id, reader.timestamp) == (
        "ab" * 16,
        "job",
        3,
        1000,
    )


def test_deltas_are_applied_in_order(tmp_path: Path) -> None:
    full = [("put", "count", False, ["a", "b", "c"], [1, 2, 3])]
    first = [("put", "count", False, ["a"], [10]), ("remove", "count", False, ["b"])]
    second = [("put", "count", False, ["b"], [20]), ("remove", "count", False, ["c"])]
    reader = saved(tmp_path, [[full, first, second]], [value_meta()])
    assert sorted(pairs(reader.read("counter", "count"))) == [("a", 10), ("b", 20)]


def test_entries_of_all_subtasks_come_with_their_subtask(tmp_path: Path) -> None:
    reader = saved(
        tmp_path,
        [[[("put", "count", False, ["a"], [1])]], [[("put", "count", False, ["b"], [2])]]],
        [value_meta()],
    )
    assert list(reader.read("counter", "count")) == [StateEntry("a", 1), StateEntry("b", 2, subtask=1)]


def test_one_key_is_read_from_the_subtask_that_owns_it(tmp_path: Path) -> None:
    owner = subtask_of_group(key_group_of("a", 128), 128, 2)
    mine, other = [("put", "count", False, ["a"], [1])], [("put", "count", False, ["x"], [2])]
    reader = saved(tmp_path, [[mine], [other]] if owner == 0 else [[other], [mine]], [value_meta()])
    (tmp_path / f"chk-3/0-{1 - owner}-0-3").unlink()  # whoever looks there fails
    assert reader.get("counter", "count", "a") == 1


def test_a_key_without_state_gives_the_default(tmp_path: Path) -> None:
    reader = saved(tmp_path, [[[("put", "count", False, ["a"], [1])]]], [value_meta()])
    assert reader.get("counter", "count", "z") is None
    assert reader.get("counter", "count", "z", default=0) == 0


def test_windows_are_namespaces(tmp_path: Path) -> None:
    windows = [TimeWindow(0, 5), TimeWindow(5, 10)]
    block = ("put", "sum", True, [("a", windows[0]), ("a", windows[1])], [1, 2])
    reader = saved(tmp_path, [[[block]]], [value_meta("sum", "window value")])
    found = list(reader.read("counter", "sum"))
    assert [(entry.key, entry.namespace, entry.value) for entry in found] == [
        ("a", windows[0], 1),
        ("a", windows[1], 2),
    ]


def test_keys_of_an_operator_come_once(tmp_path: Path) -> None:
    blocks = [
        ("put", "count", False, ["a", "b"], [1, 2]),
        ("put", "sum", True, [("a", 1), ("c", 1), ("c", 2)], [1, 2, 3]),
    ]
    reader = saved(tmp_path, [[blocks]], [value_meta(), value_meta("sum", "window value")])
    assert sorted(reader.keys("counter")) == ["a", "b", "c"]
    assert sorted(reader.keys("counter", "count")) == ["a", "b"]


def test_timers_are_read_and_removed_ones_are_gone(tmp_path: Path) -> None:
    full = [
        ("timers", "event-time", False, [5, 6], ["a", "b"]),
        ("timers", "w", True, [7], [("a", "window")]),
    ]
    delta = [("timers_removed", "event-time", False, [5], ["a"]), ("timers", "event-time", False, [9], ["a"])]
    reader = saved(tmp_path, [[full, delta]])
    assert list(reader.timers("counter", key="a")) == [
        TimerEntry("a", 9, "event-time"),
        TimerEntry("a", 7, "w", "window"),
    ]
    assert [timer.time for timer in reader.timers("counter")] == [6, 9, 7]


def test_stores_of_operators_are_read_by_name(tmp_path: Path) -> None:
    reader = saved(tmp_path, [[[("entries", "\0panes", ["a", "b"], [1, 2], 5000)]]])
    assert [(e.key, e.value, e.namespace) for e in reader.read("counter", "panes")] == [
        ("a", 1, 5000),
        ("b", 2, 5000),
    ]


def test_internal_states_are_found_without_their_first_character(tmp_path: Path) -> None:
    reader = saved(
        tmp_path, [[[("put", "\0reduced", False, ["a"], [1])]]], [value_meta("\0reduced", "internal")]
    )
    (state,) = reader.states("counter")
    assert (state.name, state.is_internal) == ("reduced", True)
    assert pairs(reader.read("counter", "reduced")) == [("a", 1)]


def test_list_states_give_their_elements(tmp_path: Path) -> None:
    metas = [StateMeta("offsets", StateMode.SPLIT, "list")]
    blocks = [[("list", "offsets", "split", [1, 2])], [("list", "offsets", "split", [3])]]
    reader = saved(tmp_path, [], metas, lists=blocks)
    assert [(entry.value, entry.subtask) for entry in reader.read("counter", "offsets")] == [
        (1, 0),
        (2, 0),
        (3, 1),
    ]


def test_broadcast_state_is_read_once(tmp_path: Path) -> None:
    block = ("list", "rules", "broadcast", [("r1", 1), ("r2", 2)])
    reader = saved(tmp_path, [], [StateMeta("rules", StateMode.BROADCAST, "map")], lists=[[block], [block]])
    assert pairs(reader.read("counter", "rules")) == [("r1", 1), ("r2", 2)]
    assert reader.get("counter", "rules", "r2") == 2


def expiring(descriptor: StateDescriptor) -> StateDescriptor:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return descriptor


def test_values_that_expire_come_without_their_times(tmp_path: Path) -> None:
    backend = HashMapBackend(lambda: 1000.0)
    value = backend.get_keyed_state(expiring(ValueStateDescriptor("value", Types.INT())))
    listed = backend.get_keyed_state(expiring(ListStateDescriptor("list", Types.INT())))
    mapped = backend.get_keyed_state(expiring(MapStateDescriptor("map", Types.INT(), Types.INT())))
    backend.current_key = "a"
    value.update(1)
    listed.update([1, 2])
    mapped.put(1, 2)
    reader = of_backend(tmp_path, backend)
    assert [reader.get("counter", name, "a") for name in ("value", "list", "map")] == [1, [1, 2], {1: 2}]


@given(st.lists(st.lists(st.tuples(st.integers(0, 6), st.none() | st.integers())), min_size=1, max_size=6))
def test_full_snapshot_and_deltas_give_what_the_backend_held(
    batches: list[list[tuple[int, int | None]]],
) -> None:
    backend = HashMapBackend(incremental=True, max_deltas=100)
    state = backend.get_state(COUNT)
    folded = FoldedState()
    for number, batch in enumerate(batches, 1):
        backend.touch([key for key, _ in batch])
        for key, value in batch:
            backend.current_key = key
            state.update(value)
        snapshot = backend.begin_snapshot(number)
        if snapshot.is_full:
            folded = FoldedState()
        payloads: list[bytes] = []
        while not snapshot.done:
            payloads += snapshot.step()
        folded.apply(payloads)
        backend.checkpoint_completed(number)
        held = backend.table("count")
        assert folded.tables.get(TableId("count", False), {}) == held


@dataclass(frozen=True)
class Reading:
    """A value with fields."""

    temperature: float


def test_dataclasses_come_back(tmp_path: Path) -> None:
    reader = saved(tmp_path, [[[("put", "last", False, ["a"], [Reading(20.5)])]]], [value_meta("last")])
    assert reader.get("counter", "last", "a") == Reading(20.5)


def test_unknown_operator_lists_those_that_are_there(tmp_path: Path) -> None:
    reader = saved(tmp_path, [[[("put", "count", False, ["a"], [1])]]], [value_meta()])
    with pytest.raises(StateError, match=r"no operator 'other'.*\n  'Counter' \(uid 'counter'\)"):
        list(reader.read("other", "count"))


def test_unknown_state_lists_those_that_are_there(tmp_path: Path) -> None:
    reader = saved(tmp_path, [[[("put", "count", False, ["a"], [1])]]], [value_meta()])
    with pytest.raises(StateError, match=r"has no state 'sum'; it has 'count'"):
        list(reader.read("counter", "sum"))


def test_operator_without_uid_is_found_by_id_or_name(tmp_path: Path) -> None:
    reader = saved(tmp_path, [[[("put", "count", False, ["a"], [1])]]], [value_meta()], uid=None)
    assert reader.get("0" * 32, "count", "a") == reader.get("Counter", "count", "a") == 1


def test_a_directory_that_is_no_savepoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSuchSnapshotError, match="there is no checkpoint or savepoint"):
        SavepointReader(str(tmp_path))
