from datetime import timedelta

import cloudpickle
import pytest

from firesteel.common import Duration, Time, Types
from firesteel.common._serialized_type import SerializedTypeInfo
from firesteel.common.errors import ProgramError, WrongArgumentError
from firesteel.common.serializer import TypeSerializer
from firesteel.contracts.functions import AggregateFunction, ReduceFunction
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

Strategies = StateTtlConfig.CleanupStrategies


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class DictState(MapState):
    """A map state over a dict, to try the notation."""

    def __init__(self, entries):
        self.entries = entries

    def clear(self):
        self.entries.clear()

    def get(self, key):
        return self.entries.get(key)

    def put(self, key, value):
        self.entries[key] = value

    def put_all(self, dict_value):
        self.entries.update(dict_value)

    def remove(self, key):
        self.entries.pop(key, None)

    def contains(self, key):
        return key in self.entries

    def items(self):
        return self.entries.items()

    def keys(self):
        return self.entries.keys()

    def values(self):
        return self.entries.values()

    def is_empty(self):
        return not self.entries


def test_map_state_has_the_notation_of_a_dict():
    state = DictState({"a": 1})
    state["b"] = 2
    del state["a"]
    assert (state["b"], "a" in state, list(state)) == (2, False, ["b"])


def test_list_state_can_be_iterated():
    class Listed(ListState):
        def get(self):
            return [1, 2]

        add = add_all = update = clear = None

    assert list(Listed()) == [1, 2]


def test_descriptors_know_name_and_type():
    assert ValueStateDescriptor("v", Types.INT()).type_info == Types.INT()
    assert ListStateDescriptor("l", Types.INT()).type_info == Types.LIST(Types.INT())
    descriptor = MapStateDescriptor("m", Types.STRING(), Types.INT())
    assert descriptor.type_info == Types.MAP(Types.STRING(), Types.INT())
    assert descriptor.get_name() == descriptor.name == "m"
    with pytest.raises(ProgramError, match="needs a name"):
        ValueStateDescriptor("", Types.INT())


def test_reducing_descriptor_takes_functions_of_both_kinds():
    descriptor = ReducingStateDescriptor("r", lambda a, b: a + b, Types.INT())
    assert isinstance(descriptor.get_reduce_function(), ReduceFunction)
    copy = cloudpickle.loads(cloudpickle.dumps(descriptor))
    assert copy.get_reduce_function().reduce(1, 2) == 3
    with pytest.raises(
        TypeError, match=r"ReducingStateDescriptor\('r'\) needs a ReduceFunction or a function"
    ):
        ReducingStateDescriptor("r", 3, Types.INT())


def test_aggregating_descriptor_needs_an_aggregate_function():
    function = Total()
    assert AggregatingStateDescriptor("a", function, Types.INT()).get_agg_function() is function
    with pytest.raises(TypeError, match="needs an AggregateFunction"):
        AggregatingStateDescriptor("a", lambda a, b: a, Types.INT())


def test_time_to_live_is_off_until_enabled():
    descriptor = ValueStateDescriptor("v", Types.INT())
    assert descriptor.get_ttl_config() is None
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    descriptor.enable_time_to_live(config)
    assert descriptor.get_ttl_config() is config
    disabled = StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(StateTtlConfig.UpdateType.Disabled)
    descriptor.enable_time_to_live(disabled.build())
    assert descriptor.get_ttl_config() is None


def test_ttl_defaults_are_flinks():
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert (config.is_enabled(), config.get_ttl()) == (True, Time.seconds(1))
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    assert strategies.get_incremental_cleanup_strategy().get_cleanup_size() == 5
    rocksdb = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb.get_query_time_after_num_entries() == 1000
    assert rocksdb.get_periodic_compaction_time() == Duration.of_days(30)


def test_ttl_keeps_what_it_is_told():
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_ttl(Time.seconds(2))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(7, Duration.of_hours(1))
        .disable_cleanup_in_background()
        .build()
    )
    assert config.get_ttl() == Time.seconds(2)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    strategies = config.get_cleanup_strategies()
    assert not strategies.is_cleanup_in_background()
    assert strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (10, True)
    rocksdb = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb.get_query_time_after_num_entries() == 7
    assert rocksdb.get_periodic_compaction_time() == Duration.of_hours(1)
    assert cloudpickle.loads(cloudpickle.dumps(config)).get_ttl() == Time.seconds(2)


def test_without_background_cleanup_there_are_no_default_strategies():
    strategies = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background().build()
    assert strategies.get_cleanup_strategies().get_incremental_cleanup_strategy() is None
    assert strategies.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() is None


def test_a_ttl_must_be_positive():
    with pytest.raises(ProgramError, match="longer than 0 ms, got 0 ms"):
        StateTtlConfig.new_builder(Time.seconds(0)).build()


def test_a_ttl_may_be_given_in_any_form_of_length():
    for length in (Duration.of_seconds(2), timedelta(seconds=2), 2000):
        builder = StateTtlConfig.new_builder(length)
        assert builder.build().get_ttl() == Time.seconds(2)
        assert builder.set_ttl(length).build().get_ttl() == Time.seconds(2)
    with pytest.raises(TypeError, match=r"a length of time such as Time.seconds\(5\)"):
        StateTtlConfig.new_builder("1 h")


class Reversed(TypeSerializer):
    def serialize(self, element, stream):
        stream.write(element[::-1])

    def deserialize(self, stream):
        return stream.read()[::-1]


@pytest.mark.parametrize("wrong", ["STRING", int, Types.INT, Reversed, 7, lambda value: value])
def test_a_descriptor_refuses_what_is_no_type(wrong):
    makers = [
        lambda: ValueStateDescriptor("a", wrong),
        lambda: ListStateDescriptor("a", wrong),
        lambda: MapStateDescriptor("a", wrong, Types.INT()),
        lambda: MapStateDescriptor("a", Types.INT(), wrong),
        lambda: ReducingStateDescriptor("a", max, wrong),
        lambda: AggregatingStateDescriptor("a", Total(), wrong),
    ]
    for make in makers:
        with pytest.raises(
            WrongArgumentError, match=r"StateDescriptor\('a'\) needs types such as Types.STRING"
        ):
            make()


def test_a_descriptor_needs_no_type():
    assert ValueStateDescriptor("a", None).type_info is None
    assert MapStateDescriptor("a", None, None).value_type_info is None


def test_a_descriptor_takes_a_serializer_for_a_type():
    assert ValueStateDescriptor("a", Reversed()).type_info == SerializedTypeInfo(Reversed())
    assert (
        str(ListStateDescriptor("a", Reversed()).type_info) == "ListTypeInfo<SerializedTypeInfo<Reversed()>>"
    )


def test_what_converts_old_values_must_be_a_function():
    with pytest.raises(ProgramError, match=r"set_version\(\) of ValueStateDescriptor\('sum'\).*got 5"):
        ValueStateDescriptor("sum", Types.LONG()).set_version(1, 5)
