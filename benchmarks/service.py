"""How fast a cluster service is: from a submission to the first record, over REST under load, and in a browser.

A service with a spare driver on an embedded Spark. *First record*: a program is submitted by ``POST /jars/:id/run``; its first map function writes
down the time at its first record; the spare driver is ready when the submission is sent. *REST*: a job of 200 subtasks - five pipelines of two
vertices, twenty subtasks each, in forty processes - of which every source makes five records a second; several clients ask for ``/jobs/:id`` through the service, one request after the other, on
connections that they keep. *Page*: Chromium with an empty cache opens the
first page, and that of a job with two vertices; from the beginning of the navigation until the row of the job, or its dataflow, is drawn.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from _harness import at_most, median, note, parser, percentile
from _results import begin

_PROGRAM = textwrap.dedent(
    """
    import sys, time
    from firesteel.common import WatermarkStrategy
    from firesteel.datastream import StreamExecutionEnvironment
    from firesteel.datastream.connectors.number_seq import NumberSequenceSource

    path, parallelism, pause, pipelines = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])

    def note(number):
        if number == 0:
            with open(path + ".partial", "w") as file:
                file.write(repr(time.time()))
            import os
            os.replace(path + ".partial", path)
        time.sleep(pause)
        return number

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    for _ in range(pipelines):
        numbers = env.from_source(NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), "Numbers")
        numbers.map(note).key_by(lambda number: number % 1000).reduce(max).print()
    env.execute("first record")
    """
)
_PATIENCE = 300.0
SUBTASKS, PIPELINES = 200, 5
PAUSE_OF_MANY = 0.2
_LOOK_SECONDS = 0.005
_LOOK_AT_JOB_SECONDS = 0.1  # a look costs the service a request
CLIENTS = 4
FIRST_SECONDS, REST_MS, PAGE_MS = 1.0, 50.0, 1000.0
ROOT = Path(__file__).parents[1]


class _Service:
    """A service that was started by its command, and how it is asked."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._environment = {**os.environ, "FIRESTEEL_HOME": str(home)}
        told = self._command("cluster", "start", "-D", "rest.port=0", "-D", "firesteel.cluster.slots=1000")
        self.url = next(word for word in told.replace(",", " ").split() if word.startswith("http://"))

    def stop(self) -> None:
        self._command("cluster", "stop")

    def await_spare(self) -> None:
        """Wait until the spare driver is ready."""
        spares = self._home / "cluster" / "spares"
        _until(lambda: spares.exists() and list(spares.glob("*/ready")), "a spare driver is ready")

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers or {}, method=method)
        with urllib.request.urlopen(request, timeout=_PATIENCE) as response:
            return json.load(response)

    def upload(self) -> str:
        boundary = "firesteel-benchmark"
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="first.py"\r\n\r\n'
        body = f"{head}{_PROGRAM}\r\n--{boundary}--\r\n".encode()
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return str(self.ask("POST", "/jars/upload", body, kind)["filename"]).rpartition("/")[2]

    def run(self, jar: str, path: Path, parallelism: int, pause: float = 0.002, pipelines: int = 1) -> str:
        """The id of a job that was submitted; ``pause`` is how many seconds a record takes."""
        words = [str(path), str(parallelism), str(pause), str(pipelines)]
        return str(self.ask("POST", f"/jars/{jar}/run", {"programArgsList": words})["jobid"])

    def await_running(self, job: str) -> None:
        _until(
            lambda: self.ask("GET", f"/jobs/{job}/status")["status"] == "RUNNING",
            "the job runs",
            _LOOK_AT_JOB_SECONDS,
        )

    def cancel(self, job: str) -> None:
        self.ask("PATCH", f"/jobs/{job}")
        _until(
            lambda: self.ask("GET", f"/jobs/{job}/status")["status"] == "CANCELED",
            "the job is cancelled",
            _LOOK_AT_JOB_SECONDS,
        )

    def _command(self, *words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "firesteel.cli.main", *words],
            env=self._environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout


def _until(condition: Any, what: str, look_seconds: float = _LOOK_SECONDS) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(look_seconds)


