"""Streams that a program builds and never runs: told when the program ends, with the line that built the first.

Building streams runs nothing, and a forgotten ``execute()`` shows in no other way: the program ends at once, without an
error. Nothing is said where streams are built to look at them - in a notebook, at a prompt, in tests - or when the
program has failed anyway.
"""

from __future__ import annotations

import atexit
import builtins
import os
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager

__all__ = ["BuiltStreams", "telling_of_unexecuted_streams"]

_OWN = "firesteel."
#: Programs that run the tests and examples of others.
_RUNNERS = frozenset({"unittest", "doctest", "IPython", "ipykernel_launcher"})


class BuiltStreams:
    """What an environment has been given since it was executed last."""

    __slots__ = ("_place",)

    def __init__(self) -> None:
        self._place: str | None = None

    def add(self) -> None:
        """An operator was added; of the first one, the line of the program is kept."""
        if self._place is None:
            self._place = _users_line()
            _waiting[id(self)] = (self, self._place)

    def forget(self) -> None:
        """They have run, or somebody has looked at their plan."""
        self._place = None
        _waiting.pop(id(self), None)


#: By id, in the order in which they were built. They stay although their environment goes: that is the mistake.
_waiting: dict[int, tuple[BuiltStreams, str]] = {}


@contextmanager
def telling_of_unexecuted_streams() -> Iterator[None]:
    """Tell of those that a program has built inside the block, unless it fails."""
    before = set(_waiting)
    try:
        yield
    except SystemExit as end:
        _tell(end.code in (None, 0), before)
        raise
    except BaseException:
        _tell(False, before)
        raise
    _tell(True, before)


def _tell(is_wanted: bool, except_for: Set[int] = frozenset()) -> None:
    """Tell of those that wait, if it is wanted, and forget them."""
    places = [_waiting.pop(key)[1] for key in [*_waiting] if key not in except_for]
    if is_wanted and sys.stderr is not None:
        for place in places:
            print(
                f"the stream that {place} builds never ran: the program has ended without env.execute(), and building "
                "streams runs nothing; call env.execute() when all streams and sinks are there",
                file=sys.stderr,
            )


def _tell_at_exit() -> None:
    has_failed = hasattr(sys, "last_value") or hasattr(sys, "last_exc")
    _tell(not has_failed and _is_program())


atexit.register(_tell_at_exit)


def _is_program() -> bool:
    """Whether this process runs a program from its beginning to its end, not lines or tests one by one."""
    if hasattr(sys, "ps1") or sys.flags.interactive or hasattr(builtins, "__IPYTHON__"):
        return False
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    name = spec.name if spec is not None else os.path.basename(getattr(main, "__file__", None) or "")
    # Of processes that pytest starts for tests, nothing but its modules tells.
    return name.partition(".")[0] not in _RUNNERS and "_pytest" not in sys.modules


def _users_line() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
