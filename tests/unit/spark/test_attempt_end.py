"""An attempt that is to end while Spark still plans it: nothing of it ever runs, and nobody waits for the plan."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import MagicMock

import pytest

from firesteel.common.configuration import Configuration
from firesteel.compiler.compile import compile_job
from firesteel.graph.stream_graph import Edge, GraphBuilder
from firesteel.plan.exchange import Auto
from firesteel.plan.executor import ControlEndpoint, Deployment
from firesteel.plan.operator_specs import PrintSpec, SourceSpec
from firesteel.plan.shipped import Shipped
from firesteel.spark import session as sessions
from firesteel.spark.executor import SparkAttempt
from firesteel.spark.task_files import TaskFiles


class SlowSpark:
    """A session of Spark, of which only what an attempt asks for is there; planning waits until it may go on."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = threading.Event(), threading.Event()
        self.session: Any = MagicMock()
        self.session.sparkContext.master = "spark://host:7077"
        self.session.sparkContext.getConf().get.return_value = "true"
        self.session.range.side_effect = self._range
        self.frame: Any = MagicMock()

    def _range(self, *arguments: object) -> Any:
        self.is_asked.set()
        assert self.may_answer.wait(600)
        return self.frame


@pytest.fixture
def spark() -> SlowSpark:
    return SlowSpark()


def attempt_on(spark: SlowSpark) -> SparkAttempt:
    graph = GraphBuilder()
    source = graph.add("Source", SourceSpec(Shipped.of(None, "source"), True))
    graph.add("Print", PrintSpec(), (Edge(source, Auto()),))
    plan = compile_job(
        graph.build(),
        Configuration.from_dict({"parallelism.default": "1", "execution.runtime-mode": "BATCH"}),
        "job",
    )
    sessions._count(1)  # as who acquires the session does; the attempt releases it
    endpoint = ControlEndpoint("host", 1, b"secret")
    return SparkAttempt(spark.session, Deployment("id", 1, plan), endpoint, TaskFiles(), Configuration())


def test_attempt_that_ends_while_it_is_planned_never_runs(spark: SlowSpark) -> None:
    attempt = attempt_on(spark)
    attempt.start()
    assert spark.is_asked.wait(600)
    attempt.kill()
    assert attempt.join(0.0), "over at once, although Spark has not answered"
    assert sessions.running_jobs() == 1, "the session is in use until it has"
    spark.may_answer.set()
    attempt._thread.join(600)
    assert sessions.running_jobs() == 0
    assert "executeCollect" not in str(spark.frame.mock_calls) + str(spark.session.mock_calls)
    assert attempt.error() is None


def test_attempt_that_runs_is_cancelled_with_all_that_spark_may_hear_of_it_later(spark: SlowSpark) -> None:
    attempt = attempt_on(spark)
    spark.may_answer.set()
    attempt.start()
    attempt._thread.join(600)
    assert attempt.join(0.0)
    attempt.kill()
    spark.session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs.assert_called_once_with("firesteel-id-1")
