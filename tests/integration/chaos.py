"""Chaos: a keyed, windowed job on a standalone cluster, while what it runs on is killed at random.

    scripts/chaos --minutes 5

Python workers, the daemons they come from, executors, and in the long form the driver get ``kill -9``. A driver that
was killed is started again with ``--resume``. Afterwards the output must be that of a run without failures.

The job goes on until it is told to end, so it does not matter how long a restart takes on a busy machine. After most
kills the next one waits for new output, or a slow machine would never get anywhere; some come in the middle of the
restart. Only a job that shows nothing new for a long time has failed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import recovery_job
from cluster import Cluster, standalone_cluster
from support import PROGRAMS, Driver, start_driver, until_stuck

PER_SECOND = 1000.0
EVERYTHING = ("worker", "worker", "daemon", "executor", "driver")

#: So long nothing new may be shown: starting a driver takes half a minute when ten others want the processor.
_STILL_SECONDS = 120.0
#: How many of the kills are followed by another one before the job runs again.
_KILLS_WHILE_RESTARTING = 0.25


@dataclass
class Chaos:
    """One run: what is killed, and for how long; every kind of victim is killed at least once."""

    cluster: Cluster
    directory: Path
    seconds: float
    victims: tuple[str, ...] = ("worker", "daemon", "executor")
    pause: tuple[float, float] = (0.0, 3.0)
    seed: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    records: int = 0
    _drivers: int = 0

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._shown = recovery_job.ShownCount(self.output)

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def run(self, say: Callable[[str], None] = lambda text: None) -> None:
        """Start the job, kill for so long, have it end, compare the output."""
        self._driver = self._start()
        try:
            self._await_output()
            deadline = time.monotonic() + self.seconds
            missing = self._draw.sample(self.victims, len(self.victims))
            while missing or time.monotonic() < deadline:
                kind = missing.pop() if missing else self._draw.choice(self.victims)
                self._kill(kind)
                self.killed[kind] += 1
                say(f"killed {kind}; {self._shown():,} records are there")
                if self._draw.random() >= _KILLS_WHILE_RESTARTING:
                    self._await_output()
                time.sleep(self._draw.uniform(*self.pause))  # the moment of the next one is random
            self._await_output()
            recovery_job.tell_to_end(self.output)
            self._until(lambda: self._driver.popen.poll() is not None, "the job is over")
            assert self._driver.popen.returncode == 0, self._driver.stderr()[-4000:]
        finally:
            self._driver.kill_family()
        self.records = recovery_job.check(self.output)

    def _start(self) -> Driver:
        self._drivers += 1
        options = {
            **recovery_job.OPTIONS,
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            "execution.checkpointing.incremental": "true",
        }
        definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        run = ["-m", "firesteel.cli.main", "run", "--resume", "-m", self.cluster.url, "-p", "2", *definitions]
        program = [str(PROGRAMS / "recovering.py"), str(self.output), str(PER_SECOND)]
        return start_driver(self.directory / f"driver-{self._drivers}", [*run, *program])

    def _await_output(self) -> None:
        """Wait for more than there is now: an attempt runs, and a checkpoint of it is complete."""
        before = self._shown()

        def is_more() -> bool:
            assert self._driver.popen.poll() is None, f"the driver has ended; {self._driver.stderr()[-4000:]}"
            return self._shown() > before

        self._until(is_more, "new output")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            until_stuck(condition, self._shown, _STILL_SECONDS, what)
        except AssertionError as stuck:
            raise AssertionError(f"{stuck}; killed {self.killed}; {self._driver.stderr()[-4000:]}") from None

    def _kill(self, kind: str) -> None:
        if kind == "driver":
            os.kill(self._driver.popen.pid, signal.SIGKILL)
            self._driver.popen.wait(10)
            self._driver = self._start()  # at once: what is left of the first must do no harm
        else:
            self._until(lambda: self._kill_one_of(kind), f"there is one of the kind {kind} to kill")

    def _kill_one_of(self, kind: str) -> bool:
        if not (victims := self._processes(kind)):
            return False
        try:
            os.kill(self._draw.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _processes(self, kind: str) -> list[int]:
        if kind == "executor":
            return [process.pid for process in self.cluster.executors()]
        pythons = {process.pid: process for process in self.cluster.python_workers()}
        if kind == "worker":  # one that runs a task: others wait for work, and nobody would miss them
            return [task.pid for task in recovery_job.task_processes(self.output) if task.pid in pythons]
        return [process.pid for process in pythons.values() if process.parent not in pythons]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long it goes on killing (default 5)")
    parser.add_argument("--seed", type=int, default=None, help="what victims and moments are drawn from")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    directory = Path(tempfile.mkdtemp(prefix="firesteel-chaos-"))
    print(f"seed {seed}, everything is below {directory}", flush=True)
    began = time.monotonic()
    with standalone_cluster(directory / "cluster", uuid.uuid4().hex) as cluster:
        chaos = Chaos(cluster, directory, 60 * arguments.minutes, EVERYTHING, seed=seed)
        chaos.run(lambda text: print(f"{time.monotonic() - began:6.1f} s: {text}", flush=True))
    deaths = ", ".join(f"{number} {kind}s" for kind, number in sorted(chaos.killed.items()))
    print(f"exactly once held for {chaos.records:,} records; killed: {deaths}")
    shutil.rmtree(directory, ignore_errors=True)  # after a failure it stays, to be looked at
    return 0


if __name__ == "__main__":
    sys.exit(main())
