from typing import NamedTuple

import pytest

from firesteel.common import Row, Types
from firesteel.common.errors import InvalidKeyError, ProgramError, UnsupportedOperationError
from firesteel.contracts.functions import KeyedProcessFunction, KeySelector
from firesteel.contracts.sink import DiscardingSink
from firesteel.datastream import KeyedStream, OutputTag
from firesteel.plan.exchange import KeyGroups, Shuffle
from firesteel.plan.operator_specs import MapSpec, ProcessSpec, ReduceSpec

PERSON = Types.ROW_NAMED(
    ["name", "born", "tags"],
    [Types.STRING(), Types.TUPLE([Types.INT(), Types.INT()]), Types.MAP(Types.STRING(), Types.STRING())],
)
ALICE = Row(name="Alice", born=(1970, 3), tags={"city": "Oslo"})


@pytest.fixture
def people(env):
    return env.from_collection([ALICE], PERSON)


@pytest.fixture
def anything(env):
    return env.from_collection([1])


def selector_of(node_of, keyed):
    (edge,) = node_of(keyed.map(lambda x: x)).inputs
    return edge.distribution.selector.load().selector


def test_keyed_operators_are_partitioned_by_the_key_and_know_it(anything, node_of):
    node = node_of(anything.key_by(lambda x: x % 2).map(str))
    (edge,) = node.inputs
    assert isinstance(edge.distribution, KeyGroups)
    assert node.key_selectors == (edge.distribution.selector,)
    assert edge.distribution.selector.load().selector(5) == 1


def test_key_by_adds_no_node(env, anything):
    before = len(env._graph)
    anything.key_by(lambda x: x)
    assert len(env._graph) == before


# Ways to say the key


class Point(NamedTuple):
    x: int
    y: int


class Thing:
    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("keys", "record", "expected"),
    [
        ((0,), ("a", 1), "a"),
        ((1,), [5, 6], 6),
        ((0,), Row("r", 1), "r"),
        (("1",), ("a", 1), 1),
        (("f1",), ("a", 1), 1),
        (("_1",), ("a", 1), "a"),
        (("name",), {"name": "n"}, "n"),
        (("name",), Row(name="n"), "n"),
        (("name",), Thing(name="n"), "n"),
        (("y",), Point(1, 2), 2),
        (("a.b.c",), {"a": Thing(b=Row(c=3))}, 3),
        (("f0.x",), (Point(4, 5),), 4),
        (("a.1",), {"a": (7, 8)}, 8),
        (("*",), (1, 2), (1, 2)),
        (("_",), "whole", "whole"),
        (("a.*",), {"a": (7, 8)}, (7, 8)),
        ((0, 2), ("a", 1, "c"), ("a", "c")),
        (("a", "b"), {"a": 1, "b": 2}, (1, 2)),
        ((0, lambda v: v[1] * 10), ("a", 1), ("a", 10)),
        (([0, 1],), ("a", 1, 2), ("a", 1)),
    ],
)
def test_keys_of_untyped_records(anything, node_of, keys, record, expected):
    assert selector_of(node_of, anything.key_by(*keys))(record) == expected


@pytest.mark.parametrize(
    ("key", "expected", "key_type"),
    [
        ("name", "Alice", Types.STRING()),
        (0, "Alice", Types.STRING()),
        ("born.f1", 3, Types.INT()),
        ("born", (1970, 3), Types.TUPLE([Types.INT(), Types.INT()])),
        ("tags.city", "Oslo", Types.PICKLED_BYTE_ARRAY()),
    ],
)
def test_keys_of_typed_records_have_a_type(people, node_of, key, expected, key_type):
    keyed = people.key_by(key)
    assert selector_of(node_of, keyed)(ALICE) == expected
    assert keyed.get_key_type() == key_type


def test_composite_key_of_typed_records_is_a_typed_tuple(people, node_of):
    keyed = people.key_by("name", "born.0")
    assert selector_of(node_of, keyed)(ALICE) == ("Alice", 1970)
    assert keyed.get_key_type() == Types.TUPLE([Types.STRING(), Types.INT()])


