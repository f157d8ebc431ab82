"""Machines of a cluster that cannot be reached for a while: noticed, replaced, and harmless when they are back.

Drivers, master and workers are on machines of their own: network namespaces, see machines.py. `scripts/chaos` does the same for
as long as one likes, with links that are deaf or mute and hosts that are frozen at random moments.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import DRIVER, Cluster, cluster_of_machines
from machines import Machine
from recovery_job import OPTIONS, ShownCount, check, task_processes, tell_to_end
from support import PROGRAMS, Driver, NotPermittedError, archived_interpreter, processes, until

from firesteel_support import servers

#: Short, because a test waits for it; long enough that a busy machine is not taken for a lost one.
HEARTBEAT = {"heartbeat.interval": "300 ms", "heartbeat.timeout": "4 s"}
_ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


class Job:
    """A job on the cluster that goes on until it is told to end, and a driver that answers questions."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._output = directory / "output"
        self._shown = ShownCount(self._output)
        options = {**OPTIONS, **HEARTBEAT, "execution.checkpointing.dir": str(directory / "checkpoints")}
        settings = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        archived_interpreter(directory / "env.tar.gz", "in the archive")
        interpreter = ("-pyarch", f"{directory / 'env.tar.gz'}#env", "-pyexec", "env/bin/python")
        run = ("-m", "firesteel.cli.main", "run", "-m", cluster.url, "-p", "2", *interpreter, *settings)
        program = (str(PROGRAMS / "recovering.py"), str(self._output), "1000")
        self.driver: Driver = cluster.start_driver(directory / "driver", *run, *program)

    def await_more_output(self) -> None:
        """New records are shown: an attempt runs, and a checkpoint of it is complete."""
        before = self._shown()
        self.until(lambda: self._shown() > before, "new output")

    def until(self, condition: Callable[[], Any], what: str) -> None:
        def is_so() -> Any:
            assert self.driver.popen.poll() is None, self.driver.stderr()
            return condition()

        until(is_so, what)

    def attempts_failed(self) -> int:
        return self.driver.stderr().count("failed, the next one starts")

    def tasks(self) -> list[int]:
        """The processes of the newest attempt's tasks."""
        return [task.pid for task in task_processes(self._output)]

    def tasks_on(self, machine: Machine) -> list[int]:
        """Those that are there."""
        there = set(machine.processes())
        return [pid for pid in self.tasks() if pid in there]

    def interpreters(self) -> set[str]:
        """Where the interpreters of the tasks came from."""
        found = set()
        for task in task_processes(self._output):
            for variable in Path(f"/proc/{task.pid}/environ").read_text().split("\0"):
                if variable.startswith("FIRESTEEL_TEST_INTERPRETER="):
                    found.add(variable.partition("=")[2])
        return found

    def ask(self, path: str) -> Any:
        """What the driver's REST interface says; it listens on its machine only."""
        words = self._cluster.machines[DRIVER].command(
            sys.executable, "-c", _ASK, f"http://localhost:8081{path}"
        )
        return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

    def end_and_check(self) -> None:
        tell_to_end(self._output)
        assert self.driver.wait() == 0, self.driver.stderr()
        assert check(self._output) > 0


@pytest.mark.cluster
@pytest.mark.slow
def test_links_and_hosts_that_fail_are_survived_and_machines_that_return_do_no_harm(tmp_path: Path) -> None:
    try:
        with cluster_of_machines(tmp_path / "cluster", uuid.uuid4().hex) as cluster:
            job = Job(cluster, tmp_path)
            try:
                first, second = cluster.machines["worker-1"], cluster.machines["worker-2"]
                job.await_more_output()
                job.until(lambda: job.tasks_on(first) and job.tasks_on(second), "tasks on both machines")
                assert job.interpreters() == {"in the archive"}, "it has travelled to both of them"
                _is_slow(job, second)
                _is_out_of_reach(job, second, second.cut, second.mend)
                _is_out_of_reach(job, first, first.freeze, first.wake)
                _is_out_of_reach(job, second, second.mute, second.mend)
                _is_told(job)
                job.end_and_check()
            finally:
                job.driver.kill_family()
    except NotPermittedError as error:
        servers.missing("a cluster of network namespaces", str(error))


def _is_slow(job: Job, machine: Machine) -> None:
    """Records go on through a slow link, and nobody takes the machine for lost."""
    machine.slow("1mbit")

    def survived() -> bool:
        failed = job.attempts_failed()
        for _ in range(3):
            job.await_more_output()
        return job.attempts_failed() == failed

    job.until(survived, "an attempt that goes on though the link is slow")
    machine.mend()


def _is_out_of_reach(job: Job, machine: Machine, spoil: Callable[[], None], mend: Callable[[], None]) -> None:
    """The job goes on elsewhere while the machine cannot be reached, and what was left there ends when it can."""
    job.until(lambda: job.tasks_on(machine), f"tasks on {machine.name}")
    failed, left_behind = job.attempts_failed(), job.tasks_on(machine)
    spoil()
    job.until(lambda: job.attempts_failed() > failed, f"{machine.name} is missed")
    job.until(lambda: job.tasks() and not job.tasks_on(machine), "an attempt without it")
    job.await_more_output()
    mend()
    job.until(lambda: not processes().keys() & set(left_behind), "what was left behind has ended itself")


def _is_told(job: Job) -> None:
    """All of it can be seen over REST: failures, the hosts they were on, and executors that Spark has given up."""
    (job_id,) = (each["id"] for each in job.ask("/jobs")["jobs"])
    failures = job.ask(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
    kinds = Counter(each["failureLabels"]["type"] for each in failures)
    assert kinds["lost machine"] >= 3, json.dumps(failures, indent=1)
    # What is left may not be enough at once.
    assert kinds.keys() <= {"lost machine", "slots"}, json.dumps(failures, indent=1)
    # Whose task is missed first counts as lost: that may be one that only waits for a machine out of reach.
    named = {each["endpoint"].partition(":")[0] for each in failures if each["endpoint"]}
    assert named
    assert named <= {"worker-1", "worker-2"}
    hosts = {each["host"]: each for each in job.ask(f"/jobs/{job_id}/hosts")["hosts"]}
    lost = [each for each in hosts.values() if each["losses"]]
    assert {each["host"] for each in lost} >= named, hosts
    assert all(each["returned"] > each["lost"] for each in lost if each["status"] == "RUNNING"), hosts
    assert job.ask("/taskmanagers")["lost"]
