"""The part of the soak with a cluster service: what many jobs, rescales, deaths and scrapes leave behind in its processes.

A service is started as a user does it. One job on Spark runs all the while, with checkpoints and a page for Prometheus. In one cycle
there are, side by side, a job that ends and one whose driver is killed and which resumes; in the next one a job that fails and one that
is cancelled, and the long job goes on with another parallelism, up and down. Somebody reads pages of metrics and of the interface without a pause, and each of
them has to be answered. After every cycle, when its drivers have ended, service and long job are looked at.

Jobs that come and go are simulated, in drivers of their own: what the service has to do with them is the same, and a driver
without a JVM starts in a second. With ``spares`` some run on Spark, in drivers that the service has kept ready, and are killed, too.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from soak import NOTHING, Series, Usage, descendants, files_in, usage
from support import MARK_VARIABLE, marked, until

from firesteel.logs.outputs import rolled_files
from firesteel.service.folder import ServiceFolder
from firesteel.service.processes import is_alive
from firesteel_support.cluster_service import SIMULATED, ServiceClient

#: The seconds between two rounds of who reads metrics.
_SCRAPE_PAUSE = 0.2
#: How many ended jobs the service keeps: few, so that it soon has as many as it will ever have.
_KEPT_JOBS = 4
#: The size of a log and how many old ones are kept: little, so that they are rolled over soon. What is printed between two looks at
#: the size comes on top.
_LOG_BYTES, _KEPT_LOGS, _PRINTED_BYTES = 16 << 10, 2, 128 << 10
#: How often files of checkpoints are counted for a sample, and the seconds between: one is always being written or deleted.
_COUNTS, _COUNT_PAUSE = 20, 0.02
#: In cycles: how often a job on Spark is killed, if there are spare drivers.
_SPARK_EVERY = 10

#: Where processes put temporary files.
SCRATCH = "scratch"

PROGRAM = textwrap.dedent(
    """
    import sys
    from firesteel.common import WatermarkStrategy
    from firesteel.datastream import DiscardingSink, StreamExecutionEnvironment
    from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
    from firesteel.testing import Emit, ScriptedSource, WaitForever

    kind = sys.argv[1]
    env = StreamExecutionEnvironment.get_execution_environment()
    if kind == "on-spark":
        source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(200))
    else:
        source = ScriptedSource([Emit([1, 2, 3]), *([WaitForever()] if kind == "endless" else [])])
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")
    numbers = numbers.map(lambda number: number // (0 if kind == "failing" else 1))
    numbers.key_by(lambda number: number % 1000).reduce(lambda one, other: one + other).add_sink(DiscardingSink())
    env.execute(kind)
    """
)


class ServiceSoak:
    """A service, the job that runs all the while, and what is done to them."""

    def __init__(self, client: ServiceClient, folder: ServiceFolder, temporary: Path) -> None:
        self.client = client
        self._folder = folder
        self._temporary = temporary
        self._jar = client.upload("program.py", PROGRAM)
        self.prometheus = _free_port()
        reporter = "metrics.reporter.prom."
        self.long_job = self._run_on_spark(
            {
                f"{reporter}factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
                f"{reporter}port": str(self.prometheus),
                "metrics.latency.interval": "100 ms",
            }
        )
        self._await_checkpoint(self.long_job)

    # What is done, each to its end.

    def finish(self) -> None:
        """A job that ends by itself."""
        self.client.await_state(self._run("short"), "FINISHED")

    def fail(self) -> None:
        """A job that fails."""
        self.client.await_state(self._run("failing"), "FAILED")

    def cancel(self) -> None:
        """A job that is cancelled."""
        self._cancel(self._run("endless"))

    def kill(self) -> None:
        """A job whose driver is killed, and which resumes in another one."""
        self._kill(self._run("endless", **self._checkpoints()))

    def kill_on_spark(self) -> None:
        """The same in a spare driver, with a JVM and tasks."""
        self._kill(self._run_on_spark({}))

    def rescale(self) -> None:
        """The long job goes on with twice as many tasks, and then with as many as before."""
        for parallelism in (2, 1):
            path = f"/jobs/{self.long_job}/rescaling"
            status, trigger = self.client.call("PATCH", f"{path}?parallelism={parallelism}")
            assert status in (200, 202), trigger
            outcome = self.client.outcome(path, trigger)
            assert "failure-cause" not in outcome, outcome
            self.client.await_state(self.long_job, "RUNNING")

    def cycle(self, number: int, has_spares: bool) -> None:
        """One half of it, or the other, side by side."""
        what = [self.finish, self.kill] if number % 2 else [self.fail, self.cancel, self.rescale]
        if has_spares and number % _SPARK_EVERY == 0:
            what.append(self.kill_on_spark)
        with ThreadPoolExecutor(len(what)) as pool:
            for done in [pool.submit(each) for each in what]:
                done.result()
        until(self._is_tidy, "drivers of jobs that are over end, and what is left of the oldest is deleted")

    # What is seen.

    def look_at_service(self, mark: str) -> Usage:
        """What the service holds, with every file below its folder, and with all processes of all jobs."""
        service = self._folder.service()
        assert service is not None
        own = usage(int(service["pid"]), files_in(self._folder.path) - self._old_logs())
        return Usage(own.descriptors, own.threads, own.megabytes, own.files, len(marked(mark)))

    def _old_logs(self) -> int:
        """How many files logs have that were rolled over, with the notes beside them; asserts that no log has more bytes than it may."""
        logs = [self._folder.log, *(each.log for each in self._folder.all_jobs())]
        for log in logs:
            files = rolled_files(log)
            size = sum(file.stat().st_size for file in files)
            assert len(files) <= 1 + _KEPT_LOGS, files
            assert size <= len(files) * (_LOG_BYTES + _PRINTED_BYTES), f"{log} has {size} bytes"
        return sum(len(list(log.parent.glob(f"{log.name}.*"))) for log in logs)

    def look_at_long_job(self) -> tuple[Usage, Usage]:
        """What the driver of the long job holds, with every file of checkpoints and temporary one, and its tasks together."""
        report = self._folder.job(self.long_job).report()
        assert report is not None
        pid = report.process.pid
        workers = [each for each, command in descendants(pid).items() if "worker_daemon" in command]
        return usage(pid, self._settled_files()), sum((usage(each) for each in workers), NOTHING)

    def _settled_files(self) -> int:
        found = []
        for _ in range(_COUNTS):
            found.append(sum(files_in(self._temporary / name) for name in ("checkpoints", SCRATCH)))
            time.sleep(_COUNT_PAUSE)
        return min(found)

    def pages(self) -> list[str]:
        """Addresses that somebody reads all the while."""
        paths = ("/overview", "/jobs/overview", "/jobs/metrics", "/taskmanagers", f"/jobs/{self.long_job}")
        paths += (f"/jobs/{self.long_job}/checkpoints", f"/jobs/{self.long_job}/metrics")
        return [f"http://127.0.0.1:{self.prometheus}/metrics", *(self.client.url + path for path in paths)]

    # How.

    def _run(self, kind: str, **options: str) -> str:
        return self.client.run(
            self._jar, kind, parallelism=1, flinkConfiguration={**SIMULATED, **_quiet(), **options}
        )

    def _run_on_spark(self, options: dict[str, str]) -> str:
        given = {**self._checkpoints(), **_quiet(), **options}
        return self.client.run(self._jar, "on-spark", parallelism=1, flinkConfiguration=given)

    def _checkpoints(self) -> dict[str, str]:
        return {
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": str(self._temporary / "checkpoints"),
        }

    def _await_checkpoint(self, job: str) -> None:
        self.client.await_state(job, "RUNNING")
        self.client.wait_for(f"/jobs/{job}/checkpoints", lambda each: each["counts"]["completed"] > 0)

    def _cancel(self, job: str) -> None:
        self.client.await_state(job, "RUNNING")
        status, answer = self.client.call("PATCH", f"/jobs/{job}")
        assert status == 202, answer
        self.client.await_state(job, "CANCELED")

    def _kill(self, job: str) -> None:
        self._await_checkpoint(job)
        report = self._folder.job(job).report()
        assert report is not None
        os.kill(report.process.pid, signal.SIGKILL)

        def restored() -> bool:
            status, answer = self.client.call("GET", f"/jobs/{job}/checkpoints")
            return status == 200 and answer["latest"]["restored"] is not None

        until(restored, "the job resumes")
        self._cancel(job)

    def _is_tidy(self) -> bool:
        others = [each for each in self._folder.all_jobs() if each.id != self.long_job]
        reports = [each.report() for each in others]
        if any(report is not None and is_alive(report.process) for report in reports):
            return False
        # The service hears of their ends a moment later, and deletes what it does not keep after that.
        return len(others) <= _KEPT_JOBS and all(each.end() is not None for each in others)


class Scraper:
    """Reads addresses again and again in a thread; every one has to answer."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._over = threading.Event()
        self.pages = 0
        self.failures: list[str] = []

    @contextmanager
    def running(self) -> Iterator[Scraper]:
        """Read inside the block."""
        thread = threading.Thread(target=self._run, name="scraper")
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        while not self._over.wait(_SCRAPE_PAUSE):
            for address in self._addresses:
                try:
                    with urllib.request.urlopen(address, timeout=60) as answer:
                        answer.read()
                    self.pages += 1
                except OSError as error:
                    self.failures.append(f"{address}: {error}")


def soak_service(temporary: Path, goes_on: Callable[[int], bool], spares: int = 1) -> list[Series]:
    """Cycles as long as ``goes_on`` says: what service, long job and its tasks hold after each of them."""
    service, driver, tasks = (Series(f"service{what}") for what in ("", ": long job", ": its tasks"))
    with _started(temporary, spares) as (soak, mark):
        number = 0
        with Scraper(soak.pages()).running() as scraper:
            while goes_on(number):
                number += 1
                soak.cycle(number, spares > 0)
                service.samples.append(soak.look_at_service(mark))
                for series, seen in zip((driver, tasks), soak.look_at_long_job(), strict=True):
                    series.samples.append(seen)
        assert scraper.failures == [], scraper.failures[:10]
        assert scraper.pages > number
        soak._cancel(soak.long_job)
    until(lambda: not marked(mark), "nothing is left of the service and its jobs")
    return [service, driver, tasks]


@contextmanager
def _started(temporary: Path, spares: int) -> Iterator[tuple[ServiceSoak, str]]:
    mark = uuid.uuid4().hex
    scratch = temporary / SCRATCH
    scratch.mkdir(parents=True)
    environment = {
        **os.environ,
        MARK_VARIABLE: mark,
        "TMPDIR": str(scratch),
        "FIRESTEEL_HOME": str(temporary / "home"),
    }
    options = {
        "rest.port": "0",
        "firesteel.cluster.spare-drivers": str(spares),
        "jobstore.max-capacity": str(_KEPT_JOBS),
        "firesteel.logging.max-size": f"{_LOG_BYTES} b",
        "env.log.max": str(_KEPT_LOGS),
        "spark.local.dir": str(scratch),
    }
    try:
        definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        told = _command(environment, "cluster", "start", *definitions)
        url = re.search(r"http://[\w.]+:\d+", told)
        assert url is not None, told
        folder = ServiceFolder(temporary / "home" / "cluster")
        yield ServiceSoak(ServiceClient(url[0]), folder, temporary), mark
    finally:
        _command(environment, "cluster", "stop")


def _command(environment: dict[str, str], *words: str) -> str:
    command: list[Any] = [sys.executable, "-m", "firesteel.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _quiet() -> dict[str, str]:
    """Restarts are the service's: one that a job makes by itself would only take its time."""
    return {"restart-strategy.type": "none"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
