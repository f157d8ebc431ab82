"""Where the logs of driver and executors go: files that are rolled over, or the newest of them in memory."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.common import Configuration
from firesteel.common.errors import InvalidOptionError, SetupError
from firesteel.logs.levels import levels, set_levels
from firesteel.logs.log_book import ExecutorId, LogBook
from firesteel.logs.origin import LogOrigin
from firesteel.logs.outputs import RecentText, forget_old_files
from firesteel.logs.settings import LogSettings, read_log_settings

EXECUTOR = ExecutorId("worker-1", "0")
ORIGIN = LogOrigin("ab" * 16, "word count", "Map (2/4)", 1)


@pytest.fixture
def root() -> logging.Logger:
    """A root logger of one's own, so that pytest's handlers are not in the way."""
    return logging.RootLogger(logging.WARNING)


@pytest.fixture
def book(root: logging.Logger) -> Iterator[LogBook]:
    before = levels()
    book = LogBook(root)
    yield book
    book.close()
    set_levels(before)


def record(text: str, *, of_task: bool = True) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "orders", "levelno": 20, "levelname": "INFO", "msg": text})
    if of_task:
        ORIGIN.mark(made)
    return made


def test_without_a_directory_and_without_anybody_who_asks_nothing_is_kept(book: LogBook) -> None:
    book.task_logged(EXECUTOR, record("hello"))
    book.task_printed(EXECUTOR, "printed\n")
    assert book.executor_text("executor-0") == book.executor_text("executor-0", printed=True) == ""


def test_for_who_asks_the_newest_lines_are_kept_by_executor(book: LogBook) -> None:
    book.keep_recent()
    book.task_logged(EXECUTOR, record("hello"))
    book.task_printed(EXECUTOR, "printed\n")
    book.task_printed(ExecutorId("laptop", "driver"), "elsewhere\n")
    assert book.executor_text("executor-0").endswith("INFO orders [word count: Map (2/4)]: hello\n")
    assert book.executor_text("executor-0", printed=True) == "printed\n"
    assert book.executor_text("laptop", printed=True) == "elsewhere\n"
    assert book.executor_files("executor-0") == []


def test_lines_of_the_driver_are_kept_and_shown_as_before(
    book: LogBook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a program that configures no logging, and without what the book of this process may have added for other tests.
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.getLogger("firesteel"), "handlers", [])
    book.keep_recent()
    logging.getLogger("firesteel.test").warning("look")
    assert book.driver_text().endswith("WARNING firesteel.test: look\n")
    assert capsys.readouterr().err == "look\n"


def test_a_handler_of_the_program_is_not_doubled(
    book: LogBook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [logging.NullHandler()])
    book.keep_recent()
    logging.getLogger("firesteel.test").warning("look")
    assert capsys.readouterr().err == ""


def test_files_are_by_driver_and_executor_and_for_their_owner(
    book: LogBook, root: logging.Logger, tmp_path: Path
) -> None:
    book.use(LogSettings(tmp_path / "logs"))
    root.handle(record("of the driver", of_task=False))
    root.handle(record("of a task"))
    book.task_logged(EXECUTOR, record("of a task"))
    book.task_printed(EXECUTOR, "printed\n")
    (driver,), (log,) = book.driver_files(), book.executor_files("executor-0")
    (out,) = book.executor_files("executor-0", printed=True)
    assert driver.name.endswith(f"-{os.getpid()}-driver.log")
    assert log.name.endswith(f"-{os.getpid()}-executor-0.log")
    assert driver.read_text().count("\n") == 1
    assert "of the driver" in driver.read_text()
    assert "[word count: Map (2/4)]: of a task" in log.read_text()
    assert out.read_text() == "printed\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (driver, log, out)] == [0o600] * 3
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


def test_an_executor_that_is_known_already_gets_files_with_the_first_job_that_wants_them(
    book: LogBook, tmp_path: Path
) -> None:
    book.task_logged(EXECUTOR, record("before"))
    book.task_printed(EXECUTOR, "before\n")
    book.use(LogSettings(tmp_path / "logs"))
    book.task_logged(EXECUTOR, record("after"))
    book.task_printed(EXECUTOR, "after\n")
    (log,), (out,) = book.executor_files("executor-0"), book.executor_files("executor-0", printed=True)
    assert log.read_text().endswith(": after\n")
    assert out.read_text() == "after\n"


def test_a_full_file_is_rolled_over_and_only_so_many_stay(book: LogBook, tmp_path: Path) -> None:
    book.use(LogSettings(tmp_path, max_size=200, kept=2))
    for number in range(20):
        book.task_logged(EXECUTOR, record(f"line {number:02}"))
        book.task_printed(EXECUTOR, f"print {number:02} {'x' * 50}\n")
    for printed, last in ((False, "line 19"), (True, "print 19")):
        files = book.executor_files("executor-0", printed)
        assert [file.name[-2:] for file in files[1:]] == [".1", ".2"]
        assert all(file.stat().st_size <= 200 for file in files)
        assert last in files[0].read_text()
        assert last not in files[1].read_text()


def test_the_level_is_info_where_nobody_has_said_another(
    book: LogBook, root: logging.Logger, tmp_path: Path
) -> None:
    book.use(LogSettings(tmp_path))
    assert root.level == logging.INFO


def test_the_level_of_a_program_that_configures_logging_stays(
    book: LogBook, root: logging.Logger, tmp_path: Path
) -> None:
    root.addHandler(logging.NullHandler())
    book.use(LogSettings(tmp_path))
    assert root.level == logging.WARNING


def test_json_lines_and_secrets_come_from_options(
    book: LogBook, root: logging.Logger, tmp_path: Path
) -> None:
    options = {
        "env.log.dir": str(tmp_path),
        "firesteel.logging.format": "json",
        "my.password": "correct horse",
    }
    book.use(read_log_settings(Configuration.from_dict(options)))
    root.handle(record("opens with correct horse", of_task=False))
    assert json.loads(book.driver_files()[0].read_text())["message"] == "opens with ******"


def test_a_directory_that_cannot_be_written_is_refused(book: LogBook, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"log files cannot be written to .*env\.log\.dir"):
        book.use(LogSettings(tmp_path / "file" / "logs"))


@pytest.mark.parametrize("key", ["env.log.max", "firesteel.logging.max-size"])
def test_sizes_and_counts_that_mean_nothing_are_refused(key: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"option '{key}': expected 1 or more, got 0"):
        read_log_settings(Configuration.from_dict({key: "0"}))


def test_files_of_drivers_that_have_ended_are_forgotten_but_the_newest(tmp_path: Path) -> None:
    dead = [4_000_001, 4_000_002, 4_000_003]  # above what Linux gives to processes
    for age, process in enumerate(dead):
        for end in ("driver.log", "executor-0.out.1"):
            path = tmp_path / f"pre-{process}-{end}"
            path.write_text("")
            os.utime(path, (1000 + age, 1000 + age))
    own = tmp_path / f"pre-{os.getpid()}-driver.log"
    own.write_text("")
    (tmp_path / "something-else.log").write_text("")
    forget_old_files(tmp_path, "pre-", kept=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [own.name, "something-else.log", "pre-4000003-driver.log", "pre-4000003-executor-0.out.1"]
    )


def test_memory_forgets_the_oldest_text() -> None:
    recent = RecentText(most=10)
    for text in ("aaaa", "bbbb", "cccc"):
        recent.write(text)
    assert recent.read() == "bbbbcccc"
    recent.write("x" * 30)
    assert recent.read() == "x" * 10
