import pickle

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.typeinfo import Types
from firesteel.compiler.compile import compile_job
from firesteel.compiler.settings import available_cores
from firesteel.graph.stream_graph import Chaining, Edge
from firesteel.plan.exchange import Auto, Forward, Rebalance


@pytest.fixture
def p(new_program):
    return new_program()


def names(plan):
    return [vertex.name for vertex in plan.vertices]


def test_parallelism_is_the_steps_own_else_the_default_else_the_cores(p):
    p.map(p.source(), parallelism=3)
    assert [vertex.parallelism for vertex in p.plan(parallelism=5).vertices] == [5, 3]
    by_cores = compile_job(p.builder.build(), Configuration(), "job")
    assert by_cores.vertices[0].parallelism == available_cores()


def test_a_limited_source_takes_no_more_subtasks_than_it_can_use(p):
    p.source("one", limit=1)
    p.source("few", limit=3)
    assert [vertex.parallelism for vertex in p.plan(parallelism=2).vertices] == [1, 2]


def test_max_parallelism_is_the_steps_own_else_the_option_else_derived(p):
    p.reduce(p.reduce(p.source(), max_parallelism=7))
    assert [vertex.max_parallelism for vertex in p.plan().vertices] == [128, 7, 128]
    configured = p.plan(**{"pipeline.max-parallelism": 50})
    assert [vertex.max_parallelism for vertex in configured.vertices] == [50, 7, 50]
    p.builder.change(2, max_parallelism=None)
    assert p.plan(parallelism=200).vertices[0].max_parallelism == 512


def test_what_was_not_asked_for_is_forward_or_rebalance(p):
    source = p.source()
    p.map(source, "wide", parallelism=4)
    p.connect(Edge(source, Auto(), 0), Edge(source, Auto(), 1), "same")
    plan = p.plan()
    assert [edge.distribution for edge in plan.edges] == [Rebalance(), Forward(), Forward()]


def test_different_max_parallelism_ends_a_chain_only_when_told_so(p):
    p.map(p.source(), max_parallelism=64)
    assert len(p.plan().vertices) == 1
    key = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
    assert len(p.plan(**{key: "false"}).vertices) == 2


def test_slot_sharing_groups_are_inherited_when_all_inputs_agree(p):
    green, blue = p.source("a", slot_sharing_group="green"), p.source("b", slot_sharing_group="blue")
    p.map(p.map(green, "chained"), "default again", slot_sharing_group="default")
    p.connect(Edge(green, Rebalance(), 0), Edge(green, Rebalance(), 1), "green again")
    p.connect(Edge(green, Rebalance(), 0), Edge(blue, Rebalance(), 1), "mixed")
    plan = p.plan()
    assert names(plan) == ["Source: a -> chained", "Source: b", "default again", "green again", "mixed"]
    assert [vertex.first_task for vertex in plan.vertices] == [0, 2, 0, 2, 0]
    assert [stage.tasks for stage in plan.stages] == [4, 4]


def test_start_new_chain_may_have_followers_and_disable_chaining_none(p):
    p.map(p.map(p.source(), "head", chaining=Chaining.HEAD), "follower")
    p.map(p.map(p.source(), "never", chaining=Chaining.NEVER), "next")
    assert names(p.plan()) == ["Source: numbers", "head -> follower", "Source: numbers", "never", "next"]


def test_chained_operators_know_their_parent_and_its_side_output(p):
    split = p.process(p.source())
    p.print(split, tag="late")
    p.sink(p.map(split))
    (vertex,) = p.plan().vertices
    assert vertex.name == "Source: numbers -> Process -> (Sink: Print, Map -> Sink: database)"
    found = [(operator.name, operator.parent, operator.parent_tag) for operator in vertex.operators]
    assert found == [
        ("Source: numbers", None, None),
        ("Process", 0, None),
        ("Sink: Print", 1, "late"),
        ("Map", 1, None),
        ("Sink: database", 3, None),
    ]


def test_edges_name_operator_side_output_and_input(p):
    split = p.process(p.source())
    other = p.source("other")
    p.connect(Edge(other, Rebalance(), 0), Edge(split, Rebalance(), 1, "late"))
    first, second = p.plan().edges
    assert (first.source, first.source_operator, first.side_output, first.input_index) == (1, 0, None, 0)
    assert (second.source, second.source_operator, second.side_output, second.input_index) == (
        0,
        1,
        "late",
        1,
    )
    assert [first.target, second.target] == [2, 2]


def test_types_and_side_types_are_copied(p):
    side_types = {"late": Types.STRING()}
    p.process(p.source(), output_type=Types.LONG(), side_types=side_types)
    operator = p.plan().vertices[0].operators[1]
    assert operator.output_type == Types.LONG()
    assert operator.side_types == side_types


def test_the_shortest_buffer_timeout_of_the_sending_steps_holds(p):
    first = p.map(p.source(), "first", buffer_timeout_ms=30)
    second = p.map(first, "second", buffer_timeout_ms=-1)
    p.print(p.map(second, "not sending", buffer_timeout_ms=1))
    p.reduce(second)
    assert p.plan().vertices[0].buffer_timeout_ms == -1
    p.reduce(first)
    assert p.plan().vertices[0].buffer_timeout_ms == 30
    assert p.plan().vertices[1].buffer_timeout_ms == 100


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"execution.buffer-timeout": "5 ms"}, 5),
        ({"execution.buffer-timeout.interval": "1 s"}, 1000),
        ({"execution.buffer-timeout.enabled": "false"}, -1),
    ],
)
def test_the_default_buffer_timeout_is_an_option(p, options, expected):
    p.source()
    assert p.plan(options=options).vertices[0].buffer_timeout_ms == expected


def test_options_and_job_parameters_travel_as_text(p):
    p.source()
    plan = p.plan(options={"pipeline.global-job-parameters": "a:1,b:x", "firesteel.chunk.records": 10})
    assert plan.options["firesteel.chunk.records"] == "10"
    assert plan.options["parallelism.default"] == "2"
    assert plan.job_parameters == {"a": "1", "b": "x"}


def test_a_plan_survives_pickling(p):
    p.print(p.reduce(p.source()))
    plan = p.plan()
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_a_chain_of_two_thousand_steps_compiles(p):
    last = p.source()
    for _ in range(2000):
        last = p.map(last)
    (vertex,) = p.plan().vertices
    assert len(vertex.operators) == 2001
