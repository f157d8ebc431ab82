"""Sources that wait for the world, and files that travel with a job."""

from __future__ import annotations

import os
import socket
import textwrap
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SparkEnvironment
from support import Driver, archived_interpreter

from firesteel.common import JobStatus
from firesteel.datastream import (
    MapFunction,
    ProcessFunction,
    RuntimeContext,
    SourceFunction,
    StreamExecutionEnvironment,
)

pytestmark = pytest.mark.spark


class Ticks(SourceFunction):
    """Collects numbers with timestamps until it is cancelled, then says goodbye."""

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        self._cancelled = threading.Event()
        number = 0
        while not self._cancelled.wait(0.001):
            ctx.collect_with_timestamp(number, 1000 + number)
            number += 1
        ctx.collect_with_timestamp(-1, 0)

    def cancel(self) -> None:
        self._cancelled.set()


class Stamp(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp()


def test_source_function_collects_timestamps_while_it_runs(env: StreamExecutionEnvironment) -> None:
    stream = env.add_source(Ticks()).process(Stamp()).set_parallelism(1)
    with stream.execute_and_collect() as results:
        assert [next(results) for _ in range(50)] == [(n, 1000 + n) for n in range(50)]


def test_stop_lets_a_source_function_end_by_itself(env: StreamExecutionEnvironment) -> None:
    stream = env.add_source(Ticks()).map(lambda n: n).set_parallelism(1)
    with stream.execute_and_collect() as results:
        next(results)
        results._job.stop()
        assert list(results)[-1] == -1
        assert results._job.get_job_status().result() is JobStatus.FINISHED


def test_lines_of_a_server_arrive_as_they_are_sent(env: StreamExecutionEnvironment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = env.socket_text_stream("127.0.0.1", server.getsockname()[1]).map(str.upper)
        with stream.execute_and_collect() as results:
            connection, _ = server.accept()
            with connection:
                for text in ("hello", "grüße", ""):
                    connection.sendall(f"{text}\n".encode())
                    assert next(results) == text.upper()
                connection.sendall(b"no newline")
            assert list(results) == ["NO NEWLINE"]


def test_text_files_are_read_by_several_subtasks_once(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    for part in range(3):
        lines = (f"{part} {n}\n" for n in range(20_000))
        (tmp_path / f"part-{part}").write_text("".join(lines))
    with env.read_text_file(str(tmp_path)).execute_and_collect() as results:
        assert sorted(results) == sorted(f"{part} {n}" for part in range(3) for n in range(20_000))


class ReadsCachedFile(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._text = Path(runtime_context.get_cached_file("words")).read_text()

    def map(self, value: int) -> str:
        return self._text.split()[value]


def test_cached_file_is_there_for_every_task(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "some words.txt").write_text("zero one two")
    env.register_cached_file(str(tmp_path / "some words.txt"), "words")
    with env.from_collection([2, 0]).map(ReadsCachedFile()).execute_and_collect() as results:
        assert sorted(results) == ["two", "zero"]


def test_files_of_one_name_in_different_directories_do_not_collide(
    env: StreamExecutionEnvironment, environment: SparkEnvironment, tmp_path: Path
) -> None:
    for number, each in enumerate((env, environment())):
        file = tmp_path / str(number) / "words.txt"
        file.parent.mkdir()
        file.write_text(f"first{number} second{number}")
        each.register_cached_file(str(file), "words")
        with each.from_collection([1]).map(ReadsCachedFile()).execute_and_collect() as results:
            assert list(results) == [f"second{number}"]


def test_python_file_can_be_imported_in_tasks(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "shipped_by_test.py").write_text("def double(x):\n    return 2 * x\n")
    env.add_python_file(str(tmp_path / "shipped_by_test.py"))

    def use(value: int) -> int:
        from shipped_by_test import double  # type: ignore[import-not-found]

        return double(value)  # type: ignore[no-any-return]

    with env.from_collection([1, 2]).map(use).execute_and_collect() as results:
        assert sorted(results) == [2, 4]


def test_python_directory_and_package_can_be_imported_in_tasks(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    package = tmp_path / "place" / "shipped_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from shipped_package.inner import VALUE\n")
    (package / "inner.py").write_text("VALUE = 7\n")
    env.add_python_file(str(tmp_path / "place"))

    def use(value: int) -> int:
        import shipped_package  # type: ignore[import-not-found]

        return value * shipped_package.VALUE  # type: ignore[no-any-return]

    with env.from_collection([1]).map(use).execute_and_collect() as results:
        assert list(results) == [7]


def test_directories_of_the_workers_can_be_imported_from(
    environment: SparkEnvironment, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"installed_{name}.py").write_text(f"NAME = {name!r}\n")
    env = environment(1, **{"python.pythonpath": f"{tmp_path / 'one'}:{tmp_path / 'two'}"})

    def use(name: str) -> str:
        import importlib

        return importlib.import_module(f"installed_{name}").NAME  # type: ignore[no-any-return]

    with env.from_collection(["one", "two"]).map(use).execute_and_collect() as results:
        assert sorted(results) == ["one", "two"]


def test_modules_beside_the_script_can_be_imported_in_tasks_and_only_output_is_printed(
    driver: Callable[..., Driver], tmp_path: Path
) -> None:
    (tmp_path / "beside.py").write_text("def shout(text):\n    return text.upper() + '!'\n")
    (tmp_path / "job.py").write_text(
        textwrap.dedent("""
        from beside import shout
        from firesteel.datastream import StreamExecutionEnvironment

        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection(["hello"]).map(shout).print().set_parallelism(1)
        env.execute()
        """)
    )
    run = driver(str(tmp_path / "job.py"), cwd=Path("/"))
    assert run.wait() == 0, run.stderr()
    assert run.stdout() == "HELLO!\n"
    assert run.stderr() == ""


def wheel(directory: Path, name: str, code: str) -> None:
    """The smallest wheel that installs: one module and its metadata."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(directory / f"{name}-1.0-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", code)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def test_required_packages_are_installed_for_the_tasks(environment: SparkEnvironment, tmp_path: Path) -> None:
    wheel(tmp_path, "required_greeting", "WORD = 'hello'\n")
    (tmp_path / "requirements.txt").write_text("required-greeting==1.0\n")

    def greet(name: str) -> str:
        import required_greeting  # type: ignore[import-not-found]

        return f"{required_greeting.WORD} {name}"

    env = environment()
    env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path))
    assert env.from_collection(["you"]).map(greet).execute_and_collect(limit=5) == ["hello you"]


def test_archives_are_unpacked_in_the_working_directory_of_the_tasks(
    environment: SparkEnvironment, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as file:
        file.writestr("words.txt", "steel")
    env = environment()
    env.add_python_archive(str(tmp_path / "data.zip"), "unpacked")

    def read(name: str) -> str:
        return name + Path("unpacked/words.txt").read_text()

    assert env.from_collection(["fire"]).map(read).execute_and_collect(limit=5) == ["firesteel"]


def test_interpreter_in_an_archive_runs_the_tasks(environment: SparkEnvironment, tmp_path: Path) -> None:
    archived_interpreter(tmp_path / "env.tar.gz", "in the archive")
    env = environment()
    env.add_python_archive(str(tmp_path / "env.tar.gz"), "env")
    env.set_python_executable("env/bin/python")
    found = env.from_collection([0]).map(lambda n: os.environ.get("FIRESTEEL_TEST_INTERPRETER"))
    assert found.execute_and_collect(limit=5) == ["in the archive"]


def test_another_version_of_a_module_is_seen_by_the_next_job(
    environment: SparkEnvironment, tmp_path: Path
) -> None:
    def use(value: int) -> Any:
        import shipped_twice  # type: ignore[import-not-found]

        return shipped_twice.VERSION

    for version in (1, 2):
        module = tmp_path / str(version) / "shipped_twice.py"
        module.parent.mkdir()
        module.write_text(f"VERSION = {version}\n")
        env = environment()
        env.add_python_file(str(module))
        with env.from_collection([0]).map(use).execute_and_collect() as results:
            assert list(results) == [version]
