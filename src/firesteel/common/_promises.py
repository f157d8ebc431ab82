"""Promises that a class makes for its methods, and that a class derived from it does not make for its own."""

from __future__ import annotations

__all__ = ["promise_only_for"]


def promise_only_for(kind: type, *methods: str) -> None:
    """``gives_away`` of a base is not true of a class that replaces one of these methods, unless it says so itself."""
    if "gives_away" in vars(kind):
        return
    promised_by = next(each for each in kind.__mro__ if "gives_away" in vars(each))
    if any(getattr(kind, name) is not getattr(promised_by, name, getattr(kind, name)) for name in methods):
        kind.gives_away = False  # type: ignore[attr-defined]
