"""InputFormat, the marker of old-style bounded inputs."""

from __future__ import annotations

__all__ = ["InputFormat"]


class InputFormat:
    """Base of the inputs that `create_input` takes; formats build their own on it."""
