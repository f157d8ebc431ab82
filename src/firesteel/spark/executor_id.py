"""Which executor the process of a task belongs to. Spark does not tell its Python workers; their ancestors' command line does."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["executor_id"]

#: A worker is forked by a daemon that the executor's JVM has started, perhaps through a wrapper.
_MOST_ANCESTORS = 5
_OPTION = b"--executor-id"
EMBEDDED = "driver"


def executor_id(processes: Path = Path("/proc"), process: int | None = None) -> str:
    """Spark's name for the executor; "driver" for an embedded Spark, and where nobody can tell."""
    at = os.getpid() if process is None else process
    try:
        for _ in range(_MOST_ANCESTORS):
            words = (processes / str(at) / "cmdline").read_bytes().split(b"\0")
            if _OPTION in words[:-1]:
                return words[words.index(_OPTION) + 1].decode()
            at = _parent(processes, at)
    except (OSError, ValueError, IndexError):
        pass  # no such system, or no right to look
    return EMBEDDED


def _parent(processes: Path, process: int) -> int:
    content = (processes / str(process) / "stat").read_bytes()
    return int(content[content.rfind(b")") + 2 :].split()[1])
