import functools
import pickle

import pytest

from firesteel.common import errors
from firesteel.common.errors import TypeMismatchError, UserCodeError, describe_function, short_repr


def every_error():
    return [e for name in errors.__all__ if isinstance(e := getattr(errors, name), type)]


@pytest.mark.parametrize("error", every_error())
def test_every_error_is_a_firesteel_error_and_drawn_in_the_tree(error):
    assert issubclass(error, errors.FiresteelError)
    assert error.__name__ in errors.__doc__


def test_program_errors_can_be_caught_as_builtin_ones():
    assert issubclass(errors.InvalidOptionError, ValueError)
    assert issubclass(errors.TypeMismatchError, TypeError)


@pytest.mark.parametrize(
    "error",
    [
        UserCodeError("boom", operator="Map", subtask=1, record="5", traceback_text="Traceback"),
        TypeMismatchError("Integer", "x", path=("field 0",), index=3),
        errors.NotEnoughSlotsError(needed=8, available=2),
        errors.TaskLostError("gone"),
        errors.MissingModuleError("firesteel.table", "not yet"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_survives_pickling_with_its_attributes(error):
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert twin.__dict__ == error.__dict__


def test_slots_error_says_both_numbers():
    assert "needs 8, Spark has 2" in str(errors.NotEnoughSlotsError(needed=8, available=2))


def test_user_code_error_shows_subtask_from_one():
    text = str(UserCodeError("boom", operator="Map", subtask=0, parallelism=4))
    assert "operator: Map (1/4)" in text


def test_short_repr_never_raises():
    class Broken:
        def __repr__(self):
            raise RuntimeError("no")

    assert short_repr(Broken()) == "<Broken whose repr raised RuntimeError>"


def test_short_repr_keeps_the_limit():
    assert len(short_repr(list(range(1000)), limit=50)) == 50
    assert len(short_repr("x" * 10**6)) == 200


def plain(value):
    return value


class Parser:
    separator = ","

    def parse(self, value):
        return value

    def __call__(self, value):
        return value


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (plain, "function plain at test_errors.py:{plain}"),
        (lambda v: v, "lambda at test_errors.py:{here}"),
        (functools.partial(plain, 1), "function plain at test_errors.py:{plain}"),
        (decorated(plain), "function plain at test_errors.py:{plain}"),
        (Parser().parse, "method Parser.parse at test_errors.py:{parse}"),
        (Parser(), "class Parser at test_errors.py:{parser}"),
        (Parser, "class Parser at test_errors.py:{parser}"),
        (len, "builtin len"),
        ("".join, "builtin join"),
        (str.upper, "builtin upper"),
        (int, "class int"),
    ],
)
def test_function_is_described_by_name_file_and_line(function, text):
    lines = {
        "plain": plain.__code__.co_firstlineno,
        "parse": Parser.parse.__code__.co_firstlineno,
        "parser": Parser.parse.__code__.co_firstlineno - 3,
        "here": getattr(getattr(function, "__code__", None), "co_firstlineno", 0),
    }
    assert describe_function(function) == text.format(**lines)
