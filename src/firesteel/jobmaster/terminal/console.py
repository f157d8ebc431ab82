"""What tasks print and log, written where the driver prints and logs.

Standard output belongs to the process, not to a job, so there is one `CONSOLE`. Whole texts are written
one after the other: lines of different tasks never mix, and a line that a task has left unfinished is ended before
another task writes. Something that is shown at the bottom of a terminal (the progress of a job) is erased first.

Whoever writes waits until it is written, so a slow reader of a pipe slows the tasks down and gets everything. A reader that
reads nothing at all must not stop the job: then what is printed is dropped, counted, and told when it reads again.
See `firesteel.jobmaster.terminal.patient_writer`.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from firesteel.jobmaster.terminal.patient_writer import STALL_SECONDS, PatientWriter

_LOG = logging.getLogger(__name__)

#: Bytes written at once: when that much of a pipe's buffer has become free, its reader is alive.
_PIECE = 4096


class Overlay(Protocol):
    """Something drawn at the bottom of the terminal."""

    def clear(self) -> None:
        """Erase it; its owner draws it again when it wants. Called under the console's lock."""
        ...


class Console:
    """The streams of this process, as they are at the time of writing."""

    def __init__(self, stall_seconds: float = STALL_SECONDS) -> None:
        self._lock = threading.RLock()
        self._overlays: list[Overlay] = []
        self._writers = {
            "stdout": PatientWriter(
                "standard output", stall_seconds, self._warn, self._tell_dropped_of_stdout
            ),
            "stderr": PatientWriter(
                "standard error", stall_seconds, self._warn, self._tell_dropped_of_stderr
            ),
        }
        #: By stream, whose line is not finished.
        self._unfinished: dict[str, Hashable] = {}

    def write(self, text: str, stream: str = "stdout", origin: Hashable = None) -> None:
        """Write to "stdout" or "stderr"; the next text of this origin continues a line that this one has not ended."""
        self._writers[stream].write(lambda told: self._write(text, stream, origin, told), len(text))

    def write_to(self, target: TextIO, text: str) -> None:
        """Write complete lines to a stream that is, or stands for, standard error."""
        self._writers["stderr"].write(lambda told: self._write_pieces(target, text, told), len(text))

    def log(self, attributes: Mapping[str, Any]) -> logging.LogRecord:
        """Let this process's logging handle a record that was made in a task; returns it."""
        record = logging.makeLogRecord(dict(attributes))
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            self._writers["stderr"].write(lambda told: self._handle(logger, record), len(record.getMessage()))
        return record

    def _write(self, text: str, stream: str, origin: Hashable, told: Callable[[], None]) -> None:
        target = sys.stderr if stream == "stderr" else sys.stdout
        if target is None or not text:
            return
        if self._unfinished.get(stream, origin) != origin:
            text = f"\n{text}"
        if text.endswith("\n"):
            self._unfinished.pop(stream, None)
        else:
            self._unfinished[stream] = origin
        self._write_pieces(target, text, told)

    def _write_pieces(self, target: TextIO, text: str, told: Callable[[], None]) -> None:
        with self._cleared(target):
            for begin in range(0, len(text), _PIECE):
                _write(target, text[begin : begin + _PIECE])
                told()

    def _handle(self, logger: logging.Logger, record: logging.LogRecord) -> None:
        with self._cleared(sys.stderr):
            logger.handle(record)

    # Of a stream that nobody reads.

    def _warn(self, text: str) -> None:
        """Tell by the other way that one is blocked: logging, which has a writer of its own."""
        record = _LOG.makeRecord(_LOG.name, logging.WARNING, __file__, 0, text, (), None)
        self._writers["stderr"].write(lambda told: self._handle(_LOG, record), len(text))

    def _tell_dropped_of_stdout(self, text: str) -> None:
        self._write(f"{text}\n", "stdout", None, lambda: None)

    def _tell_dropped_of_stderr(self, text: str) -> None:
        self._write(f"{text}\n", "stderr", None, lambda: None)

    # Overlays.

    @contextmanager
    def _cleared(self, target: TextIO | None) -> Iterator[None]:
        """The terminal shows nothing but what was written; only on a terminal is there anything to be kept away."""
        with self._lock:
            for overlay in self._overlays:
                overlay.clear()
            if target is not None and _is_terminal(target):
                yield
                return
        yield  # without the lock: whoever does not read a pipe must not stop the other stream too

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Nobody else writes while an overlay draws itself."""
        with self._lock:
            yield

    def show(self, overlay: Overlay) -> None:
        """Clear this overlay before anything is written."""
        with self._lock:
            self._overlays.append(overlay)

    def hide(self, overlay: Overlay) -> None:
        """Erase an overlay for good."""
        with self._lock:
            overlay.clear()
            self._overlays.remove(overlay)


def _is_terminal(target: TextIO) -> bool:
    try:
        return target.isatty()
    except (ValueError, AttributeError):  # closed, as writing will say; or an object of the program's
        return False


def _write(target: TextIO, text: str) -> None:
    try:
        target.write(text)
    except UnicodeEncodeError:  # a terminal that is not UTF-8 must not end the job
        encoding = target.encoding or "ascii"
        target.write(text.encode(encoding, "backslashreplace").decode(encoding))
    target.flush()


CONSOLE = Console()
