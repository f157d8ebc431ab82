"""When a failed job starts again: each policy by hand, and which options give which."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, ProgramError
from firesteel.common.restart_strategy import RestartStrategies
from firesteel.jobmaster.restart_policy import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartPolicy,
    create_policy,
)


def policy(**options: str) -> RestartPolicy:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return create_policy(Configuration.from_dict(named), Random(1))


def exponential(jitter: float = 0.0, attempts: int | None = None) -> ExponentialDelay:
    return ExponentialDelay(1.0, 10.0, 2.0, 100.0, jitter, attempts, Random(7))


def test_no_restart_ends_the_job_at_once() -> None:
    assert NoRestart().next_delay(0.0) is None


def test_fixed_delay_allows_n_restarts() -> None:
    fixed = FixedDelay(attempts=2, delay=5.0)
    assert [fixed.next_delay(float(n)) for n in range(4)] == [5.0, 5.0, None, None]


def test_failure_rate_counts_failures_of_the_last_interval_only() -> None:
    rate = FailureRate(max_failures=2, interval=10.0, delay=1.0)
    assert [rate.next_delay(now) for now in (0.0, 5.0, 11.0, 15.5)] == [1.0, 1.0, 1.0, 1.0]
    assert rate.next_delay(15.6) is None


def test_exponential_delay_grows_to_its_maximum() -> None:
    growing = exponential()
    assert [growing.next_delay(float(n)) for n in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_exponential_delay_starts_small_after_a_long_time_without_failure() -> None:
    growing = exponential()
    assert [growing.next_delay(now) for now in (0.0, 1.0, 2.0)] == [1.0, 2.0, 4.0]
    assert growing.next_delay(2.0 + 103.9) == 8.0, "the time of waiting does not count as running"
    assert growing.next_delay(500.0) == 1.0


def test_jitter_stays_within_its_fraction_and_the_maximum() -> None:
    growing = exponential(jitter=0.5)
    for expected in (1.0, 2.0, 4.0, 8.0, 10.0, 10.0):
        delay = growing.next_delay(0.0)
        assert delay is not None
        assert 0.5 * expected <= delay <= min(1.5 * expected, 10.0)


def test_the_same_chance_gives_the_same_delays() -> None:
    first, second = exponential(jitter=0.5), exponential(jitter=0.5)
    assert [first.next_delay(0.0) for _ in range(5)] == [second.next_delay(0.0) for _ in range(5)]


def test_exponential_delay_with_a_limit_ends_the_job() -> None:
    growing = exponential(attempts=2)
    assert [growing.next_delay(0.0) for _ in range(3)] == [1.0, 2.0, None]


def test_default_is_exponential_with_checkpoints_and_none_without() -> None:
    assert isinstance(policy(), NoRestart)
    assert isinstance(policy(execution__checkpointing__interval="1 s"), ExponentialDelay)


@pytest.mark.parametrize("name", ["none", "off", "disable"])
def test_restarts_can_be_turned_off_in_spite_of_checkpoints(name: str) -> None:
    options = {"execution.checkpointing.interval": "1 s", "restart-strategy.type": name}
    assert isinstance(create_policy(Configuration.from_dict(options), Random()), NoRestart)


def test_strategies_in_code_and_in_options_are_the_same() -> None:
    fixed = RestartStrategies.fixed_delay_restart(3, 1500).to_configuration()
    assert create_policy(fixed, Random()) == FixedDelay(3, 1.5)
    rate = RestartStrategies.failure_rate_restart(4, 60_000, 2000).to_configuration()
    assert create_policy(rate, Random()) == FailureRate(4, 60.0, 2.0)
    growing = RestartStrategies.exponential_delay_restart(100, 5000, 2.0, 60_000, 0.0).to_configuration()
    chosen = create_policy(growing, Random(0))
    assert isinstance(chosen, ExponentialDelay)
    assert [chosen.next_delay(float(n)) for n in range(7)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert chosen.next_delay(1000.0) == 0.1
    assert isinstance(create_policy(RestartStrategies.no_restart().to_configuration(), Random()), NoRestart)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: RestartStrategies.fixed_delay_restart(-1, 100),
            "restart_attempts must be at least 0, got -1",
        ),
        (lambda: RestartStrategies.fixed_delay_restart("3", 100), "restart_attempts must be a whole number"),
        (lambda: RestartStrategies.fixed_delay_restart(3, -100), "must not be negative"),
        (lambda: RestartStrategies.fixed_delay_restart(3, "1 s"), "milliseconds or a timedelta"),
        (lambda: RestartStrategies.failure_rate_restart(0, 100, 100), "max_failure_rate must be at least 1"),
        (lambda: RestartStrategies.failure_rate_restart(1, 0, 100), "failure_interval must be more than 0"),
        (
            lambda: RestartStrategies.exponential_delay_restart(0, 1, 1.5, 1, 0.1),
            "initial_backoff must be more",
        ),
        (
            lambda: RestartStrategies.exponential_delay_restart(9, 1, 1.5, 1, 0.1),
            "max_backoff must be at least",
        ),
        (
            lambda: RestartStrategies.exponential_delay_restart(1, 9, 0.5, 1, 0.1),
            "backoff_multiplier must be",
        ),
        (lambda: RestartStrategies.exponential_delay_restart(1, 9, 1.5, 1, 2.0), "jitter_factor must be"),
    ],
)
def test_strategies_that_make_no_sense_are_refused(make: Callable[[], object], expected: str) -> None:
    with pytest.raises(ProgramError, match=expected):
        make()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("restart-strategy.fixed-delay.attempts", "-1"),
        ("restart-strategy.fixed-delay.delay", "-1 s"),
        ("restart-strategy.failure-rate.max-failures-per-interval", "0"),
        ("restart-strategy.failure-rate.failure-rate-interval", "0 s"),
        ("restart-strategy.failure-rate.delay", "-1 s"),
        ("restart-strategy.exponential-delay.initial-backoff", "0 s"),
        ("restart-strategy.exponential-delay.max-backoff", "500 ms"),
        ("restart-strategy.exponential-delay.attempts-before-reset-backoff", "-1"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "0.5"),
        ("restart-strategy.exponential-delay.jitter-factor", "1.5"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(key: str, value: str) -> None:
    chosen = {"restart-strategy.type": key.split(".")[1], key: value}
    with pytest.raises(InvalidOptionError, match=f"option '{key}': expected"):
        create_policy(Configuration.from_dict(chosen), Random())


def test_defaults_of_the_exponential_policy_are_flinks() -> None:
    chosen = create_policy(Configuration.from_dict({"restart-strategy.type": "exponential-delay"}), Random())
    assert isinstance(chosen, ExponentialDelay)
    values = (
        chosen.initial,
        chosen.maximum,
        chosen.multiplier,
        chosen.reset_after,
        chosen.jitter,
        chosen.attempts,
    )
    assert values == (1.0, 60.0, 1.5, 3600.0, 0.1, None)
