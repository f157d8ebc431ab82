"""Starting Spark's driver process; a script that behaves like a JVM stands for it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import JobCancelledError, SetupError
from firesteel.spark import jvm_process
from firesteel.spark.class_archive import SWITCH_VARIABLE
from firesteel.spark.jvm_process import JvmProcess, direct_options, start_early, take
from firesteel.spark.startup import wanted_settings
from firesteel_support.fake_java import LISTENS, NEVER_LISTENS, make_java

FakeJava = Callable[[str], Path]


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJava]:
    """Makes a Java that does what a script says, and notes its arguments; whatever it started early ends with the test."""

    def make(script: str) -> Path:
        monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path, script)))
        return tmp_path / "started"

    monkeypatch.setenv(SWITCH_VARIABLE, "0")
    for name in jvm_process._SCRIPT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield make
    jvm_process.discard()


def settings(**given: str) -> dict[str, str]:
    options = {key.replace("_", "."): value for key, value in given.items()}
    return wanted_settings(Configuration.from_dict(options), 4)


def test_early_one_is_taken_and_says_where_it_listens(fake_java: FakeJava) -> None:
    arguments = fake_java(LISTENS)
    start_early(settings())
    process = take({**settings(), "spark.master": "local[99]"})
    assert process.await_connection(lambda: True) == (258, "abc")
    assert arguments.read_text().count("\n") == 1, "one was started"
    process.kill()
    assert not process.is_running


def test_early_one_with_other_settings_is_ended(fake_java: FakeJava) -> None:
    fake_java(LISTENS)
    start_early(settings())
    early = jvm_process._waiting
    assert early is not None
    process = take(settings(spark_driver_memory="5g"))
    assert process is not early
    assert not early.is_running
    process.await_connection(lambda: True)
    process.kill()


def test_settings_are_not_on_the_command_line(fake_java: FakeJava) -> None:
    arguments = fake_java(LISTENS)
    process = JvmProcess(settings(spark_hadoop_password="a secret"))
    process.await_connection(lambda: True)
    process.kill()
    assert "a secret" not in arguments.read_text()


def test_nothing_of_the_start_is_left_when_it_listens(fake_java: FakeJava) -> None:
    fake_java(LISTENS)
    process = JvmProcess(settings())
    directory = os.path.dirname(process._connection)
    assert os.path.isdir(directory)
    process.await_connection(lambda: True)
    assert not os.path.exists(directory)
    process.kill()


def test_one_that_is_not_wanted_any_more_is_ended_at_once(fake_java: FakeJava) -> None:
    fake_java(NEVER_LISTENS)
    process = JvmProcess(settings())
    answers = iter([True, True, False])
    with pytest.raises(JobCancelledError, match="while Spark started"):
        process.await_connection(lambda: next(answers))
    assert not process.is_running


def test_one_that_ends_by_itself_is_an_error_with_its_exit_code(fake_java: FakeJava) -> None:
    fake_java("exit 7")
    with pytest.raises(SetupError, match="ended while it started, with exit code 7"):
        JvmProcess(settings()).await_connection(lambda: True)


def test_one_that_nobody_takes_ends_with_the_program(fake_java: FakeJava) -> None:
    fake_java(NEVER_LISTENS)
    program = """
        from firesteel.common.configuration import Configuration
        from firesteel.spark import jvm_process, startup
        assert startup.begin(Configuration(), 4, early=True)
        print(jvm_process._waiting.popen.pid)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


def test_kept_classes_with_which_it_does_not_start_are_given_up(
    fake_java: FakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = fake_java(f'case "$*" in *SharedArchiveFile*) exit 134;; esac\n{LISTENS}')
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)  # not in a virtual environment: the cache of the user
    monkeypatch.delenv(SWITCH_VARIABLE)
    noting = JvmProcess(settings())
    noting.await_connection(lambda: True)
    noting.kill()
    assert noting.archive is not None
    archive = tmp_path / "firesteel" / "classes" / f"{noting.archive._key}-3.jsa"
    archive.write_bytes(b"abc")
    process = JvmProcess(settings())
    assert process.await_connection(lambda: True) == (258, "abc")
    process.kill()
    assert not archive.exists()
    first, second, third = arguments.read_text().splitlines()
    assert f"-XX:SharedArchiveFile={archive}" in second
    assert "SharedArchiveFile" not in first + third


# Without Spark's scripts.


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A Spark with the launcher of the real one."""
    real = jvm_process._spark_home() / "jars"
    (tmp_path / "jars").mkdir()
    for jar in real.glob("spark-launcher_*.jar"):
        (tmp_path / "jars" / jar.name).symlink_to(jar)
    return tmp_path


def test_options_of_java_are_those_of_sparks_launcher_without_the_vector_module(spark_home: Path) -> None:
    options = direct_options(settings(spark_driver_memory="3g"), spark_home, {})
    assert options is not None
    assert options[0] == "-Xmx3g"
    assert "--add-opens=java.base/java.nio=ALL-UNNAMED" in options
    assert "-XX:+IgnoreUnrecognizedVMOptions" in options
    assert not [option for option in options if "vector" in option or not option.startswith("-")]
    assert options[-1] == "-Dio.netty.bootstrap.extensions=serviceload"


@pytest.mark.parametrize(
    "given",
    [
        {"firesteel_spark_master": "spark://host:7077"},
        {"spark_jars": "/a.jar"},
        {"spark_jars_packages": "a:b:1"},
        {"spark_files": "/a"},
        {"spark_driver_defaultJavaOptions": "-Da=b"},
    ],
)
def test_what_sparks_scripts_do_more_is_left_to_them(given: dict[str, str], spark_home: Path) -> None:
    assert direct_options(settings(**given), spark_home, {}) is None


def test_configuration_of_the_users_spark_is_left_to_its_scripts(spark_home: Path) -> None:
    for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        assert direct_options(settings(), spark_home, {name: "x"}) is None
    (spark_home / "conf").mkdir()
    assert direct_options(settings(), spark_home, {}) is None


def test_launcher_that_is_not_understood_is_left_its_work(tmp_path: Path) -> None:
    assert direct_options(settings(), tmp_path, {}) is None


def test_sockets_in_containers_of_yarn_have_short_paths() -> None:
    key = "spark.python.unix.domain.socket.dir"
    assert settings(**{"firesteel.spark.master": "yarn"})[key] == "/tmp"
    assert settings(**{"firesteel.spark.master": "yarn", key: "/run/x"})[key] == "/run/x"
    assert key not in settings(**{"firesteel.spark.master": "spark://host:7077"})
