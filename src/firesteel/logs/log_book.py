"""The logs of this process's driver and of the executors that its tasks run in.

Everything that tasks log and print comes to the driver, which writes it down by executor: in files where ``env.log.dir`` says
so, otherwise the newest of it in memory, for who asks by REST. So the log of an executor that is lost is still there, and nobody
has to collect files from machines.

There is one `LOGS`, because logging belongs to the process.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from firesteel.common._executor_name import executor_name
from firesteel.common._override import override
from firesteel.common.errors import SetupError
from firesteel.logs.levels import ROOT, set_level
from firesteel.logs.lines import TextLines
from firesteel.logs.origin import origin_of
from firesteel.logs.outputs import PrintedFile, RecentText, RolledFile, forget_old_files, rolled_files
from firesteel.logs.settings import LogSettings

__all__ = ["LOGS", "ExecutorId", "LogBook"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExecutorId:
    """What a task runs in: its machine, and the process of the engine, if that has a name."""

    host: str
    executor: str = ""

    @property
    def name(self) -> str:
        """The name of the executor."""
        return executor_name(self.host, self.executor)


@dataclass(slots=True)
class _Outputs:
    """What one executor logs and prints."""

    log: RolledFile | None
    out: PrintedFile | None
    recent_log: RecentText = field(default_factory=RecentText)
    recent_out: RecentText = field(default_factory=RecentText)


class LogBook:
    """May be used from any thread. ``root`` is the logger that the driver's file hangs on."""

    def __init__(self, root: logging.Logger = logging.root) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._settings = LogSettings()
        self._form = self._settings.lines()
        self._is_asked = False
        self._driver: RolledFile | None = None
        self._added: list[tuple[logging.Logger, logging.Handler]] = []
        self._recent = RecentText()
        self._executors: dict[str, _Outputs] = {}

    # What the composition root calls.

    @property
    def form(self) -> logging.Formatter:
        """The form of a line, without the secrets that are known so far."""
        return self._form

    def expect(self, settings: LogSettings) -> None:
        """Before the first job: lines have this form, and these secrets are in none; nothing is opened yet."""
        with self._lock:
            secrets = settings.secrets | self._settings.secrets
            self._settings = replace(self._settings, as_json=settings.as_json, secrets=secrets)
            self._form = self._settings.lines()

    def use(self, settings: LogSettings) -> None:
        """From now on log so; raises `SetupError` where the directory cannot be written."""
        with self._lock:
            now = self._settings
            if now.directory is not None and settings.directory != now.directory:
                _LOG.warning("this process logs to %s already, and so do further jobs", now.directory)
            for name, level in settings.levels.items():
                set_level(name, level)
            settings = replace(
                settings,
                directory=now.directory or settings.directory,
                secrets=settings.secrets | now.secrets,
            )
            if settings.directory is not None and self._driver is None:
                self._open_files(settings)
                self._executors.clear()  # those that are known from earlier jobs have no files
            files = [self._driver, *(outputs.log for outputs in self._executors.values())]
            for file in files:
                if file is not None:
                    file.setFormatter(settings.lines())  # there may be more secrets now
            self._settings, self._form = settings, settings.lines()

    def keep_recent(self) -> None:
        """Somebody may ask: remember the newest lines from now on, of Firesteel's own loggers where there is no file."""
        with self._lock:
            if not self._is_asked:
                self._is_asked = True
                self._add(logging.getLogger("firesteel"), _Recent(self._recent, self._lines))

    def close(self) -> None:
        """Log no more; the files stay."""
        with self._lock:
            for logger, handler in self._added:
                logger.removeHandler(handler)
                handler.close()
            self._added.clear()
            for outputs in self._executors.values():
                for file in (outputs.log, outputs.out):
                    if file is not None:
                        file.close()
            self._executors.clear()
            self._driver, self._settings, self._is_asked = None, LogSettings(), False
            self._form = self._settings.lines()

    # What tasks say.

    def task_logged(self, executor: ExecutorId, record: logging.LogRecord) -> None:
        """A record of a task."""
        outputs = self._outputs(executor.name)
        if outputs.log is not None:
            outputs.log.handle(record)
        elif self._is_asked:
            outputs.recent_log.write(f"{self._lines().format(record)}\n")

    def task_printed(self, executor: ExecutorId, text: str) -> None:
        """Lines that a task has printed."""
        outputs = self._outputs(executor.name)
        if outputs.out is not None:
            outputs.out.write(text)
        elif self._is_asked:
            outputs.recent_out.write(text)

    # Who asks.

    def driver_files(self) -> list[Path]:
        """The files of the driver's log, the newest first; none where there is no directory for them."""
        return [] if self._driver is None else rolled_files(self._driver.path)

    def driver_text(self) -> str:
        """The newest lines of the driver, where there is no file."""
        return self._recent.read()

    def executor_files(self, name: str, printed: bool = False) -> list[Path]:
        """The files of an executor, the newest first: of what its tasks have logged, or printed."""
        outputs = self._executors.get(name)
        file = None if outputs is None else outputs.out if printed else outputs.log
        return [] if file is None else rolled_files(file.path)

    def executor_text(self, name: str, printed: bool = False) -> str:
        """The newest lines of an executor, where there is no file."""
        outputs = self._executors.get(name)
        if outputs is None:
            return ""
        return (outputs.recent_out if printed else outputs.recent_log).read()

    def executors(self) -> Iterable[str]:
        """Those of which something is known."""
        return list(self._executors)

    # Files.

    def _open_files(self, settings: LogSettings) -> None:
        directory = settings.directory
        assert directory is not None
        driver = RolledFile(
            directory / f"{_prefix()}{os.getpid()}-driver.log",
            settings.max_size,
            settings.kept,
            settings.lines(),
        )
        driver.addFilter(lambda record: origin_of(record) is None)  # tasks have files of their own
        try:
            driver.stream = driver._open()
            forget_old_files(directory, _prefix(), settings.kept)
        except OSError as error:
            raise SetupError(
                f"log files cannot be written to {directory}: {error}; 'env.log.dir' names another directory"
            ) from error
        if not self._root.handlers:
            self._add(self._root, _LastResort())  # what Python does by itself only while there is no handler
            if self._root.level == logging.WARNING and ROOT not in settings.levels:
                self._root.setLevel(logging.INFO)
        self._driver = driver
        self._add(self._root, driver)

    def _add(self, logger: logging.Logger, handler: logging.Handler) -> None:
        logger.addHandler(handler)
        self._added.append((logger, handler))

    def _outputs(self, name: str) -> _Outputs:
        outputs = self._executors.get(name)
        if outputs is not None:
            return outputs
        with self._lock:
            if name not in self._executors:
                self._executors[name] = self._new_outputs(name)
            return self._executors[name]

    def _new_outputs(self, name: str) -> _Outputs:
        settings = self._settings
        if settings.directory is None:
            return _Outputs(None, None)
        safe = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in name)
        stem = settings.directory / f"{_prefix()}{os.getpid()}-executor-{safe.removeprefix('executor-')}"
        return _Outputs(
            RolledFile(
                stem.with_name(f"{stem.name}.log"), settings.max_size, settings.kept, settings.lines()
            ),
            PrintedFile(stem.with_name(f"{stem.name}.out"), settings.max_size, settings.kept),
        )

    def _lines(self) -> logging.Formatter:
        return TextLines(self._settings.secrets)


def _prefix() -> str:
    return f"firesteel-{getpass.getuser()}-{socket.gethostname()}-"


class _LastResort(logging.Handler):
    """Shows what Python shows where nobody has configured logging."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        last = logging.lastResort
        if last is not None and record.levelno >= last.level:
            last.handle(record)


class _Recent(_LastResort):
    """Remembers lines, and shows them if nobody else would: this handler must not be the one that silences Python's own."""

    def __init__(self, recent: RecentText, lines: Callable[[], logging.Formatter]) -> None:
        super().__init__()
        self._recent = recent
        self._lines = lines

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if origin_of(record) is None:
            self._recent.write(f"{self._lines().format(record)}\n")
        if not _is_handled_elsewhere(record, self):
            super().emit(record)


def _is_handled_elsewhere(record: logging.LogRecord, own: logging.Handler) -> bool:
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        if any(handler is not own for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


LOGS = LogBook()
