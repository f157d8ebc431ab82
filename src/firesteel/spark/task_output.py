"""What user code prints and logs inside a task, on its way to the terminal of whoever started the job."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from firesteel.common._override import override
from firesteel.logs.levels import levels, set_levels
from firesteel.logs.origin import LogOrigin
from firesteel.plan.messages import LogOutput, TaskMessage, TextOutput
from firesteel.spark.no_terminal import without_terminal

_SEND_AT = 16 * 1024  # characters
_UNFINISHED_SECONDS = 0.2  # a line that was not continued for this long is shown as far as it is


class TaskOutput:
    """Gathers lines and sends them in order; those that nobody finishes are sent after a while too."""

    def __init__(
        self, send: Callable[[TaskMessage], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._send = send
        self._now = now
        self._streams: tuple[_LineStream, ...] = ()
        self._lock = threading.RLock()
        self._pending: list[str] = []
        self._size = 0
        self._stderr = False

    def write(self, text: str, to_stderr: bool) -> None:
        """Lines, or what is there of one; both streams share one order."""
        with self._lock:
            if to_stderr != self._stderr:
                self._flush()
                self._stderr = to_stderr
            self._pending.append(text)
            self._size += len(text)
            if self._size >= _SEND_AT:
                self._flush()

    def flush(self) -> None:
        """Send what has gathered; called again and again, also when nothing is printed."""
        before = self._now() - _UNFINISHED_SECONDS
        for stream in self._streams:
            if stream.unfinished_since <= before:
                stream.show()
        self._flush()

    def finish(self) -> None:
        """Nothing more will be printed: end the lines that nobody has finished, and send everything."""
        for stream in self._streams:
            stream.finish()
        self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        with self._lock:
            text = "".join(self._pending)
            self._pending.clear()
            self._size = 0
            if text:
                self._send(TextOutput(text, "stderr" if self._stderr else "stdout"))

    def log(self, record: logging.LogRecord) -> None:
        """A log record, with everything in it turned into text."""
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        with self._lock:
            self._flush()
            self._send(LogOutput(dict(record.__dict__)))

    @contextlib.contextmanager
    def redirected(self, log_levels: Mapping[str, int], origin: LogOrigin) -> Iterator[None]:
        """While this is open, print, sys.stderr and logging of this process go to the driver."""
        root = logging.getLogger()
        handler = _Handler(self, origin)
        levels_before, handlers = levels(), root.handlers[:]
        root.handlers = [handler]
        set_levels(log_levels)
        out, err = self._streams = (
            _LineStream(self, to_stderr=False, lock=self._lock, now=self._now),
            _LineStream(self, to_stderr=True, lock=self._lock, now=self._now),
        )
        stdout, stderr = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            with without_terminal():
                yield
        finally:
            sys.stdout, sys.stderr = stdout, stderr
            self.finish()
            self._streams = ()
            root.handlers = handlers
            set_levels(levels_before)


class _Handler(logging.Handler):
    def __init__(self, output: TaskOutput, origin: LogOrigin) -> None:
        super().__init__()
        self._output = output
        self._origin = origin

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._origin.mark(record)
        self._output.log(record)


class _LineStream(io.TextIOBase):
    """A text stream that hands on whole lines, so that lines of several tasks do not mix.

    What is printed of a line waits for the rest in pieces: putting them together again and again would take time that
    grows with the square of their number. It waits only for a while, and only while it is short.
    """

    def __init__(
        self, output: TaskOutput, *, to_stderr: bool, lock: threading.RLock, now: Callable[[], float]
    ) -> None:
        self._output = output
        self._to_stderr = to_stderr
        self._lock = lock
        self._now = now
        self._rest: list[str] = []
        self._size = 0
        self._is_shown = False  # whether the beginning of the line has been handed on already
        self.unfinished_since = math.inf

    @override
    def write(self, text: str) -> int:
        with self._lock:
            lines, newline, rest = text.rpartition("\n")
            if newline:
                self._output.write("".join([*self._rest, lines, newline]), self._to_stderr)
                self._forget()
                self._is_shown = False
            if rest:
                self._rest.append(rest)
                self._size += len(rest)
                if self.unfinished_since == math.inf:
                    self.unfinished_since = self._now()
                if self._size >= _SEND_AT:
                    self.show()
        return len(text)

    @override
    def writable(self) -> bool:
        return True

    @override
    def flush(self) -> None:
        """Somebody wants to see the line as far as it is."""
        self.show()

    def show(self) -> None:
        """Hand on what there is of the line."""
        with self._lock:
            if self._rest:
                self._output.write("".join(self._rest), self._to_stderr)
                self._forget()
                self._is_shown = True

    def finish(self) -> None:
        """Hand on an incomplete last line, and end it."""
        with self._lock:
            self.show()
            if self._is_shown:
                self._output.write("\n", self._to_stderr)
                self._is_shown = False

    def _forget(self) -> None:
        self._rest.clear()
        self._size = 0
        self.unfinished_since = math.inf
