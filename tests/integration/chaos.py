"""Chaos: a keyed, windowed job on a standalone cluster, while what it runs on gets into trouble at random.

    scripts/chaos --minutes 5

The cluster's machines are network namespaces, where that is allowed: drivers, master and workers on one each.

- Python workers, the daemons they come from, executors and the driver get ``kill -9``. A driver that was killed is
  started again with ``--resume``.
- They are frozen and woken again, before and after anybody can have noticed.
- The disk with checkpoints and output is taken away, read-only or full for some seconds.
- The link of a worker's machine is cut, slow, or carries only one direction; a whole machine is frozen and woken again.

Afterwards the output must be that of a run without failures.

The job goes on until it is told to end, so it does not matter how long a restart takes on a busy machine. After most
troubles the next one waits for new output, or a slow machine would never get anywhere; some come in the middle of the
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import recovery_job
from cluster import WORKERS, Cluster, cluster_of_machines, standalone_cluster
from machines import Machine
from small_disk import SmallDisk, small_disk
from support import PROGRAMS, Driver, NotPermittedError, until_stuck

PER_SECOND = 1000.0
KILLS = ("killed worker", "killed daemon", "killed executor", "killed driver")
FREEZES = ("frozen worker", "frozen daemon", "frozen executor", "frozen driver")
DISK = ("disk away", "disk read-only", "disk full")
MACHINES = ("link cut", "link slow", "link deaf", "link mute", "host frozen")
#: So few slots of each worker that a job needs both of them.
FEW_SLOTS = 3

#: How long a heartbeat may be missing in this job, in seconds: low, so that some freezes are longer.
HEARTBEAT_TIMEOUT = 4.0
OPTIONS = {
    **recovery_job.OPTIONS,
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.timeout": "20 s",
    "execution.checkpointing.tolerable-failed-checkpoints": "3",
    "heartbeat.interval": "500 ms",
    "heartbeat.timeout": f"{HEARTBEAT_TIMEOUT:.0f} s",
}

#: So long nothing new may be shown: starting drivers and executors takes minutes when many others want the processor.
_STILL_SECONDS = 400.0
#: How many of the troubles are followed by another one before the job runs again.
_WHILE_RESTARTING = 0.25


@dataclass
class Chaos:
    """One run: what goes wrong, and for how long; everything goes wrong at least once."""

    cluster: Cluster
    directory: Path
    seconds: float
    troubles: tuple[str, ...] = KILLS[:3]
    disk: SmallDisk | None = None
    pause: tuple[float, float] = (0.0, 3.0)
    seed: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    records: int = 0
    _drivers: int = 0

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._data = self.directory / "data" if self.disk is None else self.disk.path
        self._shown = recovery_job.ShownCount(self._data)

    @property
    def output(self) -> Path:
        """Where test and job talk."""
        return self.directory / "output"

    def run(self, say: Callable[[str], None] = lambda text: None) -> None:
        """Start the job, make trouble for so long, have it end, compare the output."""
        self._driver = self._start()
        try:
            self._await_output()
            deadline = time.monotonic() + self.seconds
            missing = self._draw.sample(self.troubles, len(self.troubles))
            while missing or time.monotonic() < deadline:
                kind = missing.pop() if missing else self._draw.choice(self.troubles)
                self._make(kind, say)
                self.happened[kind] += 1
                if self._draw.random() >= _WHILE_RESTARTING:
                    self._await_output()
                time.sleep(self._draw.uniform(*self.pause))  # the moment of the next one is random
            self._await_output()
            recovery_job.tell_to_end(self.output)
            self._until(lambda: self._driver.popen.poll() is not None, "the job is over")
            assert self._driver.popen.returncode == 0, self._driver.stderr()[-4000:]
        finally:
            self._driver.kill_family()
        self.records = recovery_job.check(self.output, self._data)

    def _start(self) -> Driver:
        self._drivers += 1
        options = {**OPTIONS, "execution.checkpointing.dir": str(self._data / "checkpoints")}
        definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        run = ["-m", "firesteel.cli.main", "run", "--resume", "-m", self.cluster.url, "-p", "2", *definitions]
        program = [str(PROGRAMS / "recovering.py"), str(self.output), str(PER_SECOND), str(self._data)]
        directory = self.directory / f"driver-{self._drivers}"
        return self.cluster.start_driver(directory, *run, *program)

    def _await_output(self) -> None:
        """Wait for more than there is now: an attempt runs, and a checkpoint of it is complete."""
        before = self._shown()

        def is_more() -> bool:
            self._check_driver()
            return self._shown() > before

        self._until(is_more, "new output")

    def _check_driver(self) -> None:
        assert self._driver.popen.poll() is None, (
            f"the driver has ended; {self.happened}; {self._driver.stderr()[-4000:]}"
        )

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            until_stuck(condition, self._shown, _STILL_SECONDS, what)
        except AssertionError as stuck:
            raise AssertionError(
                f"{stuck}; happened so far: {self.happened}; {self._driver.stderr()[-4000:]}"
            ) from None

    # Trouble ------------------------------------------------------------------------------------------

    def _make(self, kind: str, say: Callable[[str], None]) -> None:
        shown = f"{self._shown():,} records are there"
        what, _, victim = kind.partition(" ")
        if kind == "killed driver":
            say(f"{kind}; {shown}")
            os.kill(self._driver.popen.pid, signal.SIGKILL)
            self._driver.popen.wait()
            self._driver = self._start()  # at once: what is left of the first must do no harm
        elif what == "killed":
            say(f"{kind}; {shown}")
            self._until(lambda: self._signal(victim, signal.SIGKILL), f"there is a {victim} to kill")
        else:
            seconds = self._draw.choice(
                (self._draw.uniform(0.1, 1.0), self._draw.uniform(1.5, 2.5) * HEARTBEAT_TIMEOUT)
            )
            machine = self.cluster.machines.get(self._draw.choice(WORKERS))
            where = "" if machine is None or kind not in MACHINES else f" of {machine.name}"
            say(f"{kind}{where} for {seconds:.1f} s; {shown}")
            with self._frozen(victim) if what == "frozen" else self._broken(kind, machine):
                time.sleep(seconds)
        self._check_driver()

    @contextmanager
    def _frozen(self, kind: str) -> Iterator[None]:
        if kind == "driver":
            victim = self._driver.popen.pid
            os.kill(victim, signal.SIGSTOP)
        else:
            self._until(lambda: self._signal(kind, signal.SIGSTOP), f"there is a {kind} to freeze")
            victim = self._victim
        try:
            yield
        finally:
            send(victim, signal.SIGCONT)  # it may be dead: somebody lost patience

    @contextmanager
    def _broken(self, kind: str, machine: Machine | None) -> Iterator[None]:
        disk = self.disk
        ways: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {}
        if disk is not None:
            ways["disk away"] = (disk.take_away, disk.bring_back)
            ways["disk read-only"] = (disk.forbid_writing, disk.allow_writing)
            ways["disk full"] = (disk.fill, disk.make_room)
        if machine is not None:
            ways["link cut"] = (machine.cut, machine.mend)
            ways["link slow"] = (lambda: machine.slow("512kbit"), machine.mend)
            ways["link deaf"] = (machine.deafen, machine.mend)
            ways["link mute"] = (machine.mute, machine.mend)
            ways["host frozen"] = (machine.freeze, machine.wake)
        begin, end = ways[kind]
        begin()
        try:
            yield
        finally:
            end()

    def _signal(self, kind: str, number: int) -> bool:
        """Send a signal to one of a kind, if there is any."""
        if not (victims := self._processes(kind)):
            return False
        self._victim = self._draw.choice(victims)
        return send(self._victim, number)

    def _processes(self, kind: str) -> list[int]:
        if kind == "executor":
            return [process.pid for process in self.cluster.executors()]
        pythons = {process.pid: process for process in self.cluster.python_workers()}
        if kind == "worker":  # one that runs a task: others wait for work, and nobody would miss them
            return [task.pid for task in recovery_job.task_processes(self.output) if task.pid in pythons]
        return [process.pid for process in pythons.values() if process.parent not in pythons]


def send(pid: int, number: int) -> bool:
    """Send a signal; whether there was somebody to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long it goes on (default 5)")
    parser.add_argument("--seed", type=int, default=None, help="what troubles and moments are drawn from")
    parser.add_argument(
        "--only",
        action="append",
        metavar="WORD",
        help="only troubles with this word, such as killed or 'disk away'",
    )
    parser.add_argument(
        "--machines",
        choices=("namespaces", "loopback"),
        help="what the cluster's machines are; without it namespaces if they are allowed here",
    )
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # leave no mount, namespace or process behind
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    directory = Path(tempfile.mkdtemp(prefix="firesteel-chaos-"))
    print(f"seed {seed}, everything is below {directory}", flush=True)
    began = time.monotonic()
    with ExitStack() as stack:
        troubles, disk = [*KILLS, *FREEZES], None
        try:
            disk = stack.enter_context(small_disk(directory))
            troubles += DISK
        except NotPermittedError as error:
            print(f"no trouble with disks: {error}")
        cluster = _cluster(stack, directory / "cluster", arguments.machines)
        if cluster.machines:
            troubles += MACHINES
        if arguments.only:
            troubles = [kind for kind in troubles if any(word in kind for word in arguments.only)]
        seconds = 60 * arguments.minutes
        chaos = Chaos(cluster, directory, seconds, tuple(troubles), disk, seed=seed)
        try:
            chaos.run(lambda text: print(f"{time.monotonic() - began:6.1f} s: {text}", flush=True))
        except BaseException:
            if disk is not None:
                shutil.copytree(disk.path, directory / "disk-as-it-was", dirs_exist_ok=True)
            raise
    happened = ", ".join(f"{number} x {kind}" for kind, number in sorted(chaos.happened.items()))
    print(f"exactly once held for {chaos.records:,} records; {happened}")
    shutil.rmtree(directory, ignore_errors=True)  # after a failure it stays, to be looked at
    return 0


def _cluster(stack: ExitStack, directory: Path, wanted: str | None) -> Cluster:
    mark = uuid.uuid4().hex
    if wanted != "loopback":
        try:
            return stack.enter_context(cluster_of_machines(directory, mark, FEW_SLOTS))
        except NotPermittedError as error:
            if wanted is not None:
                raise
            print(f"no trouble with networks: {error}")
    return stack.enter_context(standalone_cluster(directory, mark))


if __name__ == "__main__":
    sys.exit(main())
