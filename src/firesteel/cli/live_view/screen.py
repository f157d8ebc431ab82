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
from typing import TextIO

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
    with wake, wakes:
        try:
            with (
                _taken_terminal(sys.stdin, sys.stdout),
                _resizing(wake),
                contextlib.suppress(KeyboardInterrupt),
            ):
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


@contextlib.contextmanager
def _taken_terminal(keyboard: TextIO, screen: TextIO) -> Iterator[None]:
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        screen.write(_ENTER)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        screen.write(_LEAVE)
        screen.flush()


@contextlib.contextmanager
def _resizing(wake: socket.socket) -> Iterator[None]:
    """Draw again as soon as the terminal has another size."""
    before = signal.signal(signal.SIGWINCH, lambda number, frame: _wake(wake))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
