"""What user code prints and logs inside a task, on its way to the terminal of whoever started the job."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator

from firesteel.plan.messages import LogOutput, TaskMessage, TextOutput

_SEND_AT = 16 * 1024  # characters


class TaskOutput:
    """Gathers complete lines and sends them in order."""

    def __init__(self, send: Callable[[TaskMessage], None]) -> None:
        self._send = send
        self._lock = threading.RLock()
        self._pending: list[str] = []
        self._size = 0
        self._stderr = False

    def write(self, text: str, to_stderr: bool) -> None:
        """Complete lines; both streams share one order."""
        with self._lock:
            if to_stderr != self._stderr:
                self.flush()
                self._stderr = to_stderr
            self._pending.append(text)
            self._size += len(text)
            if self._size >= _SEND_AT:
                self.flush()

    def flush(self) -> None:
        """Send what has gathered."""
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
            self.flush()
            self._send(LogOutput(dict(record.__dict__)))

    @contextlib.contextmanager
    def redirected(self, log_level: int) -> Iterator[None]:
        """While this is open, print, sys.stderr and logging of this process go to the driver."""
        root = logging.getLogger()
        handler = _Handler(self)
        level, handlers = root.level, root.handlers[:]
        root.handlers = [handler]
        root.setLevel(log_level)
        out, err = _LineStream(self, to_stderr=False), _LineStream(self, to_stderr=True)
        stdout, stderr = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            yield
        finally:
            sys.stdout, sys.stderr = stdout, stderr
            out.finish()
            err.finish()
            root.handlers = handlers
            root.setLevel(level)
            self.flush()


class _Handler(logging.Handler):
    def __init__(self, output: TaskOutput) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.log(record)


class _LineStream(io.TextIOBase):
    """A text stream that hands on whole lines, so that lines of several tasks never mix."""

    def __init__(self, output: TaskOutput, to_stderr: bool) -> None:
        self._output = output
        self._to_stderr = to_stderr
        self._rest = ""

    def write(self, text: str) -> int:
        lines, newline, rest = (self._rest + text).rpartition("\n")
        if newline:
            self._output.write(lines + newline, self._to_stderr)
        self._rest = rest
        return len(text)

    def writable(self) -> bool:
        return True

    def finish(self) -> None:
        """Hand on an incomplete last line."""
        if self._rest:
            self._output.write(self._rest + "\n", self._to_stderr)
            self._rest = ""
