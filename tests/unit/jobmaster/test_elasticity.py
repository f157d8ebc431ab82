"""A job makes do with the slots that there are: when it starts with how many, and when it is rescaled."""

from __future__ import annotations

from firesteel.common.configuration import Configuration
from firesteel.common.errors import NotEnoughSlotsError
from firesteel.compiler.program_plans import Bounds, ProgramPlans
from firesteel.jobmaster.elasticity import (
    RUNNING_SECONDS,
    WAITING_SECONDS,
    Elasticity,
    ElasticSettings,
    Look,
    read_elastic_settings,
)
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RuntimeMode
from firesteel_support.flow import Flow

SETTINGS = ElasticSettings(wait=100.0, stabilization=10.0, cooldown=30.0, executing_stabilization=60.0)


def new_job(settings: ElasticSettings = SETTINGS) -> Elasticity:
    """Asks for 5 slots: one for its source, four for its map."""
    flow = Flow(parallelism=4)
    flow.print(flow.map(flow.source([1]), lambda value: value))
    configuration = Configuration.from_dict({"parallelism.default": "4"})
    return Elasticity(ProgramPlans(flow.graph.build(), configuration, flow.plan()), settings)


def slots(decided: JobPlan | Look | NotEnoughSlotsError | None) -> int | None:
    return decided.slots if isinstance(decided, JobPlan) else None


def test_a_job_starts_at_once_when_there_are_all_slots() -> None:
    job = new_job()
    assert slots(job.before_start(5, 0.0)) == 5
    assert slots(job.before_start(50, 0.0)) == 5


def test_with_fewer_it_waits_until_no_more_have_come_for_a_while() -> None:
    job = new_job()
    assert job.before_start(0, 0.0) == Look(WAITING_SECONDS)
    assert job.before_start(3, 5.0) == Look(WAITING_SECONDS)
    assert job.before_start(4, 14.9) == Look(WAITING_SECONDS)
    assert slots(job.before_start(4, 15.0)) == 4


def test_slots_that_go_again_make_it_wait_from_the_beginning() -> None:
    job = new_job()
    job.before_start(3, 0.0)
    assert job.before_start(1, 9.0) == Look(WAITING_SECONDS)
    assert job.before_start(3, 12.0) == Look(WAITING_SECONDS)
    assert slots(job.before_start(3, 22.0)) == 3


def test_it_fails_when_there_are_not_even_enough_for_one_subtask_each() -> None:
    job = new_job()
    assert job.before_start(1, 0.0) == Look(WAITING_SECONDS)
    refused = job.before_start(1, 100.0)
    assert isinstance(refused, NotEnoughSlotsError)
    assert (refused.needed, refused.available) == (2, 1)
    assert "after 100 s" in str(refused)


def test_it_starts_with_fewer_when_it_has_waited_for_long_enough() -> None:
    job = new_job(ElasticSettings(wait=5.0, stabilization=60.0))
    job.before_start(2, 0.0)
    assert slots(job.before_start(2, 5.0)) == 2


def test_it_can_wait_for_ever() -> None:
    job = new_job(ElasticSettings(wait=None))
    job.before_start(1, 0.0)
    assert job.before_start(1, 1e9) == Look(WAITING_SECONDS)


def running(job: Elasticity, available: int = 3) -> JobPlan:
    for now in (0.0, 10.0):
        plan = job.before_start(available, now)
    assert isinstance(plan, JobPlan)
    job.runs(10.0)
    return plan


def test_while_it_runs_all_slots_are_used_as_soon_as_it_has_cooled_down() -> None:
    job = new_job()
    plan = running(job)
    assert job.while_running(5, 39.0, plan) is None
    assert slots(job.while_running(5, 40.0, plan)) == 5


def test_some_more_slots_are_used_when_their_number_has_settled() -> None:
    job = new_job()
    plan = running(job, available=2)
    assert job.while_running(2, 50.0, plan) is None
    assert job.while_running(3, 60.0, plan) is None
    assert job.while_running(4, 100.0, plan) is None
    assert job.while_running(4, 159.0, plan) is None
    assert slots(job.while_running(4, 160.0, plan)) == 4


def test_one_that_has_failed_is_tried_again_after_the_same_time() -> None:
    job = new_job()
    plan = running(job)
    assert job.while_running(5, 40.0, plan) is not None
    assert job.while_running(5, 69.0, plan) is None
    assert job.while_running(5, 70.0, plan) is not None


def test_slots_that_go_while_it_runs_are_left_to_its_tasks() -> None:
    job = new_job()
    plan = running(job)
    assert job.while_running(1, 1000.0, plan) is None


def test_somebody_may_ask_for_less() -> None:
    job = new_job()
    plan = running(job, available=5)
    job.ask_for({operator: Bounds(1, min(2, width)) for operator, width in plan.parallelism.items()})
    assert slots(job.while_running(5, 1000.0, plan)) == 3


def test_slots_are_counted_often_enough_to_notice_and_seldom_enough_to_cost_nothing() -> None:
    assert 0 < WAITING_SECONDS < RUNNING_SECONDS <= 1.0


def test_options() -> None:
    assert read_elastic_settings(Configuration(), RuntimeMode.STREAMING) is None
    adaptive = Configuration.from_dict({"jobmanager.scheduler": "adaptive"})
    assert read_elastic_settings(adaptive, RuntimeMode.STREAMING) == ElasticSettings()
    assert read_elastic_settings(adaptive, RuntimeMode.BATCH) is None
    given = Configuration.from_dict(
        {
            "jobmanager.scheduler": "Adaptive",
            "jobmanager.adaptive-scheduler.resource-wait-timeout": "-1 ms",
            "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "1 s",
            "jobmanager.adaptive-scheduler.scaling-interval.min": "2 s",
            "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "3 s",
        }
    )
    assert read_elastic_settings(given, RuntimeMode.STREAMING) == ElasticSettings(None, 1.0, 2.0, 3.0)