def first_record(service: _Service, jar: str, path: Path) -> float:
    """Seconds from a submission until its first record is processed."""
    service.await_spare()
    path.unlink(missing_ok=True)
    began = time.time()
    job = service.run(jar, path, 1)
    _until(path.exists, "the first record")
    seconds = float(path.read_text()) - began
    service.cancel(job)
    return seconds


def rest_latencies(service: _Service, job: str, clients: int, requests: int) -> list[float]:
    """Milliseconds of every request of so many clients at once."""
    address = urlsplit(service.url)
    found: list[float] = []

    def ask() -> None:
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=_PATIENCE)
        for _ in range(requests):
            began = time.perf_counter()
            connection.request("GET", f"/jobs/{job}")
            connection.getresponse().read()
            found.append((time.perf_counter() - began) * 1000)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def pages_ready(service: _Service, job: str, runs: int) -> tuple[list[float], list[float]]:
    """Milliseconds until the first page shows the job, and until the page of the job shows its dataflow."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from firesteel_support.servers.chromium import Browser, chromium

    def opened(browser: Browser, address: str, condition: str) -> float:
        page = browser.page()
        try:
            return page.ready_after(address, condition)
        finally:
            page.close()

    first, dataflow = [], []
    has_row = f"document.querySelector('td a[href=\"#/jobs/{job}\"]') !== null"
    has_graph = "document.querySelectorAll('.graph .vertex').length === 2"
    with chromium() as browser:
        opened(browser, "about:blank", "true")  # the first tab of a browser takes longer, whatever it shows
        for _ in range(runs):
            first.append(opened(browser, f"{service.url}/", has_row))
            dataflow.append(opened(browser, f"{service.url}/#/jobs/{job}", has_graph))
    return first, dataflow


def main() -> None:
    """Measure and write the tables."""
    arguments = parser(__doc__).parse_args()
    results = begin(__file__, "A cluster service: submissions, requests under load, pages", arguments)
    runs, requests, openings = (2, 50, 2) if arguments.quick else (7, 500, 5)
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as directory:
        path = Path(directory) / "first"
        service = _Service(Path(directory) / "home")
        try:
            jar = service.upload()
            first = [first_record(service, jar, path) for _ in range(runs)]
            note("submissions are measured; now the pages")
            small = service.run(jar, path, 1)
            service.await_running(small)
            service.await_spare()  # which takes processors while it starts
            overview, dataflow = pages_ready(service, small, openings)
            service.cancel(small)
            # What reduces stands behind an exchange: two vertices in each pipeline. A task hosts a subtask of each pipeline.
            job = service.run(jar, path, SUBTASKS // (2 * PIPELINES), PAUSE_OF_MANY, PIPELINES)
            service.await_running(job)
            service.await_spare()
            note("now the paths of a job with many subtasks")
            asked = rest_latencies(service, job, CLIENTS, requests)
            service.cancel(job)
        finally:
            service.stop()
    high = percentile(sorted(asked), 0.99)
    results.table(
        ["what", "median", "99th percentile", "worst", "samples", "target"],
        [
            [
                "submission to first record, spare driver ready",
                *_figures(first, " s"),
                f"median {at_most(median(first), FIRST_SECONDS, ' s')}",
            ],
            [
                f"GET /jobs/:id, {SUBTASKS} subtasks, {CLIENTS} clients",
                *_figures(asked, " ms"),
                f"99th percentile {at_most(high, REST_MS, ' ms')}",
            ],
            [
                "first page in Chromium: the job is listed",
                *_figures(overview, " ms"),
                f"median {at_most(median(overview), PAGE_MS, ' ms')}",
            ],
            [
                "page of the job in Chromium: the dataflow is drawn",
                *_figures(dataflow, " ms"),
                f"median {at_most(median(dataflow), PAGE_MS, ' ms')}",
            ],
        ],
    )


def _figures(values: list[float], unit: str) -> list[str]:
    ordered = sorted(values)
    shown = [median(ordered), percentile(ordered, 0.99), ordered[-1]]
    return [*(f"{value:.3g}{unit}" for value in shown), str(len(ordered))]


if __name__ == "__main__":
    main()
