"""Flame graphs: samples become a tree, are kept, and are taken anew only when somebody asks and they are old."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from firesteel.common import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.jobmaster.attempt import TaskProcess
from firesteel.plan.executor import EngineExecutor
from firesteel.plan.messages import SampledStack, StacksSampled, TaskId, ThreadsDumped
from firesteel.rest.flame_graphs import FlameGraphs, Samples, read_flame_settings
from firesteel.rest.served_jobs import Sampling
from firesteel.rest.views.flame_graph import DISABLED, OVER, WAITING, flame_graph
from firesteel_support.rest_client import check_shape

TASK = TaskId(0, 0)
STACKS = (
    SampledStack(True, ("run:1", "map:5"), 3),
    SampledStack(True, ("run:1", "filter:9"), 1),
    SampledStack(False, ("run:1", "wait:2"), 6),
)


def test_samples_become_a_tree_that_counts_every_frame_once() -> None:
    answer = flame_graph(STACKS, "FULL", 1000)
    check_shape(answer, "FlameGraph")
    root = answer["data"]
    assert (root["name"], root["value"], answer["endTimestamp"]) == ("root", 10, 1000)
    (run,) = root["children"]
    assert [(each["name"], each["value"]) for each in run["children"]] == [
        ("filter:9", 1),
        ("map:5", 3),
        ("wait:2", 6),
    ]


@pytest.mark.parametrize(("kind", "samples"), [("ON_CPU", 4), ("OFF_CPU", 6)])
def test_running_and_waiting_are_told_apart(kind: str, samples: int) -> None:
    assert flame_graph(STACKS, kind, 1)["data"]["value"] == samples


def test_answers_without_samples_are_those_of_flink() -> None:
    assert [each["endTimestamp"] for each in (OVER, DISABLED, WAITING)] == [-1, -2, -3]
    for answer in (OVER, DISABLED, WAITING):
        check_shape(answer, "FlameGraph")


class Job:
    """Tasks that answer when the test lets them."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = threading.Semaphore(0)
        self.answers: Mapping[TaskId, StacksSampled] = {TASK: StacksSampled(1, STACKS)}
        self.done = threading.Semaphore(0)

    def sample(self, tasks: Sequence[TaskId], sampling: Sampling) -> Mapping[TaskId, StacksSampled]:
        self.asked += 1
        self.may_answer.acquire()
        return self.answers

    def executors(self) -> tuple[EngineExecutor, ...]:
        return ()

    def executor_threads(self, executor_id: str) -> list[tuple[str, str]]:
        return []

    def processes(self) -> list[TaskProcess]:
        return []

    def threads(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, ThreadsDumped]:
        return {}

    def set_log_levels(self, levels: Mapping[str, int]) -> None:
        raise AssertionError


class Graphs:
    def __init__(self, job: Job, **options: str) -> None:
        self.now = 0.0
        self.job = job
        self.settings = read_flame_settings(Configuration.from_dict(options))
        self.graphs = FlameGraphs(lambda: self.now)

    def find(self, key: str = "vertex") -> Samples | None:
        return self.graphs.find((key,), self.job, [TASK], self.settings)

    def answered(self) -> Samples:
        self.job.may_answer.release()
        while (found := self.find()) is None:
            pass
        return found


def test_who_asks_first_is_told_to_wait_and_tasks_are_sampled_once() -> None:
    graphs = Graphs(Job())
    assert graphs.find() is None
    assert graphs.find() is None
    assert graphs.answered().stacks == STACKS
    assert graphs.job.asked == 1


def test_samples_are_taken_anew_when_they_are_old_and_shown_until_then() -> None:
    graphs = Graphs(Job(), **{"rest.flamegraph.refresh-interval": "10 s"})
    graphs.find()
    graphs.answered()
    graphs.now = 9.0
    graphs.find()
    assert graphs.job.asked == 1
    graphs.now = 11.0
    assert graphs.find() is not None
    graphs.job.may_answer.release()
    while graphs.job.asked < 2:
        pass


def test_samples_that_nobody_asks_for_are_forgotten() -> None:
    graphs = Graphs(Job(), **{"rest.flamegraph.cleanup-interval": "60 s"})
    graphs.find()
    graphs.answered()
    graphs.now = 61.0
    graphs.find("another")
    graphs.job.may_answer.release()
    assert graphs.find() is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rest.flamegraph.num-samples", "0"),
        ("rest.flamegraph.stack-depth", "0"),
        ("rest.flamegraph.delay-between-samples", "0 ms"),
    ],
)
def test_options_that_make_no_sense_are_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=key):
        read_flame_settings(Configuration.from_dict({key: value}))
