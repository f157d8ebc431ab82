import pytest

from firesteel.common import Types
from firesteel.datastream import OutputSelector


class ByParity(OutputSelector):
    def open(self, runtime_context):
        self.names = ["even", "odd"]

    def select(self, value):
        return [self.names[value % 2], "all"]


def outputs(function, value):
    function.open(None)
    return [(tag.tag_id, found) for tag, found in function.process_element(value, None)]


def test_each_selection_is_a_side_output_of_one_operator(env, node_of):
    split = env.from_collection([1, 2], Types.INT()).split(lambda n: ["even"] if n % 2 == 0 else ["odd"])
    even, odd = split.select("even"), split.select("odd")
    edges = [node_of(stream.map(str)).inputs[0] for stream in (even, odd)]
    assert edges[0].source == edges[1].source
    assert [edge.side_output for edge in edges] == ["even", "odd"]
    assert even.get_type() == Types.INT()


def test_records_go_to_no_one_or_several_outputs_each_once(env):
    split = env.from_collection([1]).split(lambda n: ["a", "b"][:n])
    for names in (("a",), ("b",), ("a", "b")):
        split.select(*names)
    function = env._graph[split._stream._operator("test")].spec.function.load()
    assert outputs(function, 0) == []
    assert outputs(function, 1) == [("a", 1), ("a,b", 1)]
    assert outputs(function, 2) == [("a", 2), ("b", 2), ("a,b", 2)]


def test_a_single_name_may_come_as_text_and_the_selector_as_object(env):
    split = env.from_collection([1]).split(ByParity())
    split.select("odd")
    split.select("all")
    function = env._graph[split._stream._operator("test")].spec.function.load()
    assert outputs(function, 3) == [("odd", 3), ("all", 3)]
    named = env.from_collection([1]).split(lambda n: "only")
    named.select("only")
    assert outputs(env._graph[named._stream._operator("test")].spec.function.load(), 5) == [("only", 5)]


def test_a_name_may_have_a_comma_in_it(env):
    """As in Flink, where names are taken as they are: "a,b" is not "a" and "b"."""
    split = env.from_collection([1]).split(lambda names: names)
    for names in (("a,b",), ("a", "b"), ("a\\", "b"), ("a\\,b",)):
        split.select(*names)
    function = env._graph[split._stream._operator("test")].spec.function.load()
    found = [outputs(function, names) for names in (["a,b"], ["a"], ["a\\"], ["a\\,b"])]
    assert [len(each) for each in found] == [1, 1, 1, 1]
    assert len({each[0][0] for each in found}) == 4


def test_selecting_twice_is_the_same_output(env, node_of):
    split = env.from_collection([1]).split(lambda n: "a")
    assert split.select("a")._origins == split.select("a")._origins


def test_wrong_arguments_are_refused(env):
    stream = env.from_collection([1])
    with pytest.raises(TypeError, match=r"split\(\) needs an OutputSelector or a function of one value"):
        stream.split(3)
    with pytest.raises(TypeError, match=r"select\(\) needs names of outputs, got 3"):
        stream.split(lambda n: "a").select(3)
    with pytest.raises(TypeError, match="at least one name"):
        stream.split(lambda n: "a").select()
