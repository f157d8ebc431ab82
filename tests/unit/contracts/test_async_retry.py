import pytest

from firesteel.common.errors import ProgramError
from firesteel.contracts.async_retry import AsyncRetryStrategy
from firesteel.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)


def test_no_restart_never_retries():
    strategy = AsyncRetryStrategy.no_restart()
    assert (strategy.can_retry(1), strategy.get_backoff_time_millis(1)) == (False, -1)
    predicate = strategy.get_retry_predicate()
    assert predicate.result_predicate() is predicate.exception_predicate() is None


def test_fixed_delay_retries_so_often():
    strategy = AsyncRetryStrategy.fixed_delay(2, 100, empty_result_predicate, has_exception_predicate)
    assert [strategy.can_retry(n) for n in (1, 2, 3)] == [True, True, False]
    assert strategy.get_backoff_time_millis(2) == 100
    predicate = strategy.get_retry_predicate()
    assert predicate.result_predicate() is empty_result_predicate
    assert predicate.exception_predicate() is has_exception_predicate


def test_exponential_backoff_grows_to_its_limit_whatever_was_asked_before():
    strategy = AsyncRetryStrategy.exponential_backoff(9, 100, 500, 2.0)
    assert [strategy.get_backoff_time_millis(n) for n in (4, 1, 2, 3)] == [500, 100, 200, 400]


@pytest.mark.parametrize("arguments", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)])
def test_settings_must_be_positive(arguments):
    with pytest.raises(ProgramError, match="must be greater than 0, got 0"):
        AsyncRetryStrategy.exponential_backoff(*arguments)


def test_predicates():
    assert empty_result_predicate(None)
    assert not empty_result_predicate([1])
    assert has_exception_predicate(ValueError())
    assert not has_exception_predicate(None)
    assert exception_type_predicate(ValueError(), ValueError)
    assert not exception_type_predicate(ValueError(), KeyError)
