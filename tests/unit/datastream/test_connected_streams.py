import pytest

from firesteel.common import Types
from firesteel.common.errors import ProgramError
from firesteel.contracts.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from firesteel.contracts.state import MapStateDescriptor
from firesteel.datastream import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from firesteel.plan.exchange import Auto, Broadcast, KeyGroups
from firesteel.plan.operator_specs import CoFlatMapSpec, CoMapSpec, CoProcessSpec


class CoMap(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


class CoFlatMap(CoFlatMapFunction):
    def flat_map1(self, value):
        yield value

    def flat_map2(self, value):
        yield value


class CoProcess(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    def process_element2(self, value, ctx):
        yield value


class KeyedCoProcess(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    def process_element2(self, value, ctx):
        yield value


@pytest.fixture
def left(env):
    return env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))


@pytest.fixture
def right(env):
    return env.from_collection([("x", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))


def test_the_stream_connect_is_called_on_is_input_one(left, right, node_of):
    node = node_of(left.connect(right).map(CoMap(), Types.INT()))
    assert isinstance(node.spec, CoMapSpec)
    assert [(edge.source, edge.input_index) for edge in node.inputs] == [
        (node_of(left).id, 0),
        (node_of(right).id, 1),
    ]
    assert (node.name, node.output_type, node.key_selectors) == ("Co-Map", Types.INT(), ())


def test_flat_map_and_process_add_their_specs(left, right, node_of):
    connected = left.connect(right)
    assert isinstance(node_of(connected.flat_map(CoFlatMap())).spec, CoFlatMapSpec)
    assert isinstance(node_of(connected.process(CoProcess())).spec, CoProcessSpec)


def test_a_union_as_an_input_keeps_its_input_index(left, right, node_of):
    node = node_of(left.connect(right.union(right)).map(CoMap()))
    assert [edge.input_index for edge in node.inputs] == [0, 1, 1]


def test_key_by_after_and_before_connect_mean_the_same(left, right, node_of):
    after = node_of(left.connect(right).key_by(0, 1).process(KeyedCoProcess()))
    before = node_of(left.key_by(0).connect(right.key_by(1)).process(KeyedCoProcess()))
    for node in (after, before):
        assert all(isinstance(edge.distribution, KeyGroups) for edge in node.inputs)
        assert [selector.load().selector((7, 8)) for selector in node.key_selectors] == [7, 8]
        assert node.name == "Keyed Co-Process"


def test_key_by_replaces_earlier_keys(left, right, node_of):
    connected = left.key_by(1).connect(right.key_by(0)).key_by(0, 1)
    assert [s.load().selector((7, 8)) for s in node_of(connected.map(CoMap())).key_selectors] == [7, 8]


def test_composite_keys_are_lists(left, right, node_of):
    node = node_of(left.connect(right).key_by([0, 1], [1, 0]).map(CoMap()))
    assert [selector.load().selector((7, 8)) for selector in node.key_selectors] == [(7, 8), (8, 7)]


def test_keys_of_different_types_never_meet(left, right):
    with pytest.raises(ProgramError, match="keys of one type, got Integer and String"):
        left.key_by(0).connect(right.key_by(0))


def test_a_keyed_stream_with_a_broadcast_one(left, right, node_of):
    node = node_of(left.key_by(0).connect(right.broadcast()).process(CoProcess()))
    assert [type(edge.distribution) for edge in node.inputs] == [KeyGroups, Broadcast]
    assert node.key_selectors == ()


@pytest.mark.parametrize("first_keyed", [True, False])
def test_keyed_function_with_keys_on_one_side_is_refused(left, right, first_keyed):
    streams = (left.key_by(0), right.broadcast()) if first_keyed else (left, right.key_by(0))
    missing = "second" if first_keyed else "first"
    with pytest.raises(
        TypeError,
        match=rf"the {missing} stream have no key.*broadcast\(descriptor\).*KeyedBroadcastProcessFunction",
    ):
        streams[0].connect(streams[1]).process(KeyedCoProcess())


def test_keyed_function_without_keys_is_refused(left, right):
    with pytest.raises(TypeError, match="without keys needs a CoProcessFunction, got class KeyedCoProcess"):
        left.connect(right).process(KeyedCoProcess())


def test_connect_needs_a_stream(left):
    with pytest.raises(TypeError, match=r"connect\(\) needs another DataStream"):
        left.connect([1])


def test_distribution_before_connect_is_kept(left, right, node_of):
    node = node_of(left.connect(right.broadcast()).map(CoMap()))
    assert [edge.distribution for edge in node.inputs] == [Auto(), Broadcast()]
    assert isinstance(left.connect(right), ConnectedStreams)


def test_broadcast_with_descriptors_is_a_broadcast_stream(left, right):
    descriptor = MapStateDescriptor("rules", Types.STRING(), Types.INT())
    stream = right.broadcast(descriptor)
    assert isinstance(stream, BroadcastStream)
    connected = left.connect(stream)
    assert isinstance(connected, BroadcastConnectedStream)
    assert connected.broadcast_state_descriptors == [descriptor]
    with pytest.raises(TypeError, match="needs a BroadcastProcessFunction, got None"):
        connected.process(None)


def test_broadcast_refuses_other_descriptors(right):
    with pytest.raises(TypeError, match=r"broadcast\(\) needs MapStateDescriptors, got 'rules'"):
        right.broadcast("rules")
