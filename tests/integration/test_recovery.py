"""Exactly once on real Spark: whatever is killed, the output is that of a run without failures."""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import recovery_job
from chaos import DISK, FREEZES, KILLS, Chaos
from cluster import Cluster
from recovery_job import (
    OPTIONS,
    Announced,
    TaskProcess,
    announced,
    build,
    check,
    shown,
    task_processes,
    tell_to_end,
)
from small_disk import small_disk
from support import PROGRAMS, Driver, NotPermittedError, processes, until

from firesteel.common import JobStatus
from firesteel.datastream import StreamExecutionEnvironment

Start = Callable[..., Driver]
SparkEnvironment = Callable[..., StreamExecutionEnvironment]

PER_SECOND = 1000.0

#: Set to a number: the chaos test goes on for so many minutes, and kills the driver, too.
CHAOS_MINUTES = float(os.environ.get("FIRESTEEL_CHAOS_MINUTES", "0"))


def recoverable(
    environment: SparkEnvironment, directory: Path, parallelism: int, **options: str
) -> StreamExecutionEnvironment:
    return environment(
        parallelism, **{**OPTIONS, "execution.checkpointing.dir": str(directory / "checkpoints"), **options}
    )


def await_output(client: Any, output: Path, more_than: int = 0) -> int:
    """Wait until the job has shown something: a checkpoint is complete, and the job in the middle."""

    def more() -> int:
        assert not client.is_over(), client.wait()
        count = len(shown(output))
        return count if count > more_than else 0

    return until(more, "the next output")


def await_task(client: Any, output: Path, role: str, after: int) -> TaskProcess:
    """Wait until a task runs in a later attempt than ``after``; raises what ended the job, if it was ended.

    An attempt begins when the one before it is over, so output that comes from now on is its own.
    """

    def found() -> TaskProcess | None:
        assert not client.is_over(), client.wait()
        tasks = [task for task in task_processes(output) if task.role == role and task.attempt > after]
        return tasks[0] if tasks else None

    task = until(found, f"a {role} task runs in a later attempt than {after}")
    assert task is not None
    return task


@contextmanager
def running(env: StreamExecutionEnvironment) -> Iterator[Any]:
    """Start a job; a test that fails does not leave it to those that follow."""
    client: Any = env.execute_async()
    try:
        yield client
    finally:
        if not client.is_over():
            client.cancel().result()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("backend", "database"),
    [("hashmap", True), ("rocksdb", False)],
    ids=["two-phase commit", "files, state on disk"],
)
def test_killed_python_workers(
    environment: SparkEnvironment, tmp_path: Path, backend: str, database: bool
) -> None:
    env = recoverable(
        environment,
        tmp_path,
        2,
        **{"state.backend.type": backend, "execution.checkpointing.incremental": "true"},
    )
    build(env, tmp_path, PER_SECOND, database=database)
    with running(env) as client:
        attempt = -1
        for role in ("source", "keyed"):
            victim = await_task(client, tmp_path, role, attempt)
            await_output(client, tmp_path, len(shown(tmp_path)))
            os.kill(victim.pid, signal.SIGKILL)
            attempt = victim.attempt
        await_task(client, tmp_path, "keyed", attempt)
        seen = await_output(client, tmp_path, len(shown(tmp_path)))
        earlier = {task.pid for task in announced(tmp_path) if task.attempt <= attempt}
        until(lambda: not earlier & processes().keys(), "no process of an earlier attempt is left")
        tell_to_end(tmp_path)
        client.wait()
        assert client.statistics().checkpoints.restored is not None
    assert check(tmp_path) >= seen


@pytest.mark.spark
def test_collected_results_come_once_when_workers_are_killed(
    environment: SparkEnvironment, tmp_path: Path
) -> None:
    env = recoverable(environment, tmp_path, 2)
    numbers = recovery_job.numbers(env, tmp_path, PER_SECOND).map(Announced(tmp_path, "collecting"))
    to_kill = ["collecting", "source", "collecting"]
    found: list[int] = []
    attempt = -1
    with numbers.set_parallelism(1).execute_and_collect() as results:
        for result in results:
            found.append(result)
            role = to_kill[-1] if to_kill else "collecting"
            now = [task for task in task_processes(tmp_path) if task.role == role and task.attempt > attempt]
            if not now or len(found) % 100:
                continue
            attempt = now[0].attempt
            if to_kill:
                os.kill(now[0].pid, signal.SIGKILL)
                to_kill.pop()
            else:
                tell_to_end(tmp_path)
    for parity in (0, 1):  # each subtask of the source has one
        expected = sorted(n for n in recovery_job.read(tmp_path) if n % 2 == parity)
        assert [n for n in found if n % 2 == parity] == expected
    assert len(found) >= 400


