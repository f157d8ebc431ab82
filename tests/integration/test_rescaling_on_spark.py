"""Another parallelism while a job runs on Spark: asked for on the embedded one, and by a cluster whose executors come and go."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from recovery_job import OPTIONS, build, check, shown, tell_to_end
from support import PROGRAMS, Driver, marked, until

from firesteel.common.errors import RescaleError
from firesteel.datastream import StreamExecutionEnvironment

SparkEnvironment = Callable[..., StreamExecutionEnvironment]
Start = Callable[..., Driver]

PER_SECOND = 1000.0


@pytest.mark.spark
def test_every_record_counts_once_however_often_a_job_is_rescaled(
    environment: SparkEnvironment, tmp_path: Path
) -> None:
    options = {**OPTIONS, "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    env = environment(2, **options)
    build(env, tmp_path, PER_SECOND, database=True)
    client: Any = env.execute_async("rescaled")

    def await_more() -> int:
        seen = len(shown(tmp_path))
        return until(lambda: client.is_over() or len(shown(tmp_path)) > seen, "more output") and len(
            shown(tmp_path)
        )

    try:
        await_more()
        for parallelism in (3, 1):
            client.rescale(parallelism).result()
            assert {vertex.parallelism for vertex in client.plan.vertices} == {parallelism}
            await_more()
        with pytest.raises(RescaleError, match="max parallelism 16"):
            client.rescale(17).result()
        seen = await_more()
        assert client.get_failures() == []
        tell_to_end(tmp_path)
        client.wait()
    finally:
        if not client.is_over():
            client.cancel().result()
    assert check(tmp_path) >= seen


@pytest.mark.cluster
@pytest.mark.slow
def test_an_adaptive_job_follows_the_executors_of_a_cluster(
    cluster: Cluster, driver: Start, tmp_path: Path
) -> None:
    """A worker that is frozen cannot replace the executor that is killed below it; when it goes on, it does."""
    job = driver(str(PROGRAMS / "adaptive_on_cluster.py"), cluster.url, str(tmp_path), **cluster.environment)
    job.await_output("parallelism 3")  # of 4, because two stages have 6 slots
    victim = cluster.executors()[0]
    workers = [process for process in marked(cluster.mark) if "worker.Worker" in process.command]
    worker = next(each for each in workers if each.pid == _parent(victim.pid))
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        os.kill(victim.pid, signal.SIGKILL)
        job.await_output("parallelism 1")
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    until(lambda: job.stdout().count("parallelism 3") == 2, "the job uses the executor that has come back")
    seen = len(shown(tmp_path))
    until(lambda: len(shown(tmp_path)) > seen, "more output")
    tell_to_end(tmp_path)
    job.wait()
    assert "FINISHED" in job.stdout()
    assert check(tmp_path) > seen


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
