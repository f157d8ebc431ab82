"""InputDependencyConstraint, kept for programs written for Flink 1.x."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """Which inputs a batch task waits for; accepted, and without effect: Spark schedules."""

    ANY = 0
    ALL = 1
