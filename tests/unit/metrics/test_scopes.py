"""Names of metrics are put together as ``metrics.scope.*`` says."""

from __future__ import annotations

from firesteel.common.configuration import Configuration
from firesteel.metrics import MetricGroup
from firesteel.metrics._scopes import ScopeFormats, ScopeKind

PLACE = {
    "<host>": "worker1",
    "<tm_id>": "worker1:17",
    "<job_name>": "clicks",
    "<job_id>": "5e",
    "<task_name>": "Map -> Sink",
    "<operator_name>": "Map",
    "<subtask_index>": "3",
}


def formats(**options: str) -> ScopeFormats:
    return ScopeFormats.of(
        Configuration.from_dict({f"metrics.scope.{key}": text for key, text in options.items()})
    )


def name(kind: ScopeKind, formats: ScopeFormats) -> str:
    return ".".join(formats.components(kind, PLACE))


def test_the_defaults_are_those_of_flink() -> None:
    defaults = formats()
    assert {kind: name(kind, defaults) for kind in ScopeKind} == {
        ScopeKind.JOB_MANAGER: "worker1.jobmanager",
        ScopeKind.JOB_MANAGER_JOB: "worker1.jobmanager.clicks",
        ScopeKind.TASK_MANAGER: "worker1.taskmanager.worker1:17",
        ScopeKind.TASK_MANAGER_JOB: "worker1.taskmanager.worker1:17.clicks",
        ScopeKind.TASK: "worker1.taskmanager.worker1:17.clicks.Map -> Sink.3",
        ScopeKind.OPERATOR: "worker1.taskmanager.worker1:17.clicks.Map.3",
    }


def test_formats_may_be_others_and_begin_where_the_place_around_ends() -> None:
    own = formats(
        **{"tm.job": "<job_name>-<job_id>", "task": "*.<subtask_index>", "operator": "*.op.<unknown>"}
    )
    assert name(ScopeKind.TASK, own) == "clicks-5e.3"
    assert name(ScopeKind.OPERATOR, own) == "clicks-5e.3.op.<unknown>"


def test_a_group_knows_its_place() -> None:
    scope = formats(delimiter="/", operator="<host>.<operator_name>").scope(ScopeKind.OPERATOR, PLACE)
    group = MetricGroup("Map", system=scope).add_group("cache").add_group("topic", "orders")
    assert group.get_metric_identifier("hits") == "worker1/Map/cache/topic/orders/hits"
    assert group.get_scope_components() == ("worker1", "Map", "cache", "topic", "orders")
    variables = group.get_all_variables()
    assert (variables["<topic>"], variables["<host>"]) == ("orders", "worker1")


def test_groups_of_keys_and_values_say_which_are_values() -> None:
    group = MetricGroup("Map")
    group.add_group("a").add_group("key", "value").add_group("b").counter("n")
    assert [reading[0] for reading in group.readings()] == [("a", "key", "value", "b")]
    assert [reading[4] for reading in group.readings()] == [(2,)]
