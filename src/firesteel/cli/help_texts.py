"""How the commands show examples in their help."""

from __future__ import annotations

__all__ = ["examples"]


def examples(*pairs: tuple[str, str]) -> str:
    """The end of a command's help: example commands, each with what it does, on lines that are not filled up.

    >>> examples(("firesteel list", "what runs")).splitlines()[1:]
    ['Examples:', '  # what runs', '  firesteel list']
    """
    lines = [line for command, purpose in pairs for line in (f"  # {purpose}", f"  {command}")]
    return "\n".join(["\b", "Examples:", *lines])
