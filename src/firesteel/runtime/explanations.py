"""What an exception of Python's means, where it follows from how a function is used: said once, after it has happened."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import pairwise
from types import FrameType
from typing import Any

from firesteel.common._did_you_mean import closest, suggestion_for
from firesteel.common.errors import short_repr

__all__ = ["explained"]

_OWN = "firesteel."
#: Where the engine takes the outputs out of what a function returned, and the variable it has that in.
_OUTPUTS = {
    "firesteel.runtime.operators.loops": ("outcome",),
    "firesteel.runtime.operators.emission": ("results",),
    "firesteel.datastream._joined_streams": ("result", "results"),
}
#: Where the engine calls functions that combine what there is with what comes.
_COMBINING = ("firesteel.runtime.operators.reduce", "firesteel.runtime.operators.windows.")


def explained(error: BaseException, record: Any) -> str | None:
    """The rest of a sentence about an error that user code raised for a record; None when there is nothing to add."""
    try:
        return _explained(error) or _none_as_record(error, record)
    except Exception:  # noqa: BLE001 - objects of users may refuse to be looked at, and the error itself must be told
        return None


def _explained(error: BaseException) -> str | None:
    if isinstance(error, TypeError):
        return _no_iterable(error) or _none_of_its_own(error) or _no_hash(error)
    if isinstance(error, AttributeError):
        return _none_of_its_own(error) or _other_name(error)
    if isinstance(error, NameError):
        return _did_you_mean(suggestion_for(error))
    return None


def _no_iterable(error: TypeError) -> str | None:
    """A function that gives any number of outputs has returned one."""
    frames = _frames(error)
    if not frames:
        return None
    frame = frames[-1]
    for name in _OUTPUTS.get(_module(frame), ()):
        returned = frame.f_locals.get(name)
        if returned is not None and not isinstance(returned, Iterable):
            return (
                f"the function returned {short_repr(returned, 60)}, and gives any number of outputs here: yield each of "
                "them, or return a list of them"
            )
    return None


def _none_of_its_own(error: BaseException) -> str | None:
    """A reduce function works on the None that it has returned itself, as ``a.append(b)`` does."""
    frames = _frames(error)
    if "NoneType" not in str(error) or len(frames) < 2 or not _module(frames[0]).startswith(_OWN):
        return None
    for caller, called in pairwise(frames):
        if _module(called).startswith(_OWN):
            continue
        if _module(caller).startswith(_COMBINING) and _so_far(called) is None:
            return (
                "it was given the None that it has returned for the record before: return the combination (methods that "
                "change a list or a dict, such as append(), return None)"
            )
        return None
    return None


def _so_far(frame: FrameType) -> Any:
    """The argument of a reduce function, or of ``add``, that it has returned itself; anything for other functions."""
    code = frame.f_code
    arguments = code.co_varnames[: code.co_argcount]
    values = arguments[1:] if arguments[:1] == ("self",) else arguments
    if len(values) != 2:
        return frame
    return frame.f_locals.get(values[1] if code.co_name == "add" else values[0], frame)


def _none_as_record(error: BaseException, record: Any) -> str | None:
    if (
        record is not None
        or not isinstance(error, TypeError | AttributeError)
        or "NoneType" not in str(error)
    ):
        return None
    return (
        "the record is None, which a function before has returned: a forgotten return, or a method that changes a list or "
        "a dict, such as append(), which returns None"
    )


def _no_hash(error: TypeError) -> str | None:
    """A data class that can change is used as a key: of a dict, a set, or a map state."""
    name = str(error).removeprefix("unhashable type: ").strip("'")
    if name == str(error):
        return None
    for frame in _frames(error):
        values = [*frame.f_locals.values(), frame.f_globals.get(name)]
        kinds = (value if isinstance(value, type) else type(value) for value in values)
        if any(kind.__name__ == name and dataclasses.is_dataclass(kind) for kind in kinds):
            return (
                f"a data class that can change has no hash: write @dataclass(frozen=True) above class {name}"
            )
    return None


def _other_name(error: AttributeError) -> str | None:
    """A context, a state or another object of ours has it under another name."""
    kind = type(error.obj)
    if error.name is None or not kind.__module__.startswith(_OWN):
        return _did_you_mean(suggestion_for(error))
    public = [name for name in dir(kind) if not name.startswith("_")]
    suggestion = closest(error.name, public)
    if suggestion is None:
        return f"it has {', '.join(sorted(public))}"
    return _did_you_mean(f"{suggestion}()" if callable(getattr(kind, suggestion, None)) else suggestion)


def _did_you_mean(name: str | None) -> str | None:
    return None if name is None else f"did you mean {name}?"


def _frames(error: BaseException) -> list[FrameType]:
    frames: list[FrameType] = []
    step: Any = error.__traceback__
    while step is not None:
        frames.append(step.tb_frame)
        step = step.tb_next
    return frames


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
