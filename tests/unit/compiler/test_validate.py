import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, ProgramError
from firesteel.compiler.compile import compile_job
from firesteel.graph.stream_graph import Edge, StreamGraph
from firesteel.plan.exchange import Auto, Broadcast, Forward, KeyGroups, Rebalance
from firesteel.plan.operator_specs import MapSpec, PrintSpec, RuntimeMode
from firesteel.plan.shipped import Shipped


@pytest.fixture
def p(new_program):
    return new_program()


OTHER_KEY = Shipped(b"other", "lambda at job.py:99")


def refused(p, message, **options):
    with pytest.raises(ProgramError, match=message):
        p.plan(**options)


def test_an_empty_program_is_refused():
    with pytest.raises(ProgramError, match=r"no steps to execute; .*from_collection"):
        compile_job(StreamGraph(()), Configuration(), "job")


def test_a_step_without_input_is_refused(p):
    p.builder.add("Map", MapSpec(p.key))
    refused(p, r"step 'Map' \(lambda at job.py:8\) has no input")


def test_reading_from_a_sink_is_refused(p):
    p.map(p.print(p.source()))
    refused(p, "reads from step 'Sink: Print', but sinks have no output")


def test_a_source_with_an_input_is_refused(p):
    first = p.source("a")
    second = p.source("b")
    p.builder.change(second, inputs=(Edge(first, Auto()),))
    refused(p, "step 'Source: b' .* cannot read from another step")


def test_a_stream_of_another_program_is_refused(p, new_program):
    elsewhere = p.map(p.source())
    other = new_program()
    other.builder.add("Print", PrintSpec(), (Edge(elsewhere, Auto()),))
    with pytest.raises(ProgramError, match="streams of different environments"):
        compile_job(StreamGraph((other.builder[1],)), Configuration(), "job")


def test_forward_between_different_parallelisms_is_refused(p):
    p.map(p.source(parallelism=2), by=Forward(), parallelism=3)
    refused(p, r"forward\(\) from step 'Source: numbers' .* 2 to step 'Map' .* 3: .* use rebalance\(\)")


def test_a_uid_used_twice_is_refused(p):
    p.map(p.source(uid="same"), uid="same")
    refused(p, "step 'Map' .*'same'.* has the same uid as step 'Source: numbers'")


def test_a_uid_hash_of_another_form_is_refused(p):
    p.source(uid_hash="abc")
    refused(p, "32 hexadecimal digits, got 'abc'")


def test_a_uid_hash_used_twice_is_refused(p):
    p.map(p.source(uid_hash="a" * 32), uid_hash="A" * 32)
    refused(p, "have the same operator id")


def test_generated_uids_can_be_switched_off(p):
    p.map(p.source(uid="numbers"))
    refused(p, r"step 'Map' .* has no uid .* call uid\('...'\)", **{"pipeline.auto-generate-uids": "false"})


def test_parallelism_above_max_parallelism_is_refused(p):
    p.map(p.source(), parallelism=4, max_parallelism=3)
    refused(p, "step 'Map' .* parallelism 4 but max parallelism 3; lower the first")


@pytest.mark.parametrize(
    ("name", "value"), [("parallelism", 0), ("max_parallelism", 0), ("max_parallelism", 32769)]
)
def test_values_out_of_range_are_refused(p, name, value):
    p.map(p.source(), **{name: value})
    refused(p, f"step 'Map' .* has {name.replace('_', ' ')} {value}")


@pytest.mark.parametrize("key", ["parallelism.default", "pipeline.max-parallelism"])
def test_options_out_of_range_are_refused(p, key):
    p.source()
    with pytest.raises(InvalidOptionError, match=f"'{key}'"):
        p.plan(**{key: 0})


def test_a_non_parallel_source_with_more_subtasks_is_refused(p):
    p.source(limit=1, parallelism=2)
    refused(p, r"parallelism 2, but its source can be read by at most 1 subtask; use set_parallelism\(1\)")


def test_a_keyed_step_with_an_unkeyed_input_is_refused(p):
    first, second = p.source("a"), p.source("b")
    p.connect(Edge(first, KeyGroups(p.key), 0), Edge(second, Auto(), 1), key_selectors=(p.key, None))
    refused(p, r"step 'Co-Map' .* is keyed, but its input 2 is not; call key_by\(\) on both")


def test_a_keyed_step_with_a_broadcast_input_is_fine(p):
    first, second = p.source("a"), p.source("b")
    p.connect(Edge(first, KeyGroups(p.key), 0), Edge(second, Broadcast(), 1), key_selectors=(p.key, None))
    assert len(p.plan().stages) == 2


def test_a_union_keyed_by_different_selectors_is_refused(p):
    first, second = p.source("a"), p.source("b")
    edges = (Edge(first, KeyGroups(p.key)), Edge(second, KeyGroups(OTHER_KEY)))
    p.builder.add("Map", MapSpec(p.key), edges, key_selectors=(p.key,))
    refused(p, "keyed by lambda at job.py:8, but input 1 is partitioned by lambda at job.py:99")


def test_the_inputs_of_a_keyed_connect_may_have_different_selectors(p):
    first, second = p.source("a"), p.source("b")
    selectors = (p.key, OTHER_KEY)
    p.connect(
        Edge(first, KeyGroups(p.key), 0), Edge(second, KeyGroups(OTHER_KEY), 1), key_selectors=selectors
    )
    assert p.plan().vertices[2].operators[0].key_selectors == selectors


def test_a_keyed_step_behind_another_distribution_is_refused(p):
    p.map(p.source(), by=Rebalance(), key_selectors=(p.key,))
    refused(p, "keyed by lambda at job.py:8, but input 1 is distributed by REBALANCE")


def test_batch_mode_with_an_endless_source_is_refused(p):
    p.source(bounded=False)
    refused(p, r"'Source: numbers' .* never ends, .*BATCH", **{"execution.runtime-mode": "BATCH"})


@pytest.mark.parametrize(
    ("asked", "bounded", "expected"),
    [
        ("STREAMING", True, RuntimeMode.STREAMING),
        ("BATCH", True, RuntimeMode.BATCH),
        ("AUTOMATIC", True, RuntimeMode.BATCH),
        ("AUTOMATIC", False, RuntimeMode.STREAMING),
        (None, True, RuntimeMode.STREAMING),
    ],
)
def test_the_mode_is_chosen_by_option_and_boundedness(p, asked, bounded, expected):
    p.source("a")
    p.source("b", bounded=bounded)
    assert p.plan(options={} if asked is None else {"execution.runtime-mode": asked}).mode is expected
