"""Chaos: a keyed, windowed job on a standalone cluster, while what it runs on is killed at random.

    scripts/chaos --minutes 5

Python workers, the daemons they come from, executors, and in the long form the driver get ``kill -9``. A driver that
was killed is started again with ``--resume``. Afterwards the output must be that of a run without failures.
"""

from __future__ import annotations

import argparse
import os
import random
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
from support import PROGRAMS, Driver, Process, start_driver

PER_SECOND = 1000.0
#: The job may take so much longer than its records, because restarts take time, too.
_PATIENCE_SECONDS = 120.0


@dataclass
class Chaos:
    """One run: a job for so many seconds of records, and what is done to it."""

    cluster: Cluster
    directory: Path
    seconds: float
    victims: tuple[str, ...] = ("worker", "daemon", "executor")
    pause: tuple[float, float] = (1.5, 4.0)
    seed: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    _drivers: int = 0
    _shown: int = 0

    @property
    def output(self) -> Path:
        return self.directory / "output"

    @property
    def count(self) -> int:
        """The records that go in."""
        return int(self.seconds * PER_SECOND)

    def run(self, say: Callable[[str], None] = lambda text: None) -> None:
        """Start the job, kill until it has ended, compare the output."""
        draw = random.Random(self.seed)
        driver = self._start()
        deadline = time.monotonic() + 3 * self.seconds + _PATIENCE_SECONDS
        try:
            while driver.popen.poll() is None:
                assert time.monotonic() < deadline, f"not over in time; {driver.stderr()[-2000:]}"
                time.sleep(draw.uniform(*self.pause) if self._is_in_the_middle() else 0.1)
                if not self._is_in_the_middle():
                    continue
                kind = draw.choice(self.victims)
                if kind == "driver":
                    driver = self._replace(driver)
                elif not self._kill_one_of(kind, draw):
                    continue
                self.killed[kind] += 1
                say(f"killed {kind}; {self._shown:,} of {self.count:,} records are there")
            assert driver.popen.returncode == 0, driver.stderr()[-4000:]
        finally:
            driver.kill_family()
        recovery_job.check(self.output, self.count)

    def _start(self) -> Driver:
        self._drivers += 1
        options = {
            **recovery_job.OPTIONS,
            "execution.checkpointing.dir": str(self.directory / "checkpoints"),
            "execution.checkpointing.incremental": "true",
        }
        definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        run = ["-m", "firesteel.cli.main", "run", "--resume", "-m", self.cluster.url, "-p", "2", *definitions]
        program = [str(PROGRAMS / "recovering.py"), str(self.output), str(self.count), str(PER_SECOND)]
        return start_driver(self.directory / f"driver-{self._drivers}", [*run, *program])

    def _replace(self, driver: Driver) -> Driver:
        """Kill the driver and start another at once: what is left of the first must do no harm."""
        os.kill(driver.popen.pid, signal.SIGKILL)
        driver.popen.wait(10)
        return self._start()

    def _is_in_the_middle(self) -> bool:
        """Whether a checkpoint is complete, and the end not so near that killing would miss it."""
        self._shown = len(recovery_job.shown(self.output))
        return 0 < self._shown < 0.8 * self.count

    def _kill_one_of(self, kind: str, draw: random.Random) -> bool:
        victims = self._processes(kind)
        if not victims:
            return False
        try:
            os.kill(draw.choice(victims).pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _processes(self, kind: str) -> list[Process]:
        if kind == "executor":
            return self.cluster.executors()
        pythons = {process.pid: process for process in self.cluster.python_workers()}
        is_worker = kind == "worker"  # a fork of a daemon, which has the same command line
        return [process for process in pythons.values() if (process.parent in pythons) is is_worker]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long records come in (default 5)")
    parser.add_argument("--seed", type=int, default=None, help="what victims and moments are drawn from")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    directory = Path(tempfile.mkdtemp(prefix="firesteel-chaos-"))
    print(f"seed {seed}, everything is below {directory}", flush=True)
    began = time.monotonic()
    with standalone_cluster(directory / "cluster", uuid.uuid4().hex) as cluster:
        chaos = Chaos(
            cluster,
            directory,
            60 * arguments.minutes,
            ("worker", "worker", "daemon", "executor", "driver"),
            seed=seed,
        )
        chaos.run(lambda text: print(f"{time.monotonic() - began:6.1f} s: {text}", flush=True))
    deaths = ", ".join(f"{number} {kind}s" for kind, number in sorted(chaos.killed.items()))
    print(f"exactly once held for {chaos.count:,} records; killed: {deaths or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
