"""Assigners and triggers that may keep or change the records that they are asked about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.contracts.windows import Trigger, WindowAssigner
from firesteel.runtime.asked import keeps_no_argument, lets_go

__all__ = ["keeps_records", "touches_elements"]


def keeps_records(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether an assigner may keep records; what it changes in them at once goes into the window with them."""
    return not (_is_ours(assigner) or _is_proven(lets_go, assigner.assign_windows))


def touches_elements(trigger: Trigger[Any, Any]) -> bool:
    """Whether a trigger may keep or change the elements that it is asked about."""
    return not (_is_ours(trigger) or _is_proven(keeps_no_argument, trigger.on_element))


def _is_ours(part: Any) -> bool:
    """Whether it is Firesteel's and calls nothing of the user's."""
    kind = type(part)
    if kind.__module__ == "builtins":
        return not callable(part)
    return _is_firesteels(kind) and all(map(_is_ours, getattr(part, "__dict__", {}).values()))


def _is_proven(proof: Callable[[Any], bool], method: Any) -> bool:
    """Whether it is certain for a method of the user's; one of Firesteel's calls something that is not known."""
    return not _is_firesteels(type(method.__self__)) and proof(method)


def _is_firesteels(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "firesteel"
