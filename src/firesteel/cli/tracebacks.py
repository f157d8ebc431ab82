"""One traceback that shows the user's lines: without Firesteel's own frames and those of the machinery around."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import firesteel
from firesteel.common._did_you_mean import suggestion_for
from firesteel.common.errors import FiresteelError

#: Set to 1: tracebacks are shown whole.
FULL_VARIABLE = "FIRESTEEL_FULL_TRACEBACK"

_OWN = str(Path(firesteel.__file__).parent) + os.sep
_MACHINERY = ("runpy", "runpy.py", "<frozen runpy>", "<frozen importlib._bootstrap>")


def format_error(error: BaseException) -> str:
    """The error as a person wants to see it, ending in a newline."""
    if os.environ.get(FULL_VARIABLE) == "1":
        return "".join(traceback.format_exception(error))
    if isinstance(error, ModuleNotFoundError) and error.name == "pyflink":
        return _without_pyflink(error)
    summary = traceback.TracebackException.from_exception(error)
    _trim(summary, error)
    if not summary.stack and summary.__cause__ is None and summary.__context__ is None:
        return "".join(summary.format_exception_only())
    return _with_suggestion("".join(summary.format()), error)


def _with_suggestion(text: str, error: BaseException) -> str:
    """The text with the name that may be meant; Python itself adds it from 3.12 on."""
    suggestion = None if getattr(error, "__notes__", None) else suggestion_for(error)
    return text if suggestion is None else f"{text.rstrip()}. Did you mean: {suggestion!r}?\n"


def _without_pyflink(error: ModuleNotFoundError) -> str:
    """One sentence for a PyFlink program that was started as one of Firesteel."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame)]
    who = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "the program"
    return (
        f"{who} imports pyflink, which is not installed: 'firesteel run --pyflink job.py' runs PyFlink programs with "
        "Firesteel in its place; or import firesteel instead\n"
    )


def _trim(summary: traceback.TracebackException, error: BaseException) -> None:
    deliberate = isinstance(error, FiresteelError) or _is_refusal(summary, error)
    summary.stack = _users_frames(summary.stack, deliberate)
    if deliberate:
        # Its message already says what the cause was, with the traceback from the task if there is one.
        summary.__cause__ = summary.__context__ = None
    for inner, inner_error in (
        (summary.__cause__, error.__cause__),
        (summary.__context__, error.__context__),
    ):
        if inner is not None and inner_error is not None:
            _trim(inner, inner_error)


def _is_refusal(summary: traceback.TracebackException, error: BaseException) -> bool:
    """Whether Firesteel says that it has no such feature, rather than a method of the program."""
    by_us = bool(summary.stack) and summary.stack[-1].filename.startswith(_OWN)
    return isinstance(error, NotImplementedError) and by_us


def _users_frames(stack: traceback.StackSummary, deliberate: bool) -> traceback.StackSummary:
    frames = list(stack)
    first = next((i for i, frame in enumerate(frames) if not _is_ours(frame)), None)
    if first is None:
        # No line of the user's. A fault of ours is shown whole; otherwise the message says it all: an error
        # made on purpose, or a program that Python could not even load.
        ours = bool(frames) and frames[-1].filename.startswith(_OWN)
        frames = frames if ours and not deliberate else []
    elif deliberate:
        frames = [frame for frame in frames if not _is_ours(frame)]
    else:
        frames = frames[first:]
    return traceback.StackSummary.from_list(frames)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_OWN) or os.path.basename(frame.filename) in _MACHINERY
