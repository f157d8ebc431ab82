from datetime import timedelta

import pytest

from firesteel.common import (
    Configuration,
    Duration,
    ExecutionConfig,
    ExecutionMode,
    RestartStrategies,
    options,
)


def test_defaults_are_flinks():
    config = ExecutionConfig()
    assert config.get_parallelism() == ExecutionConfig.PARALLELISM_DEFAULT == -1
    assert ExecutionConfig.PARALLELISM_UNKNOWN == -2
    assert config.get_max_parallelism() == -1
    assert config.get_auto_watermark_interval() == 200
    assert config.get_latency_tracking_interval() == 0
    assert config.get_task_cancellation_interval() == 30_000
    assert config.get_task_cancellation_timeout() == 180_000
    assert config.is_closure_cleaner_enabled()
    assert config.has_auto_generated_uids_enabled()
    assert not config.is_object_reuse_enabled()
    assert not config.is_use_snapshot_compression()
    assert not config.has_generic_types_disabled()
    assert config.get_global_job_parameters() == {}


@pytest.mark.parametrize(
    ("enable", "disable", "ask"),
    [
        ("enable_closure_cleaner", "disable_closure_cleaner", "is_closure_cleaner_enabled"),
        ("enable_object_reuse", "disable_object_reuse", "is_object_reuse_enabled"),
        ("enable_auto_generated_uids", "disable_auto_generated_uids", "has_auto_generated_uids_enabled"),
        ("enable_force_kryo", "disable_force_kryo", "is_force_kryo_enabled"),
        ("enable_force_avro", "disable_force_avro", "is_force_avro_enabled"),
        ("disable_generic_types", "enable_generic_types", "has_generic_types_disabled"),
    ],
)
def test_switch_is_remembered(enable, disable, ask):
    config = ExecutionConfig()
    assert getattr(getattr(config, enable)(), ask)() is True
    assert getattr(getattr(config, disable)(), ask)() is False


@pytest.mark.parametrize(
    "name", ["parallelism", "max_parallelism", "auto_watermark_interval", "latency_tracking_interval",
             "task_cancellation_interval", "task_cancellation_timeout"],
)  # fmt: skip
def test_number_is_remembered_and_refused_when_negative(name):
    config = ExecutionConfig()
    assert getattr(getattr(config, f"set_{name}")(7), f"get_{name}")() == 7
    with pytest.raises(ValueError, match="-5"):
        getattr(config, f"set_{name}")(-5)


def test_settings_live_in_the_shared_configuration():
    shared = Configuration.from_dict({"pipeline.auto-watermark-interval": "1 s"})
    config = ExecutionConfig(shared)
    assert config.get_auto_watermark_interval() == 1000
    config.set_parallelism(3)
    assert shared.get(options.PARALLELISM_DEFAULT) == 3
    config.set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN)
    assert config.get_parallelism() == 3
    config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)
    assert not shared.contains(options.PARALLELISM_DEFAULT)


def test_equal_with_equal_hash_when_values_are():
    first, second = ExecutionConfig().set_parallelism(12), ExecutionConfig()
    assert first != second
    second.set_parallelism(12)
    assert first == second
    assert hash(first) == hash(second)


def test_global_job_parameters_become_texts():
    config = ExecutionConfig().set_global_job_parameters({"a": 1, "b": True})
    assert config.get_global_job_parameters() == {"a": "1", "b": "true"}


def test_flink_1_settings_are_accepted():
    config = (
        ExecutionConfig()
        .set_execution_mode(ExecutionMode.BATCH)
        .register_kryo_type("a")
        .register_pojo_type("b")
    )
    config.add_default_kryo_serializer("a", "s").disable_auto_type_registration()
    assert config.get_execution_mode() is ExecutionMode.BATCH
    assert (config.get_registered_kryo_types(), config.get_registered_pojo_types()) == (["a"], ["b"])
    assert config.get_default_kryo_serializer_classes() == {"a": "s"}


def test_restart_strategy_becomes_options():
    strategy = RestartStrategies.fixed_delay_restart(3, 500)
    config = ExecutionConfig().set_restart_strategy(strategy)
    assert config.get_restart_strategy() is strategy
    values = config.to_configuration()
    assert values.get(options.RESTART_STRATEGY) == "fixed-delay"
    assert values.get(options.FIXED_DELAY_ATTEMPTS) == 3
    assert values.get(options.FIXED_DELAY_DELAY) == Duration.of_millis(500)


def test_failure_rate_strategy_takes_milliseconds_and_timedeltas():
    strategy = RestartStrategies.failure_rate_restart(2, timedelta(minutes=1), 500)
    assert strategy == RestartStrategies.failure_rate_restart(2, 60_000, timedelta(milliseconds=500))
    assert strategy.get_failure_interval() == timedelta(minutes=1)
    assert strategy.get_max_failure_rate() == 2
    assert strategy.get_delay_between_attempts_interval() == timedelta(milliseconds=500)
    assert strategy.to_configuration().get(options.FAILURE_RATE_INTERVAL) == Duration.of_minutes(1)
    with pytest.raises(TypeError, match="milliseconds or a timedelta"):
        RestartStrategies.fixed_delay_restart(3, "1 s")


def test_strategies_are_equal_by_kind_and_settings():
    assert RestartStrategies.no_restart() == RestartStrategies.no_restart()
    assert hash(RestartStrategies.no_restart()) == hash(RestartStrategies.no_restart())
    assert RestartStrategies.no_restart() != RestartStrategies.fall_back_restart()
    assert RestartStrategies.fixed_delay_restart(1, 1) != RestartStrategies.fixed_delay_restart(2, 1)
    assert RestartStrategies.fall_back_restart().to_configuration() == Configuration()
    assert RestartStrategies.no_restart().to_configuration().to_dict() == {"restart-strategy.type": "none"}
