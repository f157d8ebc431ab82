import pytest

from firesteel.common import Types
from firesteel.common.errors import ProgramError, UnsupportedOperationError
from firesteel.common.serialization import Encoder
from firesteel.contracts.functions import Partitioner, ProcessFunction
from firesteel.contracts.sink import DiscardingSink
from firesteel.datastream import OutputTag, StreamExecutionEnvironment
from firesteel.datastream.connectors import FileSink
from firesteel.graph.names import operator_name
from firesteel.graph.stream_graph import Chaining
from firesteel.plan.exchange import (
    Auto,
    Broadcast,
    Custom,
    Forward,
    Global,
    KeyGroups,
    Rebalance,
    Rescale,
    Shuffle,
)
from firesteel.plan.operator_specs import (
    FilterSpec,
    FlatMapSpec,
    MapSpec,
    PrintSpec,
    ProcessSpec,
    SinkSpec,
)


class Splitter(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.fixture
def numbers(env):
    return env.from_collection([1, 2, 3], Types.INT())


# Operators


def test_map_adds_a_node_that_reads_the_stream(numbers, node_of):
    node = node_of(numbers.map(lambda x: x, output_type=Types.STRING()))
    assert isinstance(node.spec, MapSpec)
    assert node.name == "Map"
    assert node.output_type == Types.STRING()
    (edge,) = node.inputs
    assert (edge.source, edge.distribution, edge.side_output) == (node_of(numbers).id, Auto(), None)


def test_map_without_output_type_is_untyped(numbers, node_of):
    mapped = numbers.map(lambda x: x)
    assert node_of(mapped).output_type is None
    assert mapped.get_type() == Types.PICKLED_BYTE_ARRAY()


def test_pickled_output_type_means_untyped(numbers, node_of):
    assert node_of(numbers.map(str, Types.PICKLED_BYTE_ARRAY())).output_type is None


def test_output_type_must_be_a_type(numbers):
    with pytest.raises(
        TypeError, match=r"map\(\) needs a TypeInformation such as Types.INT\(\), got <class 'int'>"
    ):
        numbers.map(str, output_type=int)


def test_filter_keeps_the_type(numbers, node_of):
    kept = numbers.filter(lambda x: x > 1)
    assert isinstance(node_of(kept).spec, FilterSpec)
    assert kept.get_type() == Types.INT()


def test_flat_map_and_process_add_their_specs(numbers, node_of):
    assert isinstance(node_of(numbers.flat_map(lambda x: [x])).spec, FlatMapSpec)
    assert isinstance(node_of(numbers.process(Splitter())).spec, ProcessSpec)


def test_returns_declares_the_type_afterwards(numbers, node_of):
    stream = numbers.map(str).returns(Types.STRING())
    assert stream.get_type() == node_of(stream).output_type == Types.STRING()


def test_project_takes_fields_in_order_with_their_types(env, node_of):
    stream = env.from_collection([(1, "a", 2.0)], Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE()]))
    projected = stream.project(2, 0)
    assert projected.get_type() == Types.TUPLE([Types.DOUBLE(), Types.INT()])
    assert node_of(projected).spec.function.load()((1, "a", 2.0)) == (2.0, 1)


def test_project_of_one_field_is_a_tuple(env, node_of):
    projected = env.from_collection([(1, "a")]).project(1)
    assert node_of(projected).spec.function.load()((1, "a")) == ("a",)


def test_project_refuses_other_types_and_fields_that_are_not_there(env, numbers):
    with pytest.raises(
        UnsupportedOperationError, match="project\\(\\) needs a stream of tuples, this one has Integer"
    ):
        numbers.project(0)
    with pytest.raises(ProgramError, match=r"project\(1\): no field 1 in .*; it has fields 0 to 0"):
        env.from_collection([(1,)], Types.TUPLE([Types.INT()])).project(1)


# Distribution


@pytest.mark.parametrize(
    ("method", "distribution"),
    [
        ("forward", Forward()),
        ("rebalance", Rebalance()),
        ("rescale", Rescale()),
        ("shuffle", Shuffle()),
        ("broadcast", Broadcast()),
        ("global_", Global()),
    ],
)
def test_distribution_is_on_the_edge_to_the_next_operator(numbers, node_of, method, distribution):
    stream = getattr(numbers, method)()
    assert stream.get_type() == Types.INT()
    assert node_of(stream.map(str)).inputs[0].distribution == distribution


