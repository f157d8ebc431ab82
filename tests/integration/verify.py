"""The verifier: every record is delivered once, to every output, whatever is killed.

    scripts/verify --minutes 5

Numbered records go through Kafka into a keyed, windowed job and out to Kafka (read_committed), Parquet files and
PostgreSQL. Meanwhile workers, the driver and the broker are killed, and each new driver has another parallelism. Then
every record has to be in each output once, in its window, in order for its key. Without Kafka or PostgreSQL, or with
``--files-only``, the records come from files and go to files, and what was left out is said.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import recovery_job
import verified_job
from support import PROGRAMS, Driver, is_python_worker, start_driver, until_stuck
from verified_job import Setup, Window

PER_SECOND = 500
PARTITIONS = 4
PARALLELISMS = (2, 3, 1)
OPTIONS = {
    **recovery_job.OPTIONS,
    "execution.checkpointing.interval": "500 ms",
    "execution.checkpointing.timeout": "60 s",
    "execution.checkpointing.tolerable-failed-checkpoints": "100",
}
#: So long nothing new may be shown: starting drivers takes minutes when many others want the processor.
_STILL_SECONDS = 400.0
#: How many of the troubles are followed by another one before the job runs again.
_WHILE_RESTARTING = 0.25


class Input(Protocol):
    """Where numbered records are put, in order."""

    def put(self, numbers: range) -> None: ...

    def end(self, number: int) -> None: ...


class FilesIn:
    """Files that are moved into the directory when they are complete."""

    def __init__(self, setup: Setup) -> None:
        self._directory = Path(setup.files_in)
        self._directory.mkdir(parents=True)
        self._files = 0

    def put(self, numbers: range) -> None:
        self._write([verified_job.line(number) for number in numbers])

    def end(self, number: int) -> None:
        self._write([verified_job.last_line(number, 0)])

    def _write(self, lines: list[str]) -> None:
        draft = self._directory / f".{self._files}"
        draft.write_text("".join(f"{line}\n" for line in lines))
        # Files are read by their times, and a clock may not have moved on since the last one.
        at = 1_700_000_000 + self._files
        os.utime(draft, (at, at))
        draft.rename(self._directory / f"{self._files:08d}")
        self._files += 1


class KafkaIn:
    """A topic; each key is in one partition, and what is sent again because a broker died is there once."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        from confluent_kafka import Producer

        patient = {
            "delivery.timeout.ms": 1_800_000,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
        }
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **patient})
        self._topic = topic
        self._failed: list[Any] = []

    def put(self, numbers: range) -> None:
        for number in numbers:
            self._send(verified_job.line(number), number % verified_job.KEYS % PARTITIONS)

    def end(self, number: int) -> None:
        for partition in range(PARTITIONS):
            self._send(verified_job.last_line(number, partition), partition)
        left = self._producer.flush(600)
        assert (left, self._failed) == (0, []), f"{left} records were not sent: {self._failed[:1]}"

    def _send(self, text: str, partition: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, text.encode(), partition=partition, on_delivery=self._on_delivery
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error:
            self._failed.append(error)


class Feed:
    """Puts records in at a rate, from a thread of its own, until it is ended."""

    def __init__(self, target: Input, per_second: int) -> None:
        self._target = target
        self._per_second = per_second
        self._enough = threading.Event()
        self.count = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        batch = max(1, self._per_second // 10)
        try:
            while not self._enough.wait(0.1):
                self._target.put(range(self.count, self.count + batch))
                self.count += batch
            self._target.end(self.count)
        except BaseException as error:  # noqa: BLE001 - raised by end()
            self._error = error

    def end(self) -> int:
        """Put in no more; how many there are."""
        self._enough.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self.count


@dataclass
class Verifier:
    """One run: what is there, what is killed, and for how long; everything is killed at least once."""

    setup: Setup
    directory: Path
    source: Input
    seconds: float
    #: Outputs beside files: how to read each, in its order.
    outputs: dict[str, Callable[[], list[Window]]] = field(default_factory=dict)
    #: How to kill servers, each of which comes back.
    servers: dict[str, Callable[[], None]] = field(default_factory=dict)
    pause: tuple[float, float] = (0.0, 3.0)
    seed: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    count: int = 0
    _drivers: int = 0
    _counts: dict[Path, int] = field(default_factory=dict)

    def run(self, say: Callable[[str], None] = lambda text: None) -> None:
        """Start feed and job, kill for so long, let everything arrive, look at all outputs."""
        self._draw = random.Random(self.seed)
        self.setup.save(self.directory / "setup.json")
        self._driver = self._start(say)
        feed = Feed(self.source, PER_SECOND)
        try:
            self._await_output()
            self._make_trouble(say)
            self.count = feed.end()
            say(f"{self.count:,} records were sent; waiting for them to arrive")
            self._until(lambda: self._arrived_in_files() >= self.count, "all records are in files")
            for name, read in self.outputs.items():
                self._until(lambda read=read: _numbers([read()]) >= self.count, f"all are in {name}")
        finally:
            self._driver.kill_family()
        verified_job.check("files", verified_job.windows_in_files(self.setup), self.count)
        for name, read in self.outputs.items():
            verified_job.check(name, [[w for w in read() if w.key >= 0]], self.count)

    def _make_trouble(self, say: Callable[[str], None]) -> None:
        kinds = ["worker", "driver", *self.servers]
        deadline = time.monotonic() + self.seconds
        missing = self._draw.sample(kinds, len(kinds))
        while missing or time.monotonic() < deadline:
            kind = missing.pop() if missing else self._draw.choice(kinds)
            say(f"kill {kind}; {self._arrived_in_files():,} records are in files")
            self._kill(kind, say)
            self.happened[kind] += 1
            if self._draw.random() >= _WHILE_RESTARTING:
                self._await_output()
            time.sleep(self._draw.uniform(*self.pause))  # the moment of the next one is random

    def _kill(self, kind: str, say: Callable[[str], None]) -> None:
        if kind in self.servers:
            self.servers[kind]()
        elif kind == "driver":
            os.kill(self._driver.popen.pid, signal.SIGKILL)
            self._driver.popen.wait()
            self._driver = self._start(say)  # at once: what is left of the first must do no harm
        else:
            self._until(self._kill_worker, "there is a worker to kill")

    def _kill_worker(self) -> bool:
        alive = {process.pid for process in self._driver.family() if is_python_worker(process)}
        tasks = recovery_job.task_processes(Path(self.setup.output))
        victims = [task.pid for task in tasks if task.pid in alive]
        if not victims:
            return False
        try:
            os.kill(self._draw.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _start(self, say: Callable[[str], None]) -> Driver:
        parallelism = PARALLELISMS[self._drivers % len(PARALLELISMS)]
        self._drivers += 1
        say(f"driver {self._drivers}, parallelism {parallelism}")
        options = {**OPTIONS, "execution.checkpointing.dir": str(self.directory / "checkpoints")}
        definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        run = ["-m", "firesteel.cli.main", "run", "--resume", "-p", str(parallelism), *definitions]
        program = [str(PROGRAMS / "verified.py"), str(self.directory / "setup.json")]
        return start_driver(self.directory / f"driver-{self._drivers}", [*run, *program])

    # Waiting ------------------------------------------------------------------------------------------

    def _arrived_in_files(self) -> int:
        """Looks into each file once, because none ever changes."""
        for path in verified_job.finished_files(self.setup):
            if path not in self._counts:
                self._counts[path] = _numbers([verified_job.windows_of(path)])
        return sum(self._counts.values())

    def _await_output(self) -> None:
        """Wait for more than there is now: an attempt runs, and a checkpoint of it is complete."""
        before = len(verified_job.finished_files(self.setup))
        self._until(lambda: len(verified_job.finished_files(self.setup)) > before, "new output")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def is_so() -> bool:
            ended = self._driver.popen.poll()
            assert ended is None, f"the driver has ended ({ended}): {self._driver.stderr()[-4000:]}"
            return condition()

        try:
            until_stuck(is_so, lambda: len(verified_job.finished_files(self.setup)), _STILL_SECONDS, what)
        except AssertionError as stuck:
            raise AssertionError(
                f"{stuck}; killed so far: {dict(self.happened)}; {self._driver.stderr()[-4000:]}"
            ) from None

    def summary(self) -> str:
        """What was shown."""
        outputs = ["files", *self.outputs]
        kills = ", ".join(f"{number} x {kind}" for kind, number in sorted(self.happened.items()))
        return (
            f"ALL RECORDS DELIVERED: {self.count:,} records, each once and in order, in {', '.join(outputs)}; killed: "
            f"{kills}; {self._drivers} drivers"
        )


def _numbers(sequences: Sequence[Sequence[Window]]) -> int:
    return sum(len(window.numbers) for sequence in sequences for window in sequence if window.key >= 0)


# What there is ------------------------------------------------------------------------------------------


def files_only(directory: Path, seconds: float, seed: int = 0) -> Verifier:
    """From files to files."""
    setup = Setup(str(directory / "output"), str(directory / "input"))
    return Verifier(setup, directory, FilesIn(setup), seconds, seed=seed)


def everything(directory: Path, seconds: float, broker: Any, database: Any | None, seed: int = 0) -> Verifier:
    """From Kafka to Kafka and files, and to a database if there is one."""
    # Records have their event time, which is of 1970: a broker that looks for old ones would delete them at once.
    topic_in, topic_out = (
        broker.topic(name, partitions, retention_ms="-1")
        for name, partitions in (("numbers", PARTITIONS), ("windows", 1))
    )
    setup = Setup(
        str(directory / "output"),
        str(directory / "input"),
        bootstrap_servers=broker.bootstrap_servers,
        topic_in=topic_in,
        topic_out=topic_out,
    )
    source = KafkaIn(broker.bootstrap_servers, topic_in)
    verifier = Verifier(setup, directory, source, seconds, servers={"broker": broker.restart}, seed=seed)
    verifier.outputs["Kafka"] = lambda: [
        Window.parse_text(value.decode()) for value in broker.values(topic_out)
    ]
    if database is not None:
        _add_database(verifier, database)
    return verifier


def _add_database(verifier: Verifier, database: Any) -> None:
    table = verified_job.TABLE
    database.execute(f"CREATE TABLE {table} (id BIGSERIAL, key BIGINT, start BIGINT, numbers TEXT)")
    options = database.options()
    verifier.setup = replace(
        verifier.setup, database=options.url, user=options.user_name, password=options.password
    )
    verifier.outputs["PostgreSQL"] = lambda: [
        Window.parse(*row) for row in database.execute(f"SELECT key, start, numbers FROM {table} ORDER BY id")
    ]
    verifier.servers["database"] = lambda: _restart(database.server.server)


def _restart(server: Any) -> None:
    server.kill()
    server.start()


@contextmanager
def _verifier(directory: Path, seconds: float, seed: int, only_files: bool) -> Iterator[Verifier]:
    """With whatever servers can be had here."""
    with ExitStack() as stack:
        broker = database = None
        if not only_files:
            broker = _entered(stack, "Kafka", lambda: _kafka(directory))
            database = None if broker is None else _entered(stack, "PostgreSQL", _postgres)
        if broker is None:
            yield files_only(directory, seconds, seed)
        else:
            yield everything(directory, seconds, broker, database, seed)


def _entered(stack: ExitStack, name: str, make: Callable[[], AbstractContextManager[Any]]) -> Any | None:
    import pytest

    try:
        return stack.enter_context(make())
    except (ImportError, pytest.skip.Exception) as error:
        print(f"NOT VERIFIED: {name} cannot be had here: {error}", flush=True)
        return None


def _kafka(directory: Path) -> AbstractContextManager[Any]:
    import firesteel.datastream.connectors.kafka  # noqa: F401 - whether there is a connector
    from firesteel_support.servers.kafka import kafka_broker

    (directory / "kafka").mkdir()
    return contextmanager(kafka_broker)(directory / "kafka")


@contextmanager
def _postgres() -> Iterator[Any]:
    import firesteel.datastream.connectors.jdbc  # noqa: F401 - whether there is a connector
    from firesteel_support.servers.postgres import _server

    with _server() as server:
        yield server.create_database()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long it goes on (default 5)")
    parser.add_argument("--seed", type=int, default=None, help="what victims and moments are drawn from")
    parser.add_argument("--files-only", action="store_true", help="without Kafka and PostgreSQL")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # leave no process behind
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    directory = Path(tempfile.mkdtemp(prefix="firesteel-verify-"))
    print(f"seed {seed}, everything is below {directory}", flush=True)
    began = time.monotonic()
    with _verifier(directory, 60 * arguments.minutes, seed, arguments.files_only) as verifier:
        verifier.run(lambda text: print(f"{time.monotonic() - began:6.1f} s: {text}", flush=True))
        print(verifier.summary())
    shutil.rmtree(directory, ignore_errors=True)  # after a failure it stays, to be looked at
    return 0


if __name__ == "__main__":
    sys.exit(main())
