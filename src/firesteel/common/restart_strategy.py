"""Restart strategies: when and how often a failed job starts again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from firesteel.common import options
from firesteel.common._override import override
from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError, WrongArgumentError, short_repr
from firesteel.common.time import Duration

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]

Delay = int | timedelta


class RestartStrategyConfiguration:
    """A choice of restart strategy; equal when kind and settings are."""

    def get_description(self) -> str:
        """Say what the strategy does."""
        return type(self).__name__

    def to_configuration(self) -> Configuration:
        """Return the options that choose this strategy."""
        return Configuration()

    def _settings(self) -> tuple[Any, ...]:
        return tuple(sorted(self.__dict__.items()))

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    @override
    def __hash__(self) -> int:
        return hash((type(self), self._settings()))

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_description()})"


_NO_TIME = timedelta(0)


def _timedelta(value: object, name: str, positive: bool = False) -> timedelta:
    if isinstance(value, int) and not isinstance(value, bool):
        value = timedelta(milliseconds=value)
    if not isinstance(value, timedelta):
        raise WrongArgumentError(
            f"{name} must be milliseconds or a timedelta, got {short_repr(value)} ({type(value).__name__})"
        )
    if value < _NO_TIME:
        raise ProgramError(f"{name} must not be negative, got {Duration.of_timedelta(value)}")
    if positive and value == _NO_TIME:
        raise ProgramError(f"{name} must be more than 0")
    return value


def _count(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongArgumentError(
            f"{name} must be a whole number, got {short_repr(value)} ({type(value).__name__})"
        )
    if value < least:
        raise ProgramError(f"{name} must be at least {least}, got {value}")
    return value


_duration = Duration.of_timedelta


class RestartStrategies:
    """Where restart strategies are made.

    >>> RestartStrategies.fixed_delay_restart(3, 10_000).get_description()
    'restart up to 3 times, each after 10 s'
    """

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Never."""

        @override
        def get_description(self) -> str:
            return "no restart"

        @override
        def to_configuration(self) -> Configuration:
            """Return the options that choose it."""
            return Configuration().set(options.RESTART_STRATEGY, "none")

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Whatever the configuration says."""

        @override
        def get_description(self) -> str:
            return "restart as the configuration says"

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """So many times, always after the same time."""

        def __init__(self, restart_attempts: int, delay_between_attempts_interval: Delay) -> None:
            self._attempts = _count(restart_attempts, "restart_attempts", 0)
            self._delay = _timedelta(delay_between_attempts_interval, "delay_between_attempts_interval")

        def get_restart_attempts(self) -> int:
            """Return how many times."""
            return self._attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time between failure and restart."""
            return self._delay

        @override
        def get_description(self) -> str:
            return f"restart up to {self._attempts} times, each after {_duration(self._delay)}"

        @override
        def to_configuration(self) -> Configuration:
            """Return the options that choose it."""
            return (
                Configuration()
                .set(options.RESTART_STRATEGY, "fixed-delay")
                .set(options.FIXED_DELAY_ATTEMPTS, self._attempts)
                .set(options.FIXED_DELAY_DELAY, _duration(self._delay))
            )

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """As long as failures are not too frequent."""

        def __init__(
            self, max_failure_rate: int, failure_interval: Delay, delay_between_attempts_interval: Delay
        ) -> None:
            self._max_rate = _count(max_failure_rate, "max_failure_rate", 1)
            self._interval = _timedelta(failure_interval, "failure_interval", positive=True)
            self._delay = _timedelta(delay_between_attempts_interval, "delay_between_attempts_interval")

        def get_max_failure_rate(self) -> int:
            """Return how many failures per interval."""
            return self._max_rate

        def get_failure_interval(self) -> timedelta:
            """Return the interval in which failures count."""
            return self._interval

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time between failure and restart."""
            return self._delay

        @override
        def get_description(self) -> str:
            rate = f"at most {self._max_rate} failures in {_duration(self._interval)}"
            return f"restart after {_duration(self._delay)} while there are {rate}"

        @override
        def to_configuration(self) -> Configuration:
            """Return the options that choose it."""
            return (
                Configuration()
                .set(options.RESTART_STRATEGY, "failure-rate")
                .set(options.FAILURE_RATE_MAX_FAILURES, self._max_rate)
                .set(options.FAILURE_RATE_INTERVAL, _duration(self._interval))
                .set(options.FAILURE_RATE_DELAY, _duration(self._delay))
            )

    class ExponentialDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Again and again, each time later, until the job has run long enough."""

        def __init__(
            self,
            initial_backoff: Delay,
            max_backoff: Delay,
            backoff_multiplier: float,
            reset_backoff_threshold: Delay,
            jitter_factor: float,
        ) -> None:
            self._initial = _timedelta(initial_backoff, "initial_backoff", positive=True)
            self._max = _timedelta(max_backoff, "max_backoff")
            self._multiplier = float(backoff_multiplier)
            self._reset = _timedelta(reset_backoff_threshold, "reset_backoff_threshold")
            self._jitter = float(jitter_factor)
            if self._max < self._initial:
                raise ProgramError(
                    f"max_backoff must be at least initial_backoff, got {_duration(self._max)} and "
                    f"{_duration(self._initial)}"
                )
            if self._multiplier < 1:
                raise ProgramError(f"backoff_multiplier must be at least 1, got {backoff_multiplier}")
            if not 0 <= self._jitter <= 1:
                raise ProgramError(f"jitter_factor must be between 0 and 1, got {jitter_factor}")

        def get_initial_backoff(self) -> timedelta:
            """Return the time before the first restart."""
            return self._initial

        def get_max_backoff(self) -> timedelta:
            """Return the longest time before a restart."""
            return self._max

        def get_backoff_multiplier(self) -> float:
            """Return how the time grows with each failure."""
            return self._multiplier

        def get_reset_backoff_threshold(self) -> timedelta:
            """Return how long the job must run for the time to start small again."""
            return self._reset

        def get_jitter_factor(self) -> float:
            """Return the random part of the time, as a fraction."""
            return self._jitter

        @override
        def get_description(self) -> str:
            return (
                f"restart after {_duration(self._initial)} at first, {self._multiplier} times that after each "
                f"failure, at most {_duration(self._max)}"
            )

        @override
        def to_configuration(self) -> Configuration:
            """Return the options that choose it."""
            return (
                Configuration()
                .set(options.RESTART_STRATEGY, "exponential-delay")
                .set(options.EXPONENTIAL_INITIAL_BACKOFF, _duration(self._initial))
                .set(options.EXPONENTIAL_MAX_BACKOFF, _duration(self._max))
                .set(options.EXPONENTIAL_MULTIPLIER, self._multiplier)
                .set(options.EXPONENTIAL_RESET, _duration(self._reset))
                .set(options.EXPONENTIAL_JITTER, self._jitter)
            )

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        """Never restart."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        """Restart as the configuration says."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: Delay
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Restart that many times, each after the same time (milliseconds or a timedelta)."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Delay, delay_interval: Delay
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Restart while failures per interval stay within the rate (milliseconds or timedeltas)."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: Delay,
        max_backoff: Delay,
        backoff_multiplier: float,
        reset_backoff_threshold: Delay,
        jitter_factor: float,
    ) -> RestartStrategies.ExponentialDelayRestartStrategyConfiguration:
        """Restart always, later with each failure (milliseconds or timedeltas); not in PyFlink, named as in Java."""
        return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(
            initial_backoff, max_backoff, backoff_multiplier, reset_backoff_threshold, jitter_factor
        )
