"""Metrics: what it costs that somebody watches.

The keyed program of `efficiency` with everything on - reports of the tasks every half second, a page for Prometheus that is
read once a second, latency markers ten times a second - against the same program with everything off that can be: no reports
but the last, no reporter, no markers. Both sides take turns, and each round gives one ratio; the median of them counts, because
a machine that becomes slower does so for both sides of a round. The ratio to trust is that of CPU seconds per record, of all
processes together: on a busy machine wall time is that of the other programs.

Nothing is measured for a record, so what it costs can be had without the noise of a full machine, too: the same job with a
hundred records a second, with everything on and off, and how many seconds of a processor a second of watching takes. A
machine that is full has that much less for records.

What is always on - counters for every chunk and times for every wait of a task's loop - is on both sides. `versions` compares
with a version without it.
"""

from __future__ import annotations

import argparse
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from _harness import (
    PARALLELISM,
    at_least,
    at_most,
    cycling,
    median,
    note,
    parser,
    rate_text,
    ratio_text,
    slope,
    spread,
)
from _results import begin
from checkpoint import in_turns
from efficiency import keyed, readings
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import DiscardingSink
from latency import TimedSource

TARGET = 0.97
SHARE_TARGET = 3.0  # per cent of all cores
REST_RATE = 100.0
REST_SECONDS = (3.0, 15.0)
SCRAPE_SECONDS = 1.0
#: So far apart that the start of a job, whose cost differs by a tenth of a second or two, is below a per cent of the difference.
SIZES = (500_000, 20_500_000)
OFF = {"firesteel.metrics.interval": "1 h"}


def everything_on(port: int) -> dict[str, str]:
    """Options with all that metrics can do."""
    reporter = "metrics.reporter.prom."
    return {
        f"{reporter}factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
        f"{reporter}port": str(port),
        "metrics.latency.interval": "100 ms",
    }


class Scraper:
    """Reads the page of Prometheus again and again, as its server would; counts how often there was something."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.pages = 0
        self.samples = 0

    @contextmanager
    def running(self) -> Iterator[Scraper]:
        """Read inside the block."""
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(SCRAPE_SECONDS):
            try:
                with urllib.request.urlopen(self._url, timeout=10) as answer:
                    self.samples = answer.read().count(b"\nflink_")
                    self.pages += 1
            except (OSError, urllib.error.URLError):
                continue  # between two jobs there is no page


def run_keyed(count: int, options: dict[str, str]) -> None:
    """The keyed program to its end."""
    configuration = Configuration.from_dict(options)
    env: Any = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(
        PARALLELISM
    )
    keyed(cycling(env, readings, count)).add_sink(DiscardingSink())
    env.execute("keyed")


def run_at_rest(seconds: float, options: dict[str, str]) -> None:
    """The same operators with next to nothing to do."""
    configuration = Configuration.from_dict(options)
    env: Any = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(
        PARALLELISM
    )
    source = TimedSource(REST_RATE, seconds)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "timed")
    stream.key_by(lambda record: record[0]).reduce(lambda one, _: one).add_sink(DiscardingSink())
    env.execute("at rest")


def watching(repetitions: int, on: dict[str, str]) -> float:
    """Seconds of a processor that a second of watching takes."""
    watched, alone = in_turns(
        repetitions,
        lambda: slope(lambda tenths: run_at_rest(tenths / 10, on), *(int(10 * s) for s in REST_SECONDS)),
        lambda: slope(lambda tenths: run_at_rest(tenths / 10, OFF), *(int(10 * s) for s in REST_SECONDS)),
        shown=lambda cost: f"{cost.cpu * 10:.3f} s of a processor in a second",
    )
    return median(10 * (a.cpu - b.cpu) for a, b in zip(watched, alone, strict=True))


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    arguments: argparse.Namespace = parser(__doc__).parse_args()
    results = begin(__file__, f"What metrics cost, parallelism {PARALLELISM}", arguments)
    sizes = (500_000, 3_500_000) if arguments.quick else SIZES
    port = free_port()
    on = everything_on(port)
    for options in (on, OFF):
        run_keyed(sizes[1], options)  # the JVM compiles what is hot for longer than a small job takes
    with Scraper(port).running() as scraper:
        watched, alone = in_turns(
            1 if arguments.quick else 10,  # each side is first in half of them
            lambda: slope(lambda count: run_keyed(count, on), *sizes),
            lambda: slope(lambda count: run_keyed(count, OFF), *sizes),
        )
        seconds = watching(1 if arguments.quick else 5, on)
    note(f"{scraper.pages} pages were read, the last with {scraper.samples} samples")
    by_cpu = [b.cpu / a.cpu for a, b in zip(watched, alone, strict=True)]
    share = 100 * seconds / (os.cpu_count() or 1)
    ratios = [b.wall / a.wall for a, b in zip(watched, alone, strict=True)]
    rates = [rate_text(1 / median(cost.wall for cost in costs)) for costs in (watched, alone)]
    results.table(
        ["what", "found", "target"],
        [
            [
                "throughput with / without metrics, by CPU time per record",
                f"{ratio_text(median(by_cpu))} ({spread(by_cpu)})",
                at_least(median(by_cpu), TARGET),
            ],
            [
                "  by the clock on the wall",
                f"{rates[0]} / {rates[1]} = {ratio_text(median(ratios))} ({spread(ratios)})",
                "",
            ],
            [
                "processor time that watching takes, of all cores",
                f"{share:.1f} %",
                at_most(share, SHARE_TARGET, " %"),
            ],
        ],
    )


if __name__ == "__main__":
    main()
