"""Processes of drivers: how they are told from others that get their number later, and how they are ended."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
from pathlib import Path

from firesteel.service.records import ProcessMark

__all__ = ["end_driver", "is_alive", "mark_of", "this_machine"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_machine() -> str:
    """The name by which machines that share a folder are told apart."""
    return socket.gethostname()


def mark_of(pid: int) -> ProcessMark:
    """A process of this machine."""
    return ProcessMark(pid, this_machine(), _since(pid))


def is_alive(process: ProcessMark) -> bool:
    """Whether this very process lives on this machine. One of another machine counts as dead.

    A service sees processes of another machine only when it takes over from one there; a driver that lives on there is kept
    from completing checkpoints by the driver that takes its job.
    """
    if process.machine != this_machine():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # the number belongs to another user by now
    since = _since(process.pid)
    return since == process.since if process.since and since else since != "zombie"


def _since(pid: int) -> str:
    """When a process began, in the words of its system; empty where that cannot be read, ``zombie`` when only its end is left."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        if fields[0] == "Z":
            return "zombie"
        return f"{_boot()}:{fields[19]}"
    except (OSError, IndexError):
        return ""


@functools.cache
def _boot() -> str:
    return _BOOT.read_text(encoding="utf-8").strip()


def end_driver(process: ProcessMark, *, by_force: bool = False) -> None:
    """Tell a driver to end, or end it: its Spark ends with it."""
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL if by_force else signal.SIGTERM)
