"""When a failed job starts again, decided from its failures so far; pure, time and chance are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from firesteel.common import options
from firesteel.common._override import override
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.time import Duration

_NEVER = ("none", "off", "disable")


class RestartPolicy(ABC):
    """Asked once after each failed attempt."""

    @abstractmethod
    def next_delay(self, now: float) -> float | None:
        """An attempt has failed at ``now``: seconds to wait before the next one, None for the end of the job."""


class NoRestart(RestartPolicy):
    """The first failure is the end."""

    @override
    def next_delay(self, now: float) -> float | None:
        return None


@dataclass(slots=True)
class FixedDelay(RestartPolicy):
    """At most ``attempts`` restarts, each after the same time."""

    attempts: int
    delay: float
    _failures: int = field(default=0, init=False)

    @override
    def next_delay(self, now: float) -> float | None:
        """The same time, as long as there are restarts left."""
        self._failures += 1
        return self.delay if self._failures <= self.attempts else None


@dataclass(slots=True)
class FailureRate(RestartPolicy):
    """Restarts as long as no interval sees more than ``max_failures``."""

    max_failures: int
    interval: float
    delay: float
    _failures: deque[float] = field(default_factory=deque, init=False)

    @override
    def next_delay(self, now: float) -> float | None:
        """The same time, unless this failure is one too many."""
        self._failures.append(now)
        while now - self._failures[0] > self.interval:
            self._failures.popleft()
        return self.delay if len(self._failures) <= self.max_failures else None


@dataclass(slots=True)
class ExponentialDelay(RestartPolicy):
    """The time before a restart grows with each failure, until the job has run for ``reset_after`` without one.

    ``jitter``: the time is longer or shorter by a random fraction of it, up to this one. ``attempts``: restarts
    before the job fails for good, None for no limit; a long time without failure resets the count.
    """

    initial: float
    maximum: float
    multiplier: float
    reset_after: float
    jitter: float
    attempts: int | None
    random: Random
    _failures: int = field(default=0, init=False)
    _backoff: float = field(default=0.0, init=False)
    _last_failure: float = field(default=0.0, init=False)

    @override
    def next_delay(self, now: float) -> float | None:
        if self._failures and now - self._last_failure >= self.reset_after + self._backoff:
            self._failures = 0
        self._last_failure = now
        self._failures += 1
        if self.attempts is not None and self._failures > self.attempts:
            return None
        grown = self.initial if self._failures == 1 else self._backoff * self.multiplier
        self._backoff = min(grown, self.maximum)
        return min(self._backoff * (1 + self.random.uniform(-self.jitter, self.jitter)), self.maximum)


def create_policy(configuration: Configuration, random: Random) -> RestartPolicy:
    """The policy that the options name; with checkpoints and no choice, the exponential one, else none."""
    kind = configuration.get(options.RESTART_STRATEGY)
    if kind is None:
        interval = configuration.get(options.CHECKPOINTING_INTERVAL)
        kind = "none" if interval is None or interval.to_millis() <= 0 else "exponential-delay"
    if kind in _NEVER:
        return NoRestart()
    if kind == "fixed-delay":
        attempts = _count(configuration, options.FIXED_DELAY_ATTEMPTS, 0)
        return FixedDelay(attempts, _seconds(configuration, options.FIXED_DELAY_DELAY))
    if kind == "failure-rate":
        return FailureRate(
            _count(configuration, options.FAILURE_RATE_MAX_FAILURES, 1),
            _seconds(configuration, options.FAILURE_RATE_INTERVAL, positive=True),
            _seconds(configuration, options.FAILURE_RATE_DELAY),
        )
    return _exponential(configuration, random)


def _exponential(configuration: Configuration, random: Random) -> ExponentialDelay:
    get = configuration.get
    multiplier, jitter = get(options.EXPONENTIAL_MULTIPLIER), get(options.EXPONENTIAL_JITTER)
    if multiplier < 1:
        raise InvalidOptionError(
            f"option '{options.EXPONENTIAL_MULTIPLIER.key}': expected at least 1, got {multiplier}"
        )
    if not 0 <= jitter <= 1:
        raise InvalidOptionError(
            f"option '{options.EXPONENTIAL_JITTER.key}': expected a fraction between 0 and 1, got {jitter}"
        )
    initial = _seconds(configuration, options.EXPONENTIAL_INITIAL_BACKOFF, positive=True)
    maximum = _seconds(configuration, options.EXPONENTIAL_MAX_BACKOFF)
    if maximum < initial:
        raise InvalidOptionError(
            f"option '{options.EXPONENTIAL_MAX_BACKOFF.key}': expected at least the initial backoff of {initial} s, "
            f"got {maximum} s"
        )
    limited = get(options.EXPONENTIAL_ATTEMPTS) is not None
    return ExponentialDelay(
        initial,
        maximum,
        multiplier,
        _seconds(configuration, options.EXPONENTIAL_RESET),
        jitter,
        _count(configuration, options.EXPONENTIAL_ATTEMPTS, 0) if limited else None,
        random,
    )


def _count(configuration: Configuration, option: ConfigOption[Any], least: int) -> int:
    count: int = configuration.get(option)
    if count < least:
        raise InvalidOptionError(f"option '{option.key}': expected at least {least}, got {count}")
    return count


def _seconds(configuration: Configuration, option: ConfigOption[Duration], positive: bool = False) -> float:
    seconds = configuration.get(option).to_millis() / 1000
    if seconds < 0 or (positive and seconds == 0):
        expected = "more than 0" if positive else "at least 0"
        raise InvalidOptionError(f"option '{option.key}': expected {expected}, got {seconds} s")
    return seconds
