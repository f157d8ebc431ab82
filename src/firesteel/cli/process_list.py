"""Secrets on the command line (``-D s3.secret-key=...``) do not stay in the list of processes, which every user can read.

The kernel shows the memory in which it has put the words of the command, and that memory is the process's own to write to. From
the start of the process until then, some tenths of a second, they can be seen; files are the better place for secrets.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path

from firesteel.common._redaction import is_sensitive, marked_keys, redacted_text

__all__ = ["hide_secrets", "secret_values"]

_PROCESS = Path("/proc/self")
#: Places of the first and the last byte of the words, among what follows the name of the program in ``stat``.
_FIRST, _LAST = 45, 46


def secret_values(words: Sequence[str]) -> list[str]:
    """The values of options among the words of a command that nobody else may see.

    >>> secret_values(["run", "-D", "s3.secret-key=abc", "-Dparallelism.default=2", "-Durl=http://me:pw@host", "job.py"])
    ['abc', 'http://me:pw@host']
    """
    pairs = dict(_pairs(words))
    marked = marked_keys(pairs)
    return [
        value
        for key, value in pairs.items()
        if value and (is_sensitive(key, marked) or redacted_text(value) != value)
    ]


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, word in enumerate(words):
        pair = (
            word
            if number and words[number - 1] == "-D"
            else word.removeprefix("-D")
            if word.startswith("-D")
            else ""
        )
        key, _, value = pair.partition("=")
        if key:
            yield key.strip(), value


def hide_secrets(words: Sequence[str]) -> None:
    """Overwrite them where other users of the machine would see them; only Linux shows, and lets one write, such a place."""
    values = [value.encode("utf-8", "surrogateescape") for value in secret_values(words)]
    if not values or not (_PROCESS / "cmdline").exists():
        return
    shown = (_PROCESS / "cmdline").read_bytes()
    places = (_PROCESS / "stat").read_text().rpartition(")")[2].split()
    start, end = int(places[_FIRST]), int(places[_LAST])
    if not start or end - start < len(shown):
        return
    for value in values:
        at = shown.find(value)
        while at >= 0:
            ctypes.memset(start + at, ord("*"), len(value))
            at = shown.find(value, at + len(value))
