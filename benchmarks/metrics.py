"""Metrics: what it costs that somebody watches.

The keyed program of `efficiency` with everything on - reports of the tasks every half second, a page for Prometheus that is
read once a second, latency markers ten times a second - against the same program with everything off that can be: no reports
but the last, no reporter, no markers. Each side is a process with a Spark of its own, and both run *at the same time* on the same
cores, again and again: what else the machine does, and how fast it is just now, is the same for both. Sides that took turns
differed by ten per cent and more from round to round. The ratio is that of CPU seconds per record, of all
processes of a side together; the median of the rounds counts.

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
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from _harness import (
    PARALLELISM,
    Cost,
    at_least,
    at_most,
    cycling,
    measured,
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
REPETITIONS = 10
REST_RATE = 100.0
REST_SECONDS = (3.0, 15.0)
SCRAPE_SECONDS = 1.0
#: So far apart that the start of a job, whose cost differs by a tenth of a second or two, is below a per cent of the difference.
SIZES = (500_000, 12_500_000)
QUICK_SIZES = (500_000, 2_500_000)
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


# Two sides at the same time ----------------------------------------------------------------------------


def run_keyed(count: int, options: dict[str, str]) -> None:
    """The keyed program to its end, with one task before and one behind the exchange: the other side has as many."""
    configuration = Configuration.from_dict(options)
    env: Any = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    keyed(cycling(env, readings, count)).add_sink(DiscardingSink())
    env.execute("keyed")


class Side:
    """A process with a warm Spark that runs the keyed program whenever it is told; ``port`` is that of its page, if it has one."""

    def __init__(self, port: int | None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--side", "off" if port is None else str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def begin(self, count: int) -> None:
        """Have it run the program with so many records."""
        assert self._process.stdin is not None
        print(count, file=self._process.stdin, flush=True)

    def end(self) -> Cost:
        """What that took."""
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a side has ended; its own message is above")
        wall, cpu = answer.split()
        return Cost(float(wall), float(cpu))


def serve(port: str) -> None:
    """The life of a side: a number of records on each line of its input, on each line of its output what they cost."""
    options = OFF if port == "off" else everything_on(int(port))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        with measured() as cost:
            run_keyed(int(line), options)
        print(cost.wall, cost.cpu, file=answers, flush=True)


def round_of(sides: Sequence[Side], sizes: tuple[int, int]) -> list[Cost]:
    """What a record costs on each side, when all of them run at the same time."""
    costs = []
    for count in sizes:
        for side in sides:
            side.begin(count)
        costs.append([side.end() for side in sides])
    records = sizes[1] - sizes[0]
    return [
        Cost((large - small).wall / records, (large - small).cpu / records)
        for small, large in zip(*costs, strict=True)
    ]


def rounds(repetitions: int, sizes: tuple[int, int], port: int) -> tuple[list[Cost], list[Cost]]:
    """What a record costs with metrics and without; who is told first changes."""
    watched: list[Cost] = []
    alone: list[Cost] = []
    with Side(port) as on, Side(None) as off:
        round_of([on, off], (0, sizes[1]))  # the JVM compiles what is hot for longer than a small job takes
        for repetition in range(repetitions):
            order = [on, off] if repetition % 2 else [off, on]
            costs = dict(zip(order, round_of(order, sizes), strict=True))
            watched.append(costs[on])
            alone.append(costs[off])
            note(" against ".join(f"{cost.cpu * 1e6:.3f} us" for cost in (costs[on], costs[off])))
    return watched, alone


# At rest -----------------------------------------------------------------------------------------------


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
    for options in (on, OFF):
        run_at_rest(REST_SECONDS[0], options)  # Spark starts here
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
    found = parser(__doc__)
    found.add_argument("--side", metavar="PORT", help="for the processes that this one starts")
    arguments: argparse.Namespace = found.parse_args()
    if arguments.side is not None:
        serve(arguments.side)
        return
    results = begin(__file__, "What metrics cost, both sides at the same time", arguments)
    port, port_at_rest = free_port(), free_port()
    with Scraper(port).running() as scraper:
        watched, alone = rounds(2, QUICK_SIZES, port) if arguments.quick else rounds(REPETITIONS, SIZES, port)
    note(f"{scraper.pages} pages were read, the last with {scraper.samples} samples")
    with Scraper(port_at_rest).running():
        seconds = watching(1 if arguments.quick else 5, everything_on(port_at_rest))
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
