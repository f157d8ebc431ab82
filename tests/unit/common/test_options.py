import pytest

from firesteel.common import Configuration, Duration, options
from firesteel.common.config_options import ConfigOption
from firesteel.common.errors import InvalidOptionError
from firesteel.common.option_types import parse_duration, parse_memory


def test_every_option_constant_is_registered_and_documented():
    constants = [v for v in vars(options).values() if isinstance(v, ConfigOption)]
    assert set(map(id, constants)) == set(map(id, options.all_options()))
    assert all(option.description.endswith(".") and option.type.name for option in constants)


@pytest.mark.parametrize("option", options.all_options(), ids=lambda option: option.key)
def test_default_is_a_value_of_the_option(option):
    assert option.default is None or option.parse(option.default) == option.default
    assert options.find_option(option.key) is option


@pytest.mark.parametrize(
    ("text", "millis"),
    [("1 min", 60_000), ("100 ms", 100), ("100ms", 100), ("5", 5), (7, 7), ("2 h", 7_200_000), ("1d", 86_400_000),
     ("3 seconds", 3000), ("PT1M30S", 90_000), ("P1DT1H", 90_000_000), ("5000 us", 5), ("-1 ms", -1)],
)  # fmt: skip
def test_duration_is_read_from_text(text, millis):
    assert parse_duration(text).to_millis() == millis


@pytest.mark.parametrize("text", ["", "soon", "1 fortnight", "1.5 s", "P", "ms"])
def test_bad_duration_is_refused(text):
    with pytest.raises(ValueError, match="a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("1 mb", 2**20), ("64k", 65536), ("10", 10), ("2 GB", 2**31), ("5b", 5)]
)
def test_memory_size_is_read_from_text(text, size):
    assert parse_memory(text) == size


def test_bad_value_names_option_value_and_expectation():
    with pytest.raises(InvalidOptionError) as caught:
        Configuration.from_dict({"execution.checkpointing.interval": "often"}).get(
            options.CHECKPOINTING_INTERVAL
        )
    assert "option 'execution.checkpointing.interval'" in str(caught.value)
    assert "'often'" in str(caught.value)
    assert "'10 s'" in str(caught.value)


def test_choice_ignores_case_and_dashes():
    assert options.RUNTIME_MODE.parse("batch") == "BATCH"
    assert options.RESTART_STRATEGY.parse("FixedDelay") == "fixed-delay"
    with pytest.raises(InvalidOptionError, match="one of STREAMING, BATCH, AUTOMATIC"):
        options.RUNTIME_MODE.parse("fast")


@pytest.mark.parametrize("key", ["execution.buffer-timeout", "execution.buffer-timeout.interval"])
def test_both_keys_of_the_buffer_timeout_are_read(key):
    assert Configuration.from_dict({key: "1 min"}).get(options.BUFFER_TIMEOUT) == Duration.of_minutes(1)


def test_job_parameters_are_read_as_pairs():
    parsed = options.GLOBAL_JOB_PARAMETERS.parse("a:1,b:'x:y, z'")
    assert parsed == {"a": "1", "b": "x:y, z"}


def test_firesteel_defaults():
    empty = Configuration()
    assert empty.get(options.SPARK_MASTER) == "embedded"
    assert (empty.get(options.CHUNK_RECORDS), empty.get(options.SOURCE_BATCH)) == (1024, 1024)
    assert empty.get(options.SHUFFLE_BUFFER) == 2**19
    assert empty.get(options.CANCEL_GRACE) == Duration.of_seconds(2)
    assert empty.get(options.METRICS_INTERVAL) == Duration.of_millis(500)


def test_known_keys_and_open_prefixes_pass():
    keys = ["parallelism.default", "spark.sql.x", "python.anything", "state.backend.rocksdb.memory.managed",
            "taskmanager.numberOfTaskSlots", "execution.batch.adaptive.x", "execution.buffer-timeout"]  # fmt: skip
    assert options.unknown_keys(Configuration.from_dict(dict.fromkeys(keys, "1"))) == {}


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("paralelism.default", "parallelism.default"),
        ("firesteel.chunk.record", "firesteel.chunk.records"),
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("restart-strategy.fixed-delay.attempt", "restart-strategy.fixed-delay.attempts"),
        ("colour", None),
    ],
)
def test_misspelt_key_is_found_with_a_suggestion(key, suggestion):
    assert options.unknown_keys(Configuration.from_dict({key: "1"})) == {key: suggestion}
