"""How much tests search that draw programs, cases and schedules: the environment variable FIRESTEEL_TEST_EFFORT.

quick    a fifth of everything: what `scripts/test` does
whole    all that continuous integration owes, `scripts/test --whole`; also where the variable is not set
long     many times more, and others each time: for a night
"""

from __future__ import annotations

import os

__all__ = ["EFFORT", "VARIABLE", "cases"]

VARIABLE = "FIRESTEEL_TEST_EFFORT"
_LEVELS = ("quick", "whole", "long")

EFFORT = os.environ.get(VARIABLE) or "whole"
if EFFORT not in _LEVELS:
    raise ValueError(f"{VARIABLE} is {EFFORT!r}, expected one of {', '.join(_LEVELS)}")


def cases(whole: int, long: int, effort: str = EFFORT) -> int:
    """How many there are to be: ``whole`` in continuous integration, ``long`` where there is time.

    >>> cases(2_000, 20_000, "whole"), cases(2_000, 20_000, "quick"), cases(3, 100, "quick")
    (2000, 400, 1)
    """
    return {"quick": max(1, whole // 5), "whole": whole, "long": long}[effort]
