"""Restart strategies: when and how often a failed job starts again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from firesteel.common import options
from firesteel.common.configuration import Configuration
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

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), self._settings()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_description()})"


def _timedelta(value: object, name: str) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return timedelta(milliseconds=value)
    raise TypeError(f"{name} must be milliseconds or a timedelta, got {value!r} ({type(value).__name__})")


_duration = Duration.of_timedelta


class RestartStrategies:
    """Where restart strategies are made.

    >>> RestartStrategies.fixed_delay_restart(3, 10_000).get_description()
    'restart up to 3 times, each after 10 s'
    """

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Never."""

        def get_description(self) -> str:
            """Say what it does."""
            return "no restart"

        def to_configuration(self) -> Configuration:
            """Return the options that choose it."""
            return Configuration().set(options.RESTART_STRATEGY, "none")

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Whatever the configuration says."""

        def get_description(self) -> str:
            """Say what it does."""
            return "restart as the configuration says"

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """So many times, always after the same time."""

        def __init__(self, restart_attempts: int, delay_between_attempts_interval: Delay) -> None:
            self._attempts = restart_attempts
            self._delay = _timedelta(delay_between_attempts_interval, "delay_between_attempts_interval")

        def get_restart_attempts(self) -> int:
            """Return how many times."""
            return self._attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time between failure and restart."""
            return self._delay

        def get_description(self) -> str:
            """Say what it does."""
            return f"restart up to {self._attempts} times, each after {_duration(self._delay)}"

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
            self._max_rate = max_failure_rate
            self._interval = _timedelta(failure_interval, "failure_interval")
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

        def get_description(self) -> str:
            """Say what it does."""
            rate = f"at most {self._max_rate} failures in {_duration(self._interval)}"
            return f"restart after {_duration(self._delay)} while there are {rate}"

        def to_configuration(self) -> Configuration:
            """Return the options that choose it."""
            return (
                Configuration()
                .set(options.RESTART_STRATEGY, "failure-rate")
                .set(options.FAILURE_RATE_MAX_FAILURES, self._max_rate)
                .set(options.FAILURE_RATE_INTERVAL, _duration(self._interval))
                .set(options.FAILURE_RATE_DELAY, _duration(self._delay))
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
        """Restart so many times, each after the same time (milliseconds or a timedelta)."""
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