def test_positions_and_names_that_do_not_exist_are_refused(people, env):
    with pytest.raises(
        ProgramError, match=r"key_by\('agee'\): no field 'agee' in .*; it has name, born, tags"
    ):
        people.key_by("agee")
    with pytest.raises(ProgramError, match=r"key_by\(3\): no field 3 in RowTypeInfo"):
        people.key_by(3)
    with pytest.raises(ProgramError, match=r"key_by\('born.f2'\): no field 'f2' .* fields 0 to 1"):
        people.key_by("born.f2")
    numbers = env.from_collection([1], Types.INT())
    with pytest.raises(
        ProgramError, match=r"key_by\(0\): Integer has no fields; use '\*' for the whole value"
    ):
        numbers.key_by(0)
    with pytest.raises(ProgramError, match="which has no fields"):
        numbers.key_by("a")


@pytest.mark.parametrize("bad", ["", "a..b", ".a", "a."])
def test_malformed_expressions_are_refused(anything, bad):
    with pytest.raises(ProgramError, match="is not a field"):
        anything.key_by(bad)


@pytest.mark.parametrize("bad", [3.5, None, True, {"a": 1}])
def test_other_objects_are_refused_as_keys(anything, bad):
    with pytest.raises(
        TypeError, match=r"key_by\(\) needs a KeySelector, a function of one value, a field position"
    ):
        anything.key_by(bad)


def test_lists_and_maps_may_be_keys_but_arrays_not(people, anything):
    assert people.key_by("tags").get_key_type() == Types.MAP(Types.STRING(), Types.STRING())
    listed = anything.key_by(lambda x: [x], key_type=Types.LIST(Types.INT()))
    assert listed.get_key_type() == Types.LIST(Types.INT())
    for array in (Types.BASIC_ARRAY, Types.PRIMITIVE_ARRAY, Types.OBJECT_ARRAY):
        with pytest.raises(InvalidKeyError, match="cannot be the type of keys"):
            anything.key_by(lambda x: [x], key_type=array(Types.INT()))


def test_key_selector_objects_are_shipped_as_they_are(anything, node_of):
    class Half(KeySelector):
        def get_key(self, value):
            return value // 2

    assert selector_of(node_of, anything.key_by(Half())).get_key(9) == 4
    assert selector_of(node_of, anything.key_by(Half(), "*")).get_key(9) == (4, 9)


@pytest.mark.parametrize("wrong", [int, str, tuple, "int", 3, [int]])
def test_a_key_type_that_is_none_is_refused_like_an_output_type(anything, wrong):
    with pytest.raises(TypeError, match=r"^map\(\) needs a TypeInformation such as Types.INT\(\), got "):
        anything.map(lambda x: x, output_type=wrong)
    with pytest.raises(TypeError, match=r"^key_by\(\) needs a TypeInformation such as Types.INT\(\), got "):
        anything.key_by(lambda x: x, key_type=wrong)


@pytest.mark.parametrize("wrong", [int, str, tuple])
def test_a_class_of_python_as_the_second_argument_is_no_second_key(anything, wrong):
    message = rf"key_by\(\) needs a TypeInformation such as Types.INT\(\), got <class '{wrong.__name__}'>.*lambda value"
    with pytest.raises(TypeError, match=message):
        anything.key_by(lambda x: x, wrong)
    anything.key_by(wrong)  # alone it is a function of the record
    anything.key_by(lambda x: x, len)


def test_a_key_type_that_a_declared_field_cannot_have_is_refused_at_once(people):
    with pytest.raises(TypeError, match=r"^key_by\(\) needs a key type for values of String, .* got Integer"):
        people.key_by("name", key_type=Types.INT())
    with pytest.raises(TypeError, match=r"^key_by\(\) needs a key type for values of Integer, .* got String"):
        people.key_by("born.0", Types.STRING())
    assert people.key_by("born.0", Types.DOUBLE()).get_key_type() == Types.DOUBLE()


def test_key_type_may_be_second_argument_or_named(anything):
    assert anything.key_by(lambda x: x, Types.INT()).get_key_type() == Types.INT()
    assert anything.key_by(lambda x: x, key_type=Types.INT()).get_key_type() == Types.INT()
    assert anything.key_by(key_selector=lambda x: x, key_type=Types.INT()).get_key_type() == Types.INT()


def test_field_keys_are_named_in_messages(anything, node_of):
    (edge,) = node_of(anything.key_by("a", 1).map(str)).inputs
    assert edge.distribution.selector.description == "key field 'a', 1"