def test_the_last_distribution_wins(numbers, node_of):
    assert node_of(numbers.rebalance().shuffle().map(str)).inputs[0].distribution == Shuffle()
    assert isinstance(
        node_of(numbers.rebalance().key_by(lambda x: x).map(str)).inputs[0].distribution, KeyGroups
    )


def test_partition_custom_ships_partitioner_and_selector(numbers, node_of):
    class Modulo(Partitioner):
        def partition(self, key, num_partitions):
            return key % num_partitions

    distribution = (
        node_of(numbers.partition_custom(Modulo(), lambda x: x + 1).map(str)).inputs[0].distribution
    )
    assert isinstance(distribution, Custom)
    assert distribution.partitioner.load().partition(5, 3) == 2
    assert distribution.selector.load().selector(1) == 2


def test_partition_custom_refuses_what_cannot_be_called(numbers):
    with pytest.raises(
        TypeError, match=r"partition_custom\(\) needs a Partitioner or a function of 2 values"
    ):
        numbers.partition_custom(3, lambda x: x)
    with pytest.raises(TypeError, match=r"partition_custom\(\) needs a KeySelector"):
        numbers.partition_custom(lambda k, n: 0, 3.5)


def test_setters_are_refused_on_a_stream_that_is_only_redistributed(numbers):
    with pytest.raises(UnsupportedOperationError, match=r"name\(\): this stream only says how .*REBALANCE"):
        numbers.rebalance().name("x")


# Union


def test_union_adds_no_node_and_reads_all(env, numbers, node_of):
    other = env.from_collection([4], Types.INT())
    before = len(env._graph)
    united = numbers.union(other.shuffle(), numbers)
    assert len(env._graph) == before
    edges = node_of(united.map(str)).inputs
    assert [edge.source for edge in edges] == [node_of(numbers).id, node_of(other).id, node_of(numbers).id]
    assert [edge.distribution for edge in edges] == [Auto(), Shuffle(), Auto()]
    assert {edge.input_index for edge in edges} == {0}


def test_union_of_different_types_is_refused(env, numbers):
    with pytest.raises(ProgramError, match="one type, got Integer and String"):
        numbers.union(env.from_collection(["a"], Types.STRING()))


def test_union_with_an_untyped_stream_is_untyped(env, numbers):
    assert numbers.union(env.from_collection([4])).get_type() == Types.PICKLED_BYTE_ARRAY()


def test_union_needs_streams_of_the_same_environment(numbers):
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(ProgramError, match="streams of one environment"):
        numbers.union(other)
    with pytest.raises(TypeError, match=r"union\(\) needs another DataStream, got 1"):
        numbers.union(1)
    with pytest.raises(ProgramError, match="at least one other"):
        numbers.union()


def test_union_is_no_operator(numbers):
    with pytest.raises(UnsupportedOperationError, match="a union is no operator"):
        numbers.union(numbers).set_parallelism(2)


# Side outputs


def test_side_output_is_read_by_an_edge_of_that_name(numbers, node_of):
    main = numbers.process(Splitter())
    side = main.get_side_output(OutputTag("late", Types.STRING()))
    assert side.get_type() == Types.STRING()
    assert node_of(main).side_types == {"late": Types.STRING()}
    (edge,) = node_of(side.map(str)).inputs
    assert (edge.source, edge.side_output) == (node_of(main).id, "late")


def test_side_output_has_one_type(numbers):
    main = numbers.process(Splitter())
    main.get_side_output(OutputTag("late", Types.STRING()))
    with pytest.raises(ProgramError, match=r"'late' of 'Process' was declared as String and now as Integer"):
        main.get_side_output(OutputTag("late", Types.INT()))
    assert main.get_side_output(OutputTag("late")).get_type() == Types.STRING()


def test_the_same_tag_on_two_operators_does_not_mix(numbers, node_of):
    tag = OutputTag("late")
    first, second = numbers.process(Splitter()), numbers.process(Splitter())
    assert node_of(first.get_side_output(tag).map(str)).inputs[0].source == node_of(first).id
    assert node_of(second.get_side_output(tag).map(str)).inputs[0].source == node_of(second).id


def test_a_side_output_that_is_configured_gets_a_node(env, numbers, node_of):
    main = numbers.process(Splitter())
    side = main.get_side_output(OutputTag("late", Types.INT())).name("Late").set_parallelism(3)
    node = node_of(side)
    assert (node.name, node.parallelism, node.output_type) == ("Late", 3, Types.INT())
    assert node.inputs[0].side_output == "late"
    assert node.spec.function.load()(7) == 7


