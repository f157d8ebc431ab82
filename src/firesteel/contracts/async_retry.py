"""When and how soon an asynchronous call that failed is tried again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from firesteel.common._override import override
from firesteel.common.errors import ProgramError

__all__ = [
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

OUT = TypeVar("OUT")
ResultPredicate = Callable[[list[OUT]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Which results and which errors call for another attempt."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate[OUT] | None:
        """Tells from a result whether to try again; None for never."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Tells from an error whether to try again; None for never."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """How often and after which pauses to try again."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether attempt number ``current_attempts`` (from 1) may take place."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Pause before that attempt."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """What calls for another attempt."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never try again."""
        return NoRetryStrategy()

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate[Any] | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """Try again after the same pause each time."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate[Any] | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """Try again after pauses that grow by ``multiplier``."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """A predicate made of two functions."""

    def __init__(
        self, result_predicate: ResultPredicate[OUT] | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    @override
    def result_predicate(self) -> ResultPredicate[OUT] | None:
        return self._result_predicate

    @override
    def exception_predicate(self) -> ExceptionPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """Never tries again."""

    @override
    def can_retry(self, current_attempts: int) -> bool:
        return False

    @override
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """-1: there is no next attempt."""
        return -1

    @override
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Nothing calls for another attempt."""
        return RetryPredicate(None, None)


class _BoundedRetryStrategy(AsyncRetryStrategy[OUT]):
    def __init__(
        self,
        max_attempts: int,
        result_predicate: ResultPredicate[OUT] | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        self._max_attempts = _positive("max_attempts", max_attempts)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    @override
    def can_retry(self, current_attempts: int) -> bool:
        """Whether the number of attempts is not used up."""
        return current_attempts <= self._max_attempts

    @override
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


class FixedDelayRetryStrategy(_BoundedRetryStrategy[OUT]):
    """Tries again after the same pause each time.

    >>> strategy = FixedDelayRetryStrategy(2, 500, None, None)
    >>> strategy.can_retry(2), strategy.can_retry(3), strategy.get_backoff_time_millis(2)
    (True, False, 500)
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate[OUT] | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._backoff_time_millis = _positive("backoff_time_millis", backoff_time_millis)

    @override
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis


class ExponentialBackoffDelayRetryStrategy(_BoundedRetryStrategy[OUT]):
    """Tries again after pauses that grow up to a limit; each pause depends on the attempt alone.

    >>> strategy = ExponentialBackoffDelayRetryStrategy(5, 100, 350, 2.0, None, None)
    >>> [strategy.get_backoff_time_millis(attempt) for attempt in (1, 2, 3, 4)]
    [100, 200, 350, 350]
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate[OUT] | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._initial_delay = _positive("initial_delay", initial_delay)
        self._max_retry_delay = _positive("max_retry_delay", max_retry_delay)
        self._multiplier = _positive("multiplier", multiplier)

    @override
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """The pause before an attempt."""
        delay: float = self._initial_delay
        for _ in range(1, current_attempts):
            delay = int(min(delay * self._multiplier, self._max_retry_delay))
        return int(delay)


N = TypeVar("N", int, float)


def _positive(name: str, value: N) -> N:
    if value <= 0:
        raise ProgramError(f"{name} must be greater than 0, got {value!r}")
    return value
