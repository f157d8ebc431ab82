"""What keys do: a pure machine from what somebody has pressed to what is to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["SORTS", "View", "pressed", "split_keys"]

#: Keys that sort, and the column by which they do.
SORTS = {
    "t": "started",
    "n": "name",
    "i": "rate_in",
    "o": "rate_out",
    "b": "busy",
    "p": "back_pressured",
    "l": "lag_ms",
}
_UP, _DOWN = ("k", "\x1b[A", "\x1bOA"), ("j", "\x1b[B", "\x1bOB")
_ENTER = ("\r", "\n", "\x1b[C", "\x1bOC")
_BACK = ("\x1b", "\x7f", "\b", "h", "\x1b[D", "\x1bOD")
_FIRST, _LAST = ("g", "\x1b[H", "\x1b[1~"), ("G", "\x1b[F", "\x1b[4~")


@dataclass(frozen=True, slots=True)
class View:
    """What is to be seen. ``chosen`` is the id of the job that is marked, ``opened`` of the one that is shown alone.

    ``sort`` None: in the order in which jobs started, and of the dataflow. ``scroll``: lines that were left behind.
    """

    chosen: str = ""
    opened: str = ""
    sort: str | None = None
    descending: bool = False
    scroll: int = 0
    with_help: bool = False
    is_over: bool = False


def pressed(view: View, key: str, job_ids: Sequence[str]) -> View:
    """What is to be seen after a key; ``job_ids`` are those that are listed now, in their order."""
    if view.with_help:
        return replace(view, with_help=False, is_over=key == "q")
    match key:
        case "q":
            return replace(view, is_over=True)
        case "?":
            return replace(view, with_help=True)
        case _ if key in SORTS:
            return _sorted(view, SORTS[key])
        case _ if view.opened:
            return _in_job(view, key)
        case _:
            return _in_list(view, key, job_ids)


def _sorted(view: View, column: str) -> View:
    """Names and starts begin with the least, figures with the greatest; the same key again turns it around."""
    first = column not in ("name", "started")
    descending = not view.descending if view.sort == column else first
    return replace(view, sort=column, descending=descending)


def _in_job(view: View, key: str) -> View:
    if key in _BACK:
        return replace(view, opened="", scroll=0)
    if key in _UP:
        return replace(view, scroll=max(0, view.scroll - 1))
    return replace(view, scroll=view.scroll + 1) if key in _DOWN else view


def _in_list(view: View, key: str, job_ids: Sequence[str]) -> View:
    if not job_ids:
        return view
    at = job_ids.index(view.chosen) if view.chosen in job_ids else 0
    if key in _ENTER:
        return replace(view, chosen=job_ids[at], opened=job_ids[at], scroll=0)
    if key in _UP:
        at = max(0, at - 1)
    elif key in _DOWN:
        at = min(len(job_ids) - 1, at + 1)
    elif key in _FIRST:
        at = 0
    elif key in _LAST:
        at = len(job_ids) - 1
    return replace(view, chosen=job_ids[at])


def split_keys(text: str) -> list[str]:
    r"""What a terminal sends at once, key by key: keys such as arrows are several characters.

    >>> split_keys("j\x1b[Aq\x1b")
    ['j', '\x1b[A', 'q', '\x1b']
    """
    keys = []
    while text:
        size = 1
        if text[:2] in ("\x1b[", "\x1bO"):
            size = next((at + 1 for at in range(2, len(text)) if "@" <= text[at] <= "~"), len(text))
        keys.append(text[:size])
        text = text[size:]
    return keys
