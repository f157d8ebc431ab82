import json

from firesteel.graph.render import to_json, to_mermaid
from firesteel.graph.stream_graph import Edge, GraphBuilder, StreamGraph
from firesteel.plan.exchange import Auto, Broadcast, KeyGroups
from firesteel.plan.operator_specs import CoMapSpec, MapSpec, PrintSpec, SourceSpec
from firesteel.plan.shipped import Shipped

F = Shipped(b"f", "lambda at job.py:1")


def graph() -> StreamGraph:
    builder = GraphBuilder()
    words = builder.add("words", SourceSpec(F, True, 1))
    rules = builder.add("rules", SourceSpec(F, True))
    count = builder.add("Count", MapSpec(F), (Edge(words, KeyGroups(F)),), description="counts <words>")
    both = builder.add("Both", CoMapSpec(F), (Edge(count, Auto(), 0), Edge(rules, Broadcast(), 1)))
    builder.add("Print", PrintSpec(), (Edge(both, Auto(), 0, "late"),), parallelism=3)
    return builder.build()


def test_json_has_the_shape_of_flinks_execution_plan():
    nodes = json.loads(to_json(graph(), default_parallelism=4))["nodes"]
    assert nodes[0] == {
        "id": 1,
        "type": "Source: words",
        "pact": "Data Source",
        "contents": "Source: words",
        "parallelism": 1,
    }
    assert nodes[2] == {
        "id": 3,
        "type": "Count",
        "pact": "Operator",
        "contents": "counts <words>",
        "parallelism": 4,
        "predecessors": [{"id": 1, "ship_strategy": "HASH", "side": "second"}],
    }
    assert [edge["ship_strategy"] for edge in nodes[3]["predecessors"]] == ["FORWARD", "BROADCAST"]
    assert nodes[4]["pact"] == "Data Sink"
    assert nodes[4]["type"] == "Sink: Print"
    assert nodes[4]["predecessors"][0]["ship_strategy"] == "REBALANCE"


def test_mermaid_shows_steps_and_what_was_asked_for():
    assert to_mermaid(graph()) == (
        "flowchart LR\n"
        '  n1(["Source: words"])\n'
        '  n2(["Source: rules"])\n'
        '  n3["Count"]\n'
        '  n4["Both"]\n'
        '  n5(["Sink: Print"])\n'
        '  n1 -- "HASH" --> n3\n'
        "  n3 --> n4\n"
        '  n2 -- "BROADCAST" --> n4\n'
        "  n4 -- \"side output 'late'\" --> n5\n"
    )
