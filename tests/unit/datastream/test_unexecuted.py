"""A program that forgets execute() is told so when it ends, with the line; nobody else is."""

import os
import subprocess
import sys

import pytest

from firesteel.datastream import _unexecuted
from firesteel.datastream._unexecuted import telling_of_unexecuted_streams
from firesteel.testing import simulated_environment

TOLD = (
    "the stream that {} builds never ran: the program has ended without env.execute(), and building streams runs "
    "nothing; call env.execute() when all streams and sinks are there\n"
)
PROGRAM = """\
from firesteel.datastream import StreamExecutionEnvironment

def build():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(str).print()

"""


@pytest.fixture(autouse=True)
def nothing_is_waiting(monkeypatch):
    monkeypatch.setattr(_unexecuted, "_waiting", {})


@pytest.fixture
def env():
    return simulated_environment(parallelism=1)


@pytest.fixture
def told(capsys):
    """What a program is told at its end; ``told()`` gives what has been told so far."""
    return lambda: capsys.readouterr().err


def build_and_raise(env, error):
    env.from_collection([1])
    raise error


def line_of_next():
    return f"test_unexecuted.py:{sys._getframe(1).f_lineno + 1}"


def test_program_without_execute_is_told_where_its_stream_is_built(env, told):
    with telling_of_unexecuted_streams():
        line = line_of_next()
        env.from_collection([1]).map(str).print()
        del env
    assert told() == TOLD.format(line)


def test_each_environment_is_told_of_once(env, told):
    with telling_of_unexecuted_streams():
        lines = [line_of_next()]
        env.from_collection([1])
        lines.append(line_of_next())
        simulated_environment().from_collection([1])
    assert told() == "".join(map(TOLD.format, lines))
    with telling_of_unexecuted_streams():
        pass
    assert told() == ""


def test_streams_that_others_have_built_before_are_not_the_programs(env, told):
    env.from_collection([1])
    with telling_of_unexecuted_streams():
        pass
    assert told() == ""


def test_streams_that_ran_or_whose_plan_was_looked_at_are_not_told_of(env, told):
    with telling_of_unexecuted_streams():
        env.from_collection([1]).print()
        env.execute()
        list(env.from_collection([1]).execute_and_collect())
        env.from_collection([1]).print()
        env.execute_async()
        env.from_collection([1]).print()
        env.get_execution_plan()
    assert told() == ""


def test_streams_that_are_built_after_the_execution_count_again(env, told):
    with telling_of_unexecuted_streams():
        env.from_collection([1]).print()
        env.execute()
        line = line_of_next()
        env.from_collection([2]).print()
    assert told() == TOLD.format(line)


@pytest.mark.parametrize("failure", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), SystemExit("no")])
def test_program_that_fails_is_told_nothing(env, told, failure):
    with pytest.raises(type(failure)), telling_of_unexecuted_streams():
        build_and_raise(env, failure)
    assert told() == ""


def test_program_that_ends_with_exit_code_0_is_told(env, told):
    with pytest.raises(SystemExit), telling_of_unexecuted_streams():
        build_and_raise(env, SystemExit(0))
    assert "never ran" in told()


def test_tests_are_no_program(env, told):
    env.from_collection([1])
    _unexecuted._tell_at_exit()
    assert told() == ""


def test_plain_python_program_is_told_at_its_end(tmp_path):
    path = tmp_path / "job.py"

    def said(rest, *options):
        path.write_text(PROGRAM + rest, encoding="utf-8")
        words = [sys.executable, *options, str(path)]
        return subprocess.run(
            words, capture_output=True, text=True, check=False, input="", env=os.environ
        ).stderr

    assert said("build()") == TOLD.format("job.py:5")
    failed = said("build(); 1 / 0")
    assert failed.endswith("ZeroDivisionError: division by zero\n")
    assert "never ran" not in failed
    assert "never ran" not in said("build()", "-i")
