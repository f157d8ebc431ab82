"""The terminal: drawn without flicker, read key by key, and left as it was.

Plain control sequences that every terminal of today knows, and no curses: what is drawn is the lines that tests compare.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, TextIO

from firesteel.cli.live_view.keys import View, pressed, split_keys
from firesteel.cli.live_view.lines import Line, Picture, listed_ids, picture_lines
from firesteel.cli.live_view.sampler import Sampler, Samples

__all__ = ["drawn", "show"]

_LOOKS = {"plain": "", "head": "\x1b[1m", "chosen": "\x1b[7m", "alarm": "\x1b[31m"}
_PLAIN = "\x1b[0m"
_ENTER = "\x1b[?1049h\x1b[?25l"  # the other screen, without a cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"
_MOST_INPUT = 1024


def drawn(lines: Sequence[Line], width: int) -> str:
    """What makes a terminal show these lines: each over the one before, so that nothing is blank in between."""
    return "\x1b[H" + "\r\n".join(_styled(line, width) for line in lines) + "\x1b[J"


def _styled(line: Line, width: int) -> str:
    look = _LOOKS[line.look]
    shown = f"{line.text:<{max(1, width - 1)}}" if line.look == "chosen" else line.text
    return f"{look}{shown}{_PLAIN if look else ''}\x1b[K"


def show(samples: Samples, seconds: float, view: View) -> None:
    """Show jobs until somebody presses q or Ctrl-C."""
    newest: list[Picture] = []
    wake, wakes = socket.socketpair()
    wake.setblocking(False)

    def on_picture(picture: Picture) -> None:
        newest[:] = [picture]
        _wake(wake)

    sampler = Sampler(samples, seconds, on_picture)
    terminal = _Terminal(sys.stdin, sys.stdout)
    with wake, wakes:
        try:
            with _signals(terminal, wake), terminal, contextlib.suppress(KeyboardInterrupt):
                _run(view, newest, wakes)
        finally:
            sampler.close()


def _wake(wake: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is awake, or the view is over
        wake.send(b".")


def _run(view: View, newest: list[Picture], wakes: socket.socket) -> None:
    keyboard = sys.stdin.fileno()
    while not view.is_over:
        size = shutil.get_terminal_size()
        lines = picture_lines(newest[0], view, *size) if newest else [Line("asking ...")]
        sys.stdout.write(drawn(lines, size.columns))
        sys.stdout.flush()
        ready, _, _ = select.select([keyboard, wakes], [], [])
        if wakes in ready:
            wakes.recv(_MOST_INPUT)
        if keyboard in ready:
            text = os.read(keyboard, _MOST_INPUT).decode(errors="ignore")
            if not text:  # the terminal is gone
                return
            ids = listed_ids(newest[0], view) if newest else []
            for key in split_keys(text):
                view = pressed(view, key, ids)


class _Terminal:
    """The terminal while it is ours: keys come one by one, and what was on the screen comes back."""

    def __init__(self, keyboard: TextIO, screen: TextIO) -> None:
        self._keyboard = keyboard
        self._screen = screen
        self._before = termios.tcgetattr(keyboard)

    def __enter__(self) -> None:
        tty.setcbreak(self._keyboard)
        self._screen.write(_ENTER)
        self._screen.flush()

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._before)
        self._screen.write(_LEAVE)
        self._screen.flush()


@contextlib.contextmanager
def _signals(terminal: _Terminal, wake: socket.socket) -> Iterator[None]:
    """Another size of the terminal is drawn at once; who is stopped (Ctrl-Z) or told to end gives the terminal back first."""

    def stop(number: int, frame: FrameType | None) -> None:
        terminal.__exit__()
        os.kill(os.getpid(), signal.SIGSTOP)
        terminal.__enter__()
        _wake(wake)

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    handlers: dict[int, Any] = {
        signal.SIGWINCH: lambda number, frame: _wake(wake),
        signal.SIGTSTP: stop,
        signal.SIGTERM: end,
        signal.SIGHUP: end,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
