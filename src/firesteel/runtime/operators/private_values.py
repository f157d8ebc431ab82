"""Whether an operator makes private what user code gets and gives.

What a private copy of a value is says `firesteel.common._values`. With object reuse operators hand everything on as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common._values import private

Private = Callable[[Any], Any]


def as_it_is(value: Any) -> Any:
    """The value: what stands for `private` with object reuse."""
    return value


def protection(protects: bool) -> Private:
    """What makes values private, or leaves them as they are."""
    return private if protects else as_it_is
