"""Logs as paths answer them: a file, or the text that is remembered where there is none; perhaps only its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["LogText"]


@dataclass(frozen=True, slots=True)
class LogText:
    """Either ``path`` or ``text``. ``tail``: how many of the last bytes are wanted, None for all."""

    path: Path | None = None
    text: str = ""
    tail: int | None = None
