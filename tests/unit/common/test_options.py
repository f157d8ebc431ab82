import re
from pathlib import Path

import pytest

import firesteel
from firesteel.common import Configuration, Duration, options
from firesteel.common._flink_options import ANSWERS, FlinkOptions, answer_to, flink_keys
from firesteel.common._option_types import parse_duration, parse_memory
from firesteel.common.config_options import ConfigOption
from firesteel.common.errors import InvalidOptionError


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


def test_known_keys_and_those_of_spark_and_flink_pass():
    keys = ["parallelism.default", "spark.sql.x", "state.backend.rocksdb.memory.managed", "fs.s3a.access.key",
            "taskmanager.numberOfTaskSlots", "execution.buffer-timeout", "metrics.reporter.prom.port",
            "execution.batch.adaptive.auto-parallelism.enabled", "table.anything"]  # fmt: skip
    assert options.unknown_keys(Configuration.from_dict(dict.fromkeys(keys, "1"))) == {}


def test_every_key_of_flink_is_answered_with_a_sentence():
    assert [key for key in flink_keys() if options.find_option(key)] == [], (
        "flink_keys.txt has those that are no options"
    )
    answers = {key: answer_to(key) for key in flink_keys()}
    assert [key for key, answer in answers.items() if answer is None] == []
    assert all(len(row.answer.split()) >= 2 and not row.answer.endswith(".") for row in ANSWERS)


def test_every_answer_is_to_a_key_of_flink_and_names_options_that_exist():
    answered = {answer_to(key) for key in flink_keys()}
    assert [row.keys for row in ANSWERS if row not in answered] == [], "no key of Flink comes to these"
    unused = [(own, row.keys) for row in ANSWERS for own in row.keys
              if not any(row.has(key) and FlinkOptions((own,), "").has(key) for key in flink_keys())]  # fmt: skip
    assert unused == []
    named = {name for row in ANSWERS for name in re.findall(r"'([a-z][\w-]*\.[\w.-]*\w)'", row.answer)}
    ours = {name for name in named if not name.startswith("spark.")}
    assert {name for name in ours if options.find_option(name) is None} == set()


def test_every_option_is_read_somewhere_or_said_to_be_ignored():
    """Or refused: no option is accepted and then forgotten."""
    sources = Path(firesteel.__file__).parent
    setters = ("execution_config.py", "checkpoint_config.py", "_environment_settings.py", "options.py")
    code = " ".join(path.read_text() for path in sources.rglob("*.py") if path.name not in setters)
    names = [name for name, value in vars(options).items() if isinstance(value, ConfigOption)]
    read = [name for name in names if re.search(rf"\b{name}\b", code)]
    ignored = [name for name in names if vars(options)[name].description.startswith(options._IGNORED)]
    assert sorted(names) == sorted({*read, *ignored})
    assert set(read) & set(ignored) == set()


def test_keys_of_flink_without_effect_come_with_what_there_is_instead():
    given = {"rest.url-prefix": "/flink", "env.java.home": "/java", "python.fn-execution.bundle.size": "1",
             "pipeline.generic-types": "true", "parallelism.default": "2", "my.own": "1"}  # fmt: skip
    found = options.options_without_effect(Configuration.from_dict(given))
    assert list(found) == ["env.java.home", "python.fn-execution.bundle.size", "rest.url-prefix"]
    assert found["env.java.home"] == "set the environment variable JAVA_HOME"
    assert found["python.fn-execution.bundle.size"] == "see firesteel.chunk.records"


@pytest.mark.parametrize(
    ("key", "value", "is_refused"),
    [
        ("security.ssl.enabled", "true", True),
        ("security.ssl.enabled", "false", False),
        ("security.ssl.rest.keystore", "/keys", True),
        ("security.ssl.internal.keystore", "/keys", False),
        ("security.kerberos.login.keytab", "/keytab", True),
        ("security.kerberos.login.use-ticket-cache", "true", False),
        ("fs.default-scheme", "hdfs://host/", True),
        ("fs.default-scheme", "false", True),
        ("fs.default-scheme", "file:///", False),
        ("rest.port", "8081", False),
    ],
)
def test_what_would_leave_a_job_unprotected_or_make_it_another_one_is_refused(key, value, is_refused):
    assert (key in options.refused_options(Configuration.from_dict({key: value}))) == is_refused


@pytest.mark.parametrize(
    ("key", "is_own"),
    [("execution.foo", True), ("state.backend.disk.cache", True), ("state.backend.my-store.path", False),
     ("rest.url", False), ("source.path", False), ("firesteel.x", True), ("metrics.foo", True)],
)  # fmt: skip
def test_unknown_keys_of_our_namespaces_are_mistakes_others_are_the_programs(key, is_own):
    assert options.is_own(key) == is_own
    assert key in options.unknown_keys(Configuration.from_dict({key: "1"}))


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("paralelism.default", "parallelism.default"),
        ("firesteel.chunk.record", "firesteel.chunk.records"),
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("restart-strategy.fixed-delay.attempt", "restart-strategy.fixed-delay.attempts"),
        ("rest.prot", "rest.port"),
        ("taskmanager.memory.proces.size", "taskmanager.memory.process.size"),
        ("execution.foo", None),
        ("colour", None),
        ("my.own.parallelism", None),
    ],
)
def test_misspelt_key_is_found_with_a_suggestion(key, suggestion):
    assert options.unknown_keys(Configuration.from_dict({key: "1"})) == {key: suggestion}
