"""Payloads that wait: their order, where they are kept, how much they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.configuration import Configuration
from firesteel.common.errors import StorageError
from firesteel.runtime.inputs.payload_queue import PayloadQueue, PayloadSpace
from firesteel.runtime.inputs.temporary_files import TemporaryFiles


@given(st.lists(st.one_of(st.binary(max_size=30), st.none()), max_size=60), st.integers(0, 60))
def test_a_payload_queue_keeps_order_whatever_part_of_it_is_in_a_file(
    steps: list[bytes | None], in_memory: int
) -> None:
    space = PayloadSpace(in_memory)
    queue, model = PayloadQueue(space), []
    for step in steps:
        if step is not None:
            queue.add(memoryview(step))
            model.append(step)
        elif model:
            assert queue.take() == model.pop(0)
        assert len(queue) == len(model)
        assert space.size == sum(map(len, model))
    assert [queue.take() for _ in range(len(queue))] == model
    assert space.size == 0
    queue.close()


def test_what_does_not_fit_into_memory_goes_to_the_configured_directory(tmp_path: Path) -> None:
    configuration = Configuration.from_dict({"io.tmp.dirs": f"{tmp_path}/a, {tmp_path}/b"})
    queue = PayloadQueue(PayloadSpace(0, TemporaryFiles.of(configuration, subtask=3)))
    queue.add(b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["b"]
    assert queue.take() == b"x"


def test_a_directory_that_cannot_be_used_is_named() -> None:
    queue = PayloadQueue(PayloadSpace(0, TemporaryFiles("/dev/null/nothing")))
    with pytest.raises(StorageError, match=r"cannot be kept in a file in /dev/null/nothing: .*io\.tmp\.dirs"):
        queue.add(b"x")


@given(st.lists(st.tuples(st.integers(0, 2), st.one_of(st.binary(max_size=30), st.none())), max_size=60))
def test_queues_that_share_their_space_keep_their_own_order(steps: list[tuple[int, bytes | None]]) -> None:
    space = PayloadSpace(in_memory=40)
    queues = [PayloadQueue(space) for _ in range(3)]
    models: list[list[bytes]] = [[], [], []]
    for which, step in steps:
        if step is not None:
            queues[which].add(step)
            models[which].append(step)
        elif models[which]:
            assert queues[which].take() == models[which].pop(0)
        assert space.size == sum(len(payload) for model in models for payload in model)
    queues.pop().close()
    models.pop()
    assert [[queue.take() for _ in range(len(queue))] for queue in queues] == models
    assert space.size == 0


def test_what_is_forgotten_makes_room_in_memory_and_the_last_one_closes_the_file() -> None:
    space = PayloadSpace(in_memory=3)
    first, second = PayloadQueue(space), PayloadQueue(space)
    first.add(b"abc")
    second.add(b"def")
    assert space._file is not None
    first.close()
    first.add(b"ghi")
    assert second.take() == b"def"
    assert space._file is None
    assert first.take() == b"ghi"
