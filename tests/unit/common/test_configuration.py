import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common import ConfigOptions, Configuration, Duration, options
from firesteel.common.errors import InvalidOptionError


@pytest.fixture
def configuration():
    return (
        Configuration()
        .set_string("k1", "v1")
        .set_integer("k2", 1)
        .set_float("k3", 1.2)
        .set_boolean("k4", True)
        .set_bytearray("k5", bytearray(b"ab"))
    )


def test_values_come_back_with_their_types(configuration):
    assert configuration.get_string("k1", "d") == "v1"
    assert configuration.get_integer("k2", 0) == 1
    assert configuration.get_float("k3", 0.0) == 1.2
    assert configuration.get_boolean("k4", False) is True
    assert configuration.get_bytearray("k5", bytearray()) == bytearray(b"ab")


def test_absent_key_gives_the_default():
    empty = Configuration()
    assert empty.get_string("k", None) is None
    assert (empty.get_integer("k", 3), empty.get_float("k", 1.5), empty.get_boolean("k", True)) == (
        3,
        1.5,
        True,
    )
    assert empty.get_bytearray("k", bytearray(b"z")) == bytearray(b"z")


def test_text_is_read_as_the_type_asked_for():
    texts = Configuration.from_dict({"i": "12", "b": "TRUE", "f": "1.5"})
    assert (texts.get_integer("i", 0), texts.get_boolean("b", False), texts.get_float("f", 0.0)) == (
        12,
        True,
        1.5,
    )


def test_unreadable_value_names_the_key(configuration):
    for read in (configuration.get_integer, configuration.get_boolean, configuration.get_float):
        with pytest.raises(InvalidOptionError, match="'k1'"):
            read("k1", 0)
    with pytest.raises(InvalidOptionError, match="expected bytes"):
        configuration.get_bytearray("k1", bytearray())


def test_to_dict_gives_texts_as_java_prints_them(configuration):
    configuration.remove_config("k5")
    assert configuration.set_float("k6", 1e10).to_dict() == {
        "k1": "v1",
        "k2": "1",
        "k3": "1.2",
        "k4": "true",
        "k6": "1.0E10",
    }


def test_add_all_to_dict_keeps_python_values(configuration):
    target = {"k0": 0}
    configuration.add_all_to_dict(target)
    assert target == {"k0": 0, "k1": "v1", "k2": 1, "k3": 1.2, "k4": True, "k5": b"ab"}


def test_str_lists_pairs_in_braces():
    assert str(Configuration().set_string("k1", "v1").set_integer("k2", 1)) == "{k1=v1, k2=1}"


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("[a, b]", ["a", "b"]),
        ("- a\n- b", ["a", "b"]),
        ("a;b", ["a", "b"]),
        ("a, b", ["a, b"]),
        ("", []),
        (None, []),
        ("[]", []),
        ("['a;b', c]", ["a;b", "c"]),
        ("[1, true, 2.5, 'it''s', [x, y]]", [1, True, 2.5, "it's", ["x", "y"]]),
        ("{a: b}", ["{a: b}"]),
        (" a ; b ", [" a ", " b "]),
    ],
)
def test_list_value_is_read_as_pyflink_reads_it(text, items):
    assert Configuration.parse_list_value(text) == items


def test_remove_tells_whether_the_key_was_there(configuration):
    assert configuration.remove_config("k1") is True
    assert configuration.remove_config("k1") is False
    assert not configuration.contains_key("k1")


def test_add_all_puts_the_prefix_before_each_key():
    other = Configuration.from_dict({"a": "1"})
    assert Configuration().add_all(other, "p.").add_all(other).to_dict() == {"p.a": "1", "a": "1"}


def test_copy_is_independent(configuration):
    copied = Configuration(configuration)
    assert copied == configuration
    copied.set_string("k1", "other")
    assert configuration.get_string("k1", "") == "v1"


def test_equal_when_keys_values_and_types_are(configuration):
    assert pickle.loads(pickle.dumps(configuration)) == configuration
    assert hash(Configuration(configuration)) == hash(configuration)
    assert Configuration().set_integer("a", 1) != Configuration().set_string("a", "1")
    assert Configuration().set_integer("a", 1) != Configuration().set_boolean("a", True)


def test_option_reads_typed_values_defaults_and_older_keys():
    option = ConfigOptions.key("app.wait").duration_type().default_value(Duration.of_seconds(1))
    option = option.with_fallback_keys("app.old-wait")
    assert Configuration().get(option) == Duration.of_seconds(1)
    assert Configuration.from_dict({"app.wait": "5 s"}).get(option) == Duration.of_seconds(5)
    assert Configuration.from_dict({"app.old-wait": "6 s"}).get(option) == Duration.of_seconds(6)
    assert Configuration.from_dict({"app.old-wait": "6 s"}).contains(option)


def test_setting_an_option_refuses_a_bad_value():
    option = ConfigOptions.key("app.rate").int_type().no_default_value()
    assert Configuration().get(option) is None
    with pytest.raises(InvalidOptionError, match=r"'app.rate'.*'fast'"):
        Configuration().set(option, "fast")


@given(st.dictionaries(st.text("ab,:';[] ", min_size=1), st.text("ab,:';[] ")))
def test_job_parameters_survive_being_written_as_text(parameters):
    written = Configuration().set(options.GLOBAL_JOB_PARAMETERS, parameters).to_dict()
    assert Configuration.from_dict(written).get(options.GLOBAL_JOB_PARAMETERS) == parameters


@given(st.lists(st.text("ab,;'[", min_size=1), min_size=1))
def test_list_with_semicolons_survives_being_written_as_text(items):
    items[0] += ";"
    written = Configuration.from_dict({"k": items}).to_dict()
    assert Configuration.parse_list_value(written["k"]) == items
