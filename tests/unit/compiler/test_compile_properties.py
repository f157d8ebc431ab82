"""What holds for the plan of any program, whatever its shape."""

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.graph.stream_graph import Chaining, Edge
from firesteel.plan.exchange import Auto, Broadcast, Forward, Global, KeyGroups, Rebalance, Rescale, Shuffle
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import CoMapSpec, MapSpec, RuntimeMode
from firesteel.plan.render import relay_stages, to_dict, to_mermaid, to_text

FREE = [Auto(), Auto(), Auto(), Rebalance(), Rescale(), Shuffle(), Broadcast(), Global()]


@st.composite
def programs(draw, new_program):
    """A random DAG of up to a dozen steps with all settings that shape a plan."""
    p = new_program()
    for number in range(draw(st.integers(1, 12))):
        add_step(draw, p, number)
    options = {"execution.runtime-mode": draw(st.sampled_from(["STREAMING", "AUTOMATIC"]))}
    if draw(st.booleans()):
        options["pipeline.operator-chaining.enabled"] = draw(st.sampled_from(["true", "false"]))
    return p, draw(st.integers(1, 4)), options


def add_step(draw, p, number):
    settings = {
        "parallelism": draw(st.sampled_from([None, None, None, 1, 3])),
        "chaining": draw(st.sampled_from([Chaining.ALWAYS, Chaining.ALWAYS, *Chaining])),
        "slot_sharing_group": draw(st.sampled_from([None, None, None, "green", "blue"])),
        "max_parallelism": draw(st.sampled_from([None, None, 64])),
    }
    known = range(1, number + 1)
    if not known or draw(st.integers(0, 4)) == 0:
        p.source(f"s{number}", bounded=draw(st.booleans()), **settings)
        return
    sources = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
    if draw(st.integers(0, 3)) == 0:
        p.reduce(*sources, name=f"r{number}", **settings)
    elif len(sources) > 1 and draw(st.booleans()):
        edges = [draw_edge(draw, source, index) for index, source in enumerate(sources[:2])]
        p.builder.add(f"c{number}", CoMapSpec(p.key), tuple(edges), **settings)
    else:
        edges = [draw_edge(draw, source, 0) for source in sources]
        p.builder.add(f"m{number}", MapSpec(p.key), tuple(edges), **settings)


def draw_edge(draw, source, index):
    return Edge(source, draw(st.sampled_from(FREE)), index, draw(st.sampled_from([None, None, "side"])))


def check_positions(plan: JobPlan) -> None:
    for stage in plan.stages:
        vertices = [plan.vertices[vertex] for vertex in stage.vertices]
        assert vertices, "no stage is empty"
        assert all(vertex.stage == stage.index for vertex in vertices)
        assert all(v.first_task >= 0 and v.first_task + v.parallelism <= stage.tasks for v in vertices)
        used = {task for v in vertices for task in range(v.first_task, v.first_task + v.parallelism)}
        assert used == set(range(stage.tasks)), "no task is without work"
    assert sorted(v for stage in plan.stages for v in stage.vertices) == list(range(len(plan.vertices)))


def check_edges(plan: JobPlan) -> None:
    for edge in plan.edges:
        source, target = plan.vertices[edge.source], plan.vertices[edge.target]
        assert source.stage < target.stage
        assert edge.source_operator < len(source.operators)
        assert not isinstance(edge.distribution, Auto)
        if isinstance(edge.distribution, Forward):
            assert source.parallelism == target.parallelism
        assert list(relay_stages(plan, edge)) == list(range(source.stage + 1, target.stage))
    for vertex in plan.vertices:
        before = [plan.vertices[edge.source].stage for edge in plan.edges_into(vertex.id)]
        assert vertex.stage == max(before, default=-1) + 1


def check_operators(plan: JobPlan, graph, parallelism: int) -> None:
    operators = [operator for vertex in plan.vertices for operator in vertex.operators]
    assert sorted(o.name.removeprefix("Source: ") for o in operators) == sorted(node.name for node in graph)
    assert len({operator.id for operator in operators}) == len(operators)
    wanted = {node.name: node.parallelism or parallelism for node in graph}
    for vertex in plan.vertices:
        for index, operator in enumerate(vertex.operators):
            assert vertex.parallelism == wanted[operator.name.removeprefix("Source: ")]
            assert (operator.parent is None) == (index == 0)
            assert operator.parent is None or operator.parent < index


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_plan_is_sound(new_program, data):
    p, parallelism, options = data.draw(programs(new_program))
    plan = p.plan(parallelism, options=options)
    check_positions(plan)
    check_edges(plan)
    check_operators(plan, p.builder.build(), parallelism)
    tasks = [stage.tasks for stage in plan.stages]
    assert plan.slots == (sum(tasks) if plan.mode is RuntimeMode.STREAMING else max(tasks))
    inputs = sum(len(node.inputs) for node in p.builder.build())
    chained = sum(len(vertex.operators) - 1 for vertex in plan.vertices)
    assert len(plan.edges) + chained == inputs
    assert p.plan(parallelism, options=options) == plan
    assert to_text(plan)
    assert to_mermaid(plan)
    assert to_dict(plan)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_slot_sharing_groups_never_share_a_task(new_program, data):
    p, parallelism, _ = data.draw(programs(new_program))
    # Without chaining every vertex is one node, so that its group can be looked up.
    plan = p.plan(parallelism, options={"pipeline.operator-chaining.enabled": "false"})
    groups: dict[int, str] = {}
    for node in p.builder.build():
        inherited = {groups[edge.source] for edge in node.inputs}
        default = inherited.pop() if len(inherited) == 1 else "default"
        groups[node.id] = node.slot_sharing_group or default
    hosts: dict[tuple[int, int], str] = {}
    for vertex, group in zip(plan.vertices, groups.values(), strict=True):
        for task in range(vertex.first_task, vertex.first_task + vertex.parallelism):
            assert hosts.setdefault((vertex.stage, task), group) == group


def test_a_keyed_edge_is_always_an_exchange(new_program):
    p = new_program()
    p.reduce(p.source(), parallelism=1)
    plan = p.plan(parallelism=1)
    assert [type(edge.distribution) for edge in plan.edges] == [KeyGroups]
