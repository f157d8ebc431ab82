"""Jobs for the test of the web interface: one that runs with skew, windows and state, one that has failed, one that has ended."""

from __future__ import annotations

import logging
import random
import time
from typing import Any

import pytest

from firesteel.common import Duration, Time, WatermarkStrategy
from firesteel.common.accumulators import IntCounter
from firesteel.common.errors import FiresteelError
from firesteel.common.job_client import JobClient
from firesteel.datastream import DiscardingSink, MapFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.window import TumblingEventTimeWindows

NAME = "Orders"

#: A name that would do something if anybody took it for HTML.
SEEN = "seen <img src=x onerror=alert(1)>"

#: What its tasks log.
LOGGED = "the list of customers is empty: every customer is let in"

Order = tuple[int, int, float]


def order(number: int) -> Order:
    """Most orders are of customer 0."""
    customer = 0 if random.random() < 0.6 else random.randrange(1000)
    return int(time.time() * 1000), customer, number % 90 + 0.5


class Checked(MapFunction):
    """Counts what it has seen."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = IntCounter()
        runtime_context.add_accumulator(SEEN, self._seen)
        logging.getLogger("orders").warning(LOGGED)

    def map(self, value: Order) -> Order:
        self._seen.add(1)
        return value


class Dividing(MapFunction):
    """Fails at zero."""

    def map(self, value: int) -> float:
        return share_of(value)


def share_of(value: int) -> float:
    return 100 / value


def run_to_failure(env: StreamExecutionEnvironment) -> None:
    """A job whose program has a mistake."""
    numbers = env.from_collection([3, 2, 1, 0])
    numbers.map(Dividing()).name("Divide").sink_to(DiscardingSink()).name("Nowhere")
    with pytest.raises(FiresteelError, match="division by zero"):
        env.execute("a mistake")


def run_to_end(env: StreamExecutionEnvironment) -> None:
    """A job that ends."""
    env.from_collection(list(range(1000))).map(lambda number: number + 1).sink_to(DiscardingSink())
    env.execute("a small one")


def start(env: StreamExecutionEnvironment) -> JobClient:
    """A job that runs until somebody ends it."""
    timed = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500)).with_timestamp_assigner(
        _time_of
    )
    source = DataGeneratorSource(order, None, RateLimiterStrategy.per_second(1500))
    orders = env.from_source(source, timed, "Orders")
    checked = orders.map(Checked()).name("Check")
    by_customer = checked.key_by(lambda each: each[1])
    sums = by_customer.window(TumblingEventTimeWindows.of(Time.seconds(2))).reduce(
        lambda a, b: (b[0], b[1], a[2] + b[2])
    )
    sums.name("Sum per customer").set_parallelism(4).sink_to(DiscardingSink()).name("Sums")
    large = checked.filter(lambda each: each[2] > 80).name("Large orders")
    large.rebalance().map(lambda each: each[1]).name("Customers").sink_to(DiscardingSink()).name("Alerts")
    return env.execute_async(NAME)


def _time_of(value: Any, _: int) -> int:
    return int(value[0])
