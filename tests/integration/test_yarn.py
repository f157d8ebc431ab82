"""A job on YARN, which loses an executor: on demand, because the cluster takes long to start.

FIRESTEEL_YARN=1 .venv/bin/python -m pytest tests/integration/test_yarn.py
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import SPARK_HOME
from recovery_job import OPTIONS, ShownCount, check, tell_to_end
from support import PROGRAMS, Driver, Process, processes, until

from firesteel._java import find_java, quiet_home
from firesteel_support.servers.yarn import yarn_cluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif("FIRESTEEL_YARN" not in os.environ, reason="takes long; set FIRESTEEL_YARN=1"),
]

SETTINGS = {
    "spark.executor.instances": "2",
    "spark.executor.cores": "4",
    "spark.executor.memory": "512m",
    "spark.yarn.am.memory": "512m",
    # All nodes are this machine, and have Spark where the driver has it.
    "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",
    "spark.yarn.submit.file.replication": "1",
}


def executors() -> list[Process]:
    return [each for each in processes().values() if "YarnCoarseGrainedExecutorBackend" in each.command]


def test_job_on_yarn_survives_the_loss_of_an_executor(driver: Callable[..., Driver], tmp_path: Path) -> None:
    with yarn_cluster(tmp_path / "yarn", quiet_home(find_java())) as hadoop:
        options = {**OPTIONS, **SETTINGS, "execution.checkpointing.dir": str(tmp_path / "checkpoints")}
        settings = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
        run = driver(
            *("-m", "firesteel.cli.main", "run", "-m", "yarn", "-p", "2", *settings),
            *(str(PROGRAMS / "recovering.py"), str(tmp_path / "output"), "1000"),
            HADOOP_CONF_DIR=str(hadoop),
        )
        shown = ShownCount(tmp_path / "output")

        def await_more() -> None:
            before = shown()

            def more() -> bool:
                assert run.popen.poll() is None, run.stderr()
                return shown() > before

            until(more, "new output")

        await_more()
        victims = [each for each in executors() if "bash" not in each.command.split()[0]]
        os.kill(victims[0].pid, signal.SIGKILL)
        until(lambda: "failed, the next one starts" in run.stderr(), "the loss is noticed")
        await_more()
        tell_to_end(tmp_path / "output")
        assert run.wait() == 0, run.stderr()
        assert check(tmp_path / "output") > 0