def test_side_output_of_a_redistributed_stream_is_refused(numbers):
    with pytest.raises(UnsupportedOperationError, match="get_side_output"):
        numbers.rebalance().get_side_output(OutputTag("late"))


def test_side_output_needs_a_tag(numbers):
    with pytest.raises(TypeError, match="needs an OutputTag, got 'late'"):
        numbers.get_side_output("late")


# Sinks


def test_print_knows_the_type_it_prints(numbers, node_of):
    node = node_of(numbers.print("id"))
    assert node.spec == PrintSpec("id", False, Types.INT())
    assert node_of(numbers.print_to_err()).spec == PrintSpec("", True, Types.INT())


def test_add_sink_ships_the_sink_function(numbers, node_of):
    sink = numbers.add_sink(DiscardingSink()).name("Nowhere").set_parallelism(2).uid("sink")
    node = node_of(sink)
    assert isinstance(node.spec, SinkSpec)
    assert (node.name, node.parallelism, node.uid) == ("Nowhere", 2, "sink")


def test_sinks_without_a_name_are_called_like_their_class(numbers, node_of, tmp_path):
    class _Alarms(DiscardingSink):
        pass

    files = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    sinks = [numbers.add_sink(DiscardingSink()), numbers.add_sink(_Alarms()), numbers.sink_to(files)]
    sinks += [numbers.print(), numbers.print_to_err("x")]
    assert [operator_name(node_of(sink)) for sink in sinks] == [
        "Sink: DiscardingSink",
        "Sink: Alarms",
        "Sink: FileSink",
        "Sink: Print to Std. Out",
        "Sink: Print to Std. Err",
    ]


def test_add_sink_needs_a_sink_function(numbers):
    with pytest.raises(TypeError, match=r"add_sink\(\) needs a SinkFunction"):
        numbers.add_sink(lambda x: None)


# Settings


def test_settings_are_kept_in_the_node(numbers, node_of):
    stream = (
        numbers.map(str)
        .name("Text")
        .uid("text")
        .set_uid_hash("0123456789ABCDEF" * 2)
        .set_parallelism(3)
        .set_max_parallelism(64)
        .set_buffer_timeout(5)
        .set_description("to text")
        .start_new_chain()
        .slot_sharing_group("heavy")
    )
    node = node_of(stream)
    assert stream.get_name() == node.name == "Text"
    assert (node.uid, node.uid_hash) == ("text", "0123456789abcdef" * 2)
    assert (node.parallelism, node.max_parallelism, node.buffer_timeout_ms) == (3, 64, 5)
    assert (node.description, node.chaining, node.slot_sharing_group) == ("to text", Chaining.HEAD, "heavy")
    assert node_of(stream.disable_chaining()).chaining is Chaining.NEVER


def test_buffer_timeout_of_minus_one_means_the_environments(numbers, node_of):
    assert node_of(numbers.map(str).set_buffer_timeout(5).set_buffer_timeout(-1)).buffer_timeout_ms is None


@pytest.mark.parametrize("parallelism", [0, -1, 32769])
def test_parallelism_out_of_range_is_refused(numbers, parallelism):
    with pytest.raises(ProgramError, match=f"from 1 to 32768, got {parallelism}"):
        numbers.map(str).set_parallelism(parallelism)


@pytest.mark.parametrize("parallelism", ["2", 1.5, True, None])
def test_parallelism_must_be_a_number(numbers, parallelism):
    with pytest.raises(TypeError, match="needs a whole number"):
        numbers.map(str).set_parallelism(parallelism)


def test_force_non_parallel_fixes_the_parallelism(numbers, node_of):
    stream = numbers.map(str).force_non_parallel()
    assert (node_of(stream).parallelism, node_of(stream).fixed_parallelism) == (1, True)
    with pytest.raises(UnsupportedOperationError, match="'Map' cannot be parallel"):
        stream.set_parallelism(2)


@pytest.mark.parametrize("bad", ["", None, 3])
def test_names_must_be_text(numbers, bad):
    with pytest.raises(TypeError, match=r"name\(\) needs a text"):
        numbers.map(str).name(bad)
    with pytest.raises(TypeError, match="32 hexadecimal digits"):
        numbers.map(str).set_uid_hash(bad)


# Not there yet


def test_what_is_missing_says_so_where_it_is_asked_for(env, numbers):
    with pytest.raises(NotImplementedError, match=r"keeping results.* not part of this version"):
        numbers.cache()