def test_key_by_again_starts_from_the_original_stream(anything, node_of):
    keyed = anything.key_by(lambda x: x).key_by(lambda x: -x)
    assert isinstance(keyed, KeyedStream)
    assert selector_of(node_of, keyed)(3) == -3


# Operators


def test_process_reduce_and_filter_on_keys(people, node_of):
    class Process(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.get_current_key()

    keyed = people.key_by("name")
    assert isinstance(node_of(keyed.process(Process(), Types.STRING())).spec, ProcessSpec)
    reduced = keyed.reduce(lambda a, b: a)
    assert isinstance(node_of(reduced).spec, ReduceSpec)
    assert reduced.get_type() == keyed.filter(lambda x: True).get_type() == PERSON
    assert node_of(keyed.filter(lambda x: True)).key_selectors


def test_rolling_aggregates_become_reduce_with_a_position(env, node_of):
    pair = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.INT()])
    keyed = env.from_collection([("a", 1)], pair).key_by(0)
    node = node_of(keyed.sum("value"))
    assert (node.name, node.spec.function.description, node.output_type) == ("Sum", "sum('value')", pair)
    assert node.spec.function.load().field == 1
    assert node_of(keyed.max_by("value", first=False)).name == "Max By"


def test_rolling_aggregates_refuse_fields_that_are_not_there(env):
    keyed = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()])).key_by(0)
    with pytest.raises(ProgramError, match=r"sum\(2\): no field 2"):
        keyed.sum(2)
    with pytest.raises(TypeError, match=r"a field position or name, got 1\.5"):
        keyed.min(1.5)
    numbers = env.from_collection([1], Types.INT()).key_by("*")
    numbers.sum()
    with pytest.raises(ProgramError, match="no field 1 in Integer"):
        numbers.sum(1)


def test_sinks_print_and_union_follow_the_key(people, node_of):
    keyed = people.key_by("name")
    for sink in (keyed.print("id"), keyed.add_sink(DiscardingSink())):
        assert isinstance(node_of(sink).inputs[0].distribution, KeyGroups)
    assert node_of(keyed.print("id")).spec.identifier == "id"
    united = node_of(keyed.union(people.shuffle()).map(str))
    assert [type(edge.distribution) for edge in united.inputs] == [KeyGroups, Shuffle]
    assert united.key_selectors == ()


def test_collecting_a_keyed_stream_gives_rows_of_key_and_value(people, node_of):
    collected = people.key_by("name")._collected()
    node = node_of(collected)
    assert isinstance(node.spec, MapSpec)
    function = node.spec.function.load()
    function.open(None)
    assert function.map(ALICE) == Row(f0="Alice", f1=ALICE)
    assert collected.get_type() == Types.ROW([Types.STRING(), PERSON])


# What it refuses


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("name", ("x",)),
        ("get_name", ()),
        ("uid", ("x",)),
        ("set_uid_hash", ("0" * 32,)),
        ("set_parallelism", (2,)),
        ("set_max_parallelism", (2,)),
        ("force_non_parallel", ()),
        ("set_buffer_timeout", (1,)),
        ("start_new_chain", ()),
        ("disable_chaining", ()),
        ("slot_sharing_group", ("x",)),
        ("set_description", ("x",)),
        ("cache", ()),
        ("returns", (Types.INT(),)),
        ("get_side_output", (OutputTag("x"),)),
    ],
)
def test_setters_are_refused(anything, method, arguments):
    with pytest.raises(UnsupportedOperationError, match=rf"{method}\(\) is not supported on a KeyedStream"):
        getattr(anything.key_by(lambda x: x), method)(*arguments)


@pytest.mark.parametrize("method", ["forward", "rebalance", "rescale", "shuffle", "global_", "broadcast"])
def test_partitioning_is_refused(anything, method):
    with pytest.raises(UnsupportedOperationError, match=rf"{method}\(\) cannot override the partitioning"):
        getattr(anything.key_by(lambda x: x), method)()


def test_custom_partitioning_is_refused(anything):
    with pytest.raises(UnsupportedOperationError, match="cannot override the partitioning"):
        anything.key_by(lambda x: x).partition_custom(lambda k, n: 0, lambda x: x)
