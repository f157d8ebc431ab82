import json

from firesteel.plan.exchange import Broadcast, Rebalance
from firesteel.plan.job_plan import EdgePlan, JobPlan, OperatorPlan, StagePlan, VertexPlan
from firesteel.plan.operator_specs import MapSpec, PrintSpec, RuntimeMode, SourceSpec
from firesteel.plan.render import to_dict, to_mermaid, to_text
from firesteel.plan.shipped import Shipped

F = Shipped(b"f", "lambda at job.py:1")


def vertex(number, name, stage, parallelism, *operators, first_task=0):
    return VertexPlan(number, name, stage, first_task, parallelism, 128, operators)


def plan() -> JobPlan:
    source = OperatorPlan("a" * 32, "Source: a", SourceSpec(F, True))
    chained = OperatorPlan("b" * 32, "Map", MapSpec(F), parent=0)
    vertices = (
        vertex(0, "Source: a -> Map", 0, 2, source, chained),
        vertex(1, 'Say "x" & <y>', 1, 1, OperatorPlan("c" * 32, "Map", MapSpec(F))),
        vertex(2, "Sink: Print", 2, 2, OperatorPlan("d" * 32, "Sink: Print", PrintSpec()), first_task=1),
    )
    edges = (
        EdgePlan(0, 0, 1, None, 1, 0, Rebalance()),
        EdgePlan(1, 1, 0, None, 2, 0, Rebalance()),
        EdgePlan(2, 0, 0, "late", 2, 1, Broadcast()),
    )
    stages = (StagePlan(0, 2, (0,)), StagePlan(1, 1, (1,)), StagePlan(2, 3, (2,)))
    return JobPlan("demo", RuntimeMode.STREAMING, stages, vertices, edges)


def test_text_shows_stages_vertices_edges_and_relays():
    assert to_text(plan()).splitlines() == [
        "demo: STREAMING, 3 stages, 6 slots (all stages at once)",
        "",
        "stage 0: 2 tasks",
        "  [0] Source: a -> Map  x2",
        "      -> [1] REBALANCE from Map",
        "      -> [2] BROADCAST from Source: a side output 'late' to input 2",
        "",
        "stage 1: 1 task",
        '  [1] Say "x" & <y>  x1',
        "      -> [2] REBALANCE to input 1",
        "  relay [0] -> [2]",
        "",
        "stage 2: 3 tasks",
        "  [2] Sink: Print  x2  on tasks 1-2",
    ]


def test_mermaid_frames_stages_and_escapes_names():
    assert to_mermaid(plan()).splitlines() == [
        "flowchart LR",
        '  subgraph stage0["stage 0: 2 tasks"]',
        '    v0["Source: a -&gt; Map<br/>x2"]',
        "  end",
        '  subgraph stage1["stage 1: 1 task"]',
        '    v1["Say &quot;x&quot; &amp; &lt;y&gt;<br/>x1"]',
        "  end",
        '  subgraph stage2["stage 2: 3 tasks"]',
        '    v2["Sink: Print<br/>x2"]',
        "  end",
        '  v0 -- "REBALANCE from Map" --> v1',
        '  v1 -- "REBALANCE to input 1" --> v2',
        "  v0 -- \"BROADCAST from Source: a side output 'late' to input 2\" --> v2",
    ]


def test_dict_is_ready_for_json():
    found = json.loads(json.dumps(to_dict(plan())))
    assert found["slots"] == 6
    assert found["vertices"][0]["operators"][1] == {
        "id": "b" * 32,
        "name": "Map",
        "kind": "Map",
        "function": "lambda at job.py:1",
        "parent": 0,
        "parent_tag": None,
    }
    assert found["edges"][2]["relayed_by"] == [1]
