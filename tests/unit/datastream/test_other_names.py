"""Names that do not exist lead to those that do; everybody who only asks is told no as ever."""

import copy
import pickle

import pytest

from firesteel.common._did_you_mean import closest
from firesteel.common.errors import ProgramError, UnknownOperationError
from firesteel.contracts.window_assigners import TumblingEventTimeWindows
from firesteel.datastream import _other_names


@pytest.fixture
def numbers(env):
    return env.from_collection([1, 2, 3])


@pytest.fixture
def windowed(numbers):
    return numbers.key_by(lambda v: v).window(TumblingEventTimeWindows.of(10))


def said(thing, name):
    with pytest.raises(UnknownOperationError) as caught:
        getattr(thing, name)
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, ProgramError)
    assert caught.value.name == name
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("keyBy", "key_by"), ("flatMap", "flat_map"), ("flatmap", "flat_map"), ("fliter", "filter")),
        *(("sinkTo", "sink_to"), ("getSideOutput", "get_side_output"), ("windowAll", "window_all")),
        *(("executeAndCollect", "execute_and_collect"), ("group_by", "key_by"), ("groupBy", "key_by")),
        *(("where", "filter"), ("show", "print"), ("withWatermark", "assign_timestamps_and_watermarks")),
        ("assignTimestampsAndWatermarks", "assign_timestamps_and_watermarks"),
    ],
)
def test_stream_names_the_operation_that_was_meant(numbers, name, meant):
    assert said(numbers, name) == f"a DataStream has no {name!r}: did you mean {meant}()?"


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        *(("withColumn", "map"), ("select", "map"), ("writeStream", "sink_to"), ("foreachBatch", "add_sink")),
        *(("dropDuplicates", "filter_with_state"), ("agg", "aggregate"), ("collect", "execute_and_collect")),
        *(("count", "sum"), ("orderBy", "window"), ("execute", "env.execute()"), ("limit", "limit=n")),
    ],
)
def test_words_of_spark_are_answered_with_the_way_here(numbers, name, instead):
    assert instead in said(numbers, name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(
            ("fromElements", "from_elements"),
            ("from_element", "from_elements"),
            ("fromData", "from_collection"),
        ),
        *(
            ("setParallelism", "set_parallelism"),
            ("createDataFrame", "from_collection"),
            ("start", "execute"),
        ),
        *(("enableCheckpointing", "enable_checkpointing"), ("range", "from_sequence")),
    ],
)
def test_environment_names_the_operation_that_was_meant(env, name, meant):
    assert said(env, name) == f"a StreamExecutionEnvironment has no {name!r}: did you mean {meant}()?"


def test_windows_connected_streams_and_sinks_know_too(numbers, windowed):
    assert "did you mean allowed_lateness()?" in said(windowed, "allowedLateness")
    assert "reduce(), aggregate(), apply() or process()" in said(windowed, "map")
    assert "did you mean flat_map()?" in said(numbers.connect(numbers), "flatMap")
    assert "map(), flat_map() or process()" in said(numbers.connect(numbers), "filter")
    assert "did you mean equal_to()?" in said(numbers.join(numbers).where(lambda v: v), "equalTo")
    assert "env.execute()" in said(numbers.print(), "execute")
    assert "did you mean set_parallelism()?" in said(numbers.print(), "setParallelism")


def test_operations_of_keyed_streams_are_there_after_key_by(numbers):
    assert "call key_by() first" in said(numbers, "timeWindow")
    assert "did you mean count_window()?" in said(numbers.key_by(lambda v: v), "countWindow")


def test_name_that_is_like_no_other_gets_pythons_own_message(numbers):
    assert said(numbers, "zzz") == "'DataStream' object has no attribute 'zzz'"


def test_who_only_asks_is_told_no(env, numbers, windowed):
    for thing in (env, numbers, windowed, numbers.connect(numbers), numbers.print()):
        assert not hasattr(thing, "keyBy")
        assert getattr(thing, "keyBy", None) is None
        for name in ("_repr_html_", "_ipython_display_", "__deepcopy__", "_repr_mimebundle_"):
            with pytest.raises(AttributeError) as caught:
                getattr(thing, name)
            assert type(caught.value) is AttributeError


def test_streams_can_be_copied_and_pickled(env, numbers):
    assert repr(copy.copy(numbers)) == repr(numbers)
    assert repr(copy.deepcopy(numbers)) == repr(numbers)
    assert repr(pickle.loads(pickle.dumps(numbers))) == repr(numbers)
    assert pickle.loads(pickle.dumps(env)).get_parallelism() == env.get_parallelism()


def test_error_survives_pickling(numbers):
    with pytest.raises(UnknownOperationError) as caught:
        numbers.keyBy  # noqa: B018 - reading it is the test
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.name) == (str(caught.value), "keyBy")


def test_every_answer_is_for_a_name_that_is_missing(env, numbers, windowed):
    tables = (
        (_other_names.OF_STREAMS, numbers),
        (_other_names.OF_ENVIRONMENTS, env),
        (_other_names.OF_WINDOWS, windowed),
        (_other_names.OF_CONNECTED, numbers.connect(numbers)),
        (_other_names.OF_SINKS, numbers.print()),
    )
    for table, thing in tables:
        assert [name for name in table if hasattr(thing, name)] == []


def test_long_names_are_not_compared():
    assert closest("x" * 10_000, ["x" * 9_999]) is None