@pytest.mark.spark
def test_savepoint_and_another_parallelism(environment: SparkEnvironment, tmp_path: Path) -> None:
    first = recoverable(environment, tmp_path / "first", 2)
    build(first, tmp_path, PER_SECOND)
    with running(first) as client:
        before = await_output(client, tmp_path)
        path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        assert client.get_job_status().result() is JobStatus.FINISHED
    at_savepoint = len(shown(tmp_path))
    assert before <= at_savepoint
    second = recoverable(environment, tmp_path / "second", 3, **{"execution.state-recovery.path": path})
    build(second, tmp_path, PER_SECOND)
    with running(second) as client:
        await_output(client, tmp_path, at_savepoint)
        tell_to_end(tmp_path)
        client.wait()
    assert check(tmp_path) > at_savepoint


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_killed_driver_goes_on_where_it_was(driver: Start, tmp_path: Path, number: int) -> None:
    options = {**OPTIONS, "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    definitions = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    run = ["-m", "firesteel.cli.main", "run", "--resume", "-p", "2", *definitions]
    command = [*run, str(PROGRAMS / "recovering.py"), str(tmp_path), str(PER_SECOND)]

    def await_more(running: Driver, than: int) -> int:
        def more() -> bool:
            assert running.popen.poll() is None, running.stderr()
            return len(shown(tmp_path)) > than

        until(more, "output")
        return len(shown(tmp_path))

    first = driver(*command)
    await_more(first, 0)
    os.kill(first.popen.pid, number)
    assert first.wait() == (143 if number == signal.SIGTERM else -number)
    second = driver(*command)  # at once: what is left of the first must do no harm
    until(lambda: not first.family(), "everything of the first driver is gone")
    at_kill = len(shown(tmp_path))
    seen = await_more(second, at_kill)
    tell_to_end(tmp_path)
    assert second.wait() == 0, second.stderr()
    assert check(tmp_path) >= seen
    until(lambda: not second.family(), "everything is gone")


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(900 + 60 * 5 * CHAOS_MINUTES)
def test_chaos_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """What is killed, frozen or broken; `scripts/chaos` cuts the network as well, and kills drivers."""
    troubles = ["killed worker", "killed daemon", "killed executor", "frozen worker"]
    on_disk = ["disk away", "disk full"]
    if CHAOS_MINUTES:
        troubles, on_disk = [*KILLS, *FREEZES], [*DISK]
    with ExitStack() as stack:
        disk = None
        try:
            disk = stack.enter_context(small_disk(tmp_path))
            troubles += on_disk
        except NotPermittedError as error:
            print(f"no trouble with disks: {error}")
        chaos = Chaos(cluster, tmp_path, 60 * CHAOS_MINUTES, tuple(troubles), disk)
        chaos.run()
    assert set(chaos.happened) == set(troubles)


def test_check_sees_what_is_lost_and_what_is_doubled(tmp_path: Path) -> None:
    numbers = [*range(0, 300, 2), *range(1, 250, 2)]  # as read by two subtasks, one of them slower
    counts: Counter[int] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    records = []
    for n in numbers:
        key = n % recovery_job.KEYS
        counts[key] += 1
        sums[key, n - n % recovery_job.WINDOW_MILLIS] += n
        records.append((key, n, counts[key]))
    windows = [(key, start, total) for (key, start), total in sums.items()]

    def written(numbered_records: list[Any], window_records: list[Any]) -> Path:
        output = tmp_path / uuid.uuid4().hex
        for name, lines in (("numbered", numbered_records), ("windows", window_records)):
            (output / name).mkdir(parents=True)
            (output / name / "part-0-0").write_text("".join(f"{line}\n" for line in lines))
            (output / name / ".part-0-1.inprogress").write_text("(0, 1, 2)\n")
        (output / "read").mkdir()
        for name, position in (("9-1-2", 281), ("10-0-2", 300), ("10-1-2", 251)):  # attempt, first, step
            (output / "read" / name).write_text(str(position))
        return output

    assert check(written(records, windows)) == len(numbers)
    wrong_count = (*records[50][:2], records[50][2] + 1)
    last_lost = [record for record in records if record[1] != 249]
    for seen in (
        records[1:],
        last_lost,
        [*records, records[7]],
        [*records[:50], wrong_count, *records[51:]],
    ):
        with pytest.raises(AssertionError):
            check(written(seen, windows))
    for seen_windows in (windows[1:], [*windows, windows[0]]):
        with pytest.raises(AssertionError):
            check(written(records, seen_windows))
