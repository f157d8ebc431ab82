"""What tasks print and log, written where the driver prints and logs.

Standard output belongs to the process, not to a job, so there is one `CONSOLE`. Whole texts are written
under its lock: lines of different tasks never mix. Something that is shown at the bottom of a terminal
(the progress of a job) is taken away first.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TextIO


class Overlay(Protocol):
    """Something drawn at the bottom of the terminal."""

    def clear(self) -> None:
        """Take it away; its owner draws it again when it wants. Called under the console's lock."""
        ...


class Console:
    """The streams of this process, as they are at the time of writing."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._overlays: list[Overlay] = []

    def write(self, text: str, stream: str = "stdout") -> None:
        """Write complete lines to "stdout" or "stderr"."""
        with self.exclusively():
            target = sys.stderr if stream == "stderr" else sys.stdout
            if target is not None:
                _write(target, text)

    def log(self, attributes: Mapping[str, Any]) -> None:
        """Let this process's logging handle a record that was made in a task."""
        record = logging.makeLogRecord(dict(attributes))
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno):
            with self.exclusively():
                logger.handle(record)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Nobody else writes, and the terminal shows nothing but what was written."""
        with self._lock:
            for overlay in self._overlays:
                overlay.clear()
            yield

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
        """Take an overlay away for good."""
        with self._lock:
            overlay.clear()
            self._overlays.remove(overlay)


def _write(target: TextIO, text: str) -> None:
    try:
        target.write(text)
    except UnicodeEncodeError:  # a terminal that is not UTF-8 must not end the job
        encoding = target.encoding or "ascii"
        target.write(text.encode(encoding, "backslashreplace").decode(encoding))
    target.flush()


CONSOLE = Console()
