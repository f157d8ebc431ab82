"""The file sink where nothing can be appended to or renamed: what differs from a disk."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from firesteel.common.errors import UserCodeError
from firesteel.common.serialization import Encoder
from firesteel.connectors.files import sink as sink_module
from firesteel.connectors.files.rolling import DefaultRollingPolicy
from firesteel.connectors.files.sink import BasePathBucketAssigner, PartFileSink
from firesteel.datastream.connectors.file_system import FileCompactor, FileCompactStrategy
from firesteel.plan.operator_specs import WriterSinkSpec
from firesteel.plan.shipped import Shipped
from firesteel.testing.checkpoint_harness import CheckpointHarness
from firesteel_support.simulated_objects import SimulatedObjects

TEXT = Encoder.simple_string_encoder()


@pytest.fixture
def store() -> SimulatedObjects:
    return SimulatedObjects(Random(1))


def sink_to(store: SimulatedObjects, **more: Any) -> PartFileSink:
    return PartFileSink(
        "/out", TEXT, BasePathBucketAssigner(), DefaultRollingPolicy(), file_system=store, **more
    )


def run(sink: PartFileSink, **more: Any) -> CheckpointHarness:
    return CheckpointHarness(WriterSinkSpec(Shipped.of(sink, "sink_to"), None), 1, **more)


def finished(store: SimulatedObjects) -> list[str]:
    return [
        data.decode() for path, data in store.objects.items() if "/part-" in path or "/compacted-" in path
    ]


def hidden(store: SimulatedObjects) -> list[str]:
    return [data.decode() for path, data in store.objects.items() if ".inprogress." in path]


def test_a_file_is_closed_at_every_checkpoint_whatever_the_policy_says(store: SimulatedObjects) -> None:
    running = run(sink_to(store))
    for number, value in enumerate("ab", 1):
        running[0].process([value])
        assert hidden(store) == []
        running.checkpoint(number)
        assert hidden(store) == [f"{value}\n"]
        running.complete(number)
        assert hidden(store) == []
    assert finished(store) == ["a\n", "b\n"]


def test_a_file_that_has_both_names_was_finished(store: SimulatedObjects) -> None:
    running = run(sink_to(store))
    running[0].process(["a"])
    taken = running.checkpoint(1)
    (path,) = [path for path in store.objects if ".inprogress." in path]
    name = path.rpartition("/")[2].removeprefix(".").partition(".inprogress.")[0]
    store.objects[f"/out/{name}"] = store.objects[path]
    run(sink_to(store), restore=taken)
    assert (finished(store), hidden(store)) == (["a\n"], [])


def test_another_file_of_that_name_is_not_replaced(store: SimulatedObjects) -> None:
    running = run(sink_to(store))
    running[0].process(["a"])
    running.checkpoint(1)
    (path,) = [path for path in store.objects if ".inprogress." in path]
    name = path.rpartition("/")[2].removeprefix(".").partition(".inprogress.")[0]
    store.objects[f"/out/{name}"] = b"somebody's"
    with pytest.raises(UserCodeError, match="because another file has its name"):
        running.complete(1)
    assert finished(store) == ["somebody's"]


def test_files_are_closed_before_they_are_too_large_to_be_copied(
    store: SimulatedObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_module, "MAX_OBJECT_BYTES", 4)
    running = run(sink_to(store))
    running[0].process(list("abcde"))
    running.checkpoint(1)
    running.complete(1)
    assert finished(store) == ["a\nb\n", "c\nd\n", "e\n"]


def test_files_are_not_compacted_to_one_that_is_too_large_to_be_copied(
    store: SimulatedObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_module, "MAX_OBJECT_BYTES", 4)
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build()
    running = run(sink_to(store, compaction=strategy, compactor=FileCompactor.concat_file_compactor()))
    for number, value in enumerate("abc", 1):
        running[0].process([value])
        running.checkpoint(number)
        running.complete(number)
    assert finished(store) == ["a\nb\n", "c\n"]
    assert hidden(store) == []


def test_the_older_sink_leaves_hidden_files_when_there_are_no_checkpoints(store: SimulatedObjects) -> None:
    running = run(sink_to(store, ends_files=False), checkpointing=False)
    running[0].process(["a"])
    running.finish()
    running.close()
    assert (finished(store), hidden(store)) == ([], ["a\n"])


def test_what_a_failed_job_was_writing_is_never_finished(store: SimulatedObjects) -> None:
    running = run(sink_to(store))
    running[0].process(["a"])
    taken = running.checkpoint(1)
    running[0].process(["b"])
    running.close()
    running = run(sink_to(store), restore=taken)
    running.checkpoint(2)
    running.complete(2)
    assert finished(store) == ["a\n"]
