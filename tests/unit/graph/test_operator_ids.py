import re

import pytest

from firesteel.graph.operator_ids import id_of_uid, operator_ids
from firesteel.graph.stream_graph import Chaining, Edge, GraphBuilder
from firesteel.plan.exchange import Auto, Rebalance
from firesteel.plan.operator_specs import FilterSpec, MapSpec, PrintSpec, SourceSpec
from firesteel.plan.shipped import Shipped

F = Shipped(b"f", "lambda at job.py:1")
G = Shipped(b"g", "lambda at job.py:2")


class Ids:
    """A program with named steps; indexing gives the operator id of a step."""

    def __init__(self):
        self.builder = GraphBuilder()
        self.nodes = {}

    def add(self, label, spec, *sources, side=None, distribution=None, **settings):
        by = distribution or Auto()
        inputs = tuple(Edge(self.nodes[source], by, 0, side) for source in sources)
        self.nodes[label] = self.builder.add(settings.pop("name", label), spec, inputs, **settings)
        return self

    def __getitem__(self, label):
        return operator_ids(self.builder.build())[self.nodes[label]]


def program(**settings):
    ids = Ids().add("source", SourceSpec(F, True)).add("map", MapSpec(F), "source", **settings)
    return ids.add("print", PrintSpec(), "map")


def test_an_id_has_32_hexadecimal_digits():
    ids = program()
    assert all(re.fullmatch(r"[0-9a-f]{32}", ids[label]) for label in ids.nodes)


def test_ids_are_the_same_in_every_process():
    assert program()["print"] == "f47fdecc723c3fd82a1e3ca8e3a3385b"
    assert id_of_uid("counts") == "d66e9bf6a1b16a174ccbf8d7a49839c2"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"parallelism": 7},
        {"max_parallelism": 7},
        {"chaining": Chaining.NEVER},
        {"distribution": Rebalance()},
        {"description": "text"},
        {"slot_sharing_group": "green"},
    ],
)
def test_settings_do_not_change_ids(change):
    changed, plain = program(**change), program()
    assert [changed[label] for label in plain.nodes] == [plain[label] for label in plain.nodes]


def test_function_code_does_not_change_ids():
    changed = Ids().add("source", SourceSpec(G, False)).add("map", MapSpec(G), "source")
    assert changed["map"] == program()["map"]


def test_an_unrelated_step_changes_no_other_id():
    before = program()
    after = Ids().add("source", SourceSpec(F, True)).add("new filter", FilterSpec(F), "source")
    after.add("map", MapSpec(F), "source").add("new map", MapSpec(F), "new filter").add(
        "print", PrintSpec(), "map"
    )
    after.add("new print", PrintSpec(), "new map").add("new source", SourceSpec(F, True))
    assert {label: before[label] for label in before.nodes} == {label: after[label] for label in before.nodes}


def test_a_step_in_between_changes_what_follows_it():
    changed = Ids().add("source", SourceSpec(F, True)).add("filter", FilterSpec(F), "source")
    changed.add("map", MapSpec(F), "filter")
    assert changed["map"] != program()["map"]
    assert changed["source"] == program()["source"]


def test_a_uid_shields_what_follows_from_changes_before():
    one = Ids().add("source", SourceSpec(F, True)).add("map", MapSpec(F), "source", uid="kept")
    two = Ids().add("source", SourceSpec(F, True)).add("filter", FilterSpec(F), "source")
    two.add("map", MapSpec(F), "filter", uid="kept")
    for ids in (one, two):
        ids.add("print", PrintSpec(), "map")
    assert one["map"] == two["map"] == id_of_uid("kept")
    assert one["print"] == two["print"]


def test_a_uid_hash_is_taken_as_it_is():
    assert program(uid="u", uid_hash="0123456789abcdef" * 2)["map"] == "0123456789abcdef" * 2


def test_twins_are_told_apart_and_a_uid_on_one_leaves_the_other_alone():
    def twins(**settings):
        ids = Ids().add("source", SourceSpec(F, True)).add("first", MapSpec(F), "source", **settings)
        return ids.add("second", MapSpec(F), "source")

    assert twins()["first"] != twins()["second"]
    assert twins(uid="u")["second"] == twins()["second"]


def test_a_side_output_is_another_input():
    side = Ids().add("source", SourceSpec(F, True)).add("map", MapSpec(F), "source", side="late")
    assert side["map"] != program()["map"]
