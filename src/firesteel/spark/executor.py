"""The executor protocol on Spark: one Spark job per attempt, pipelined for streams, blocking for batch."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from firesteel.common.configuration import Configuration
from firesteel.common.options import METRICS_INTERVAL, PYTHON_EXECUTABLE
from firesteel.plan.control_protocol import outward_address
from firesteel.plan.executor import ControlEndpoint, Deployment, Master
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import Restore
from firesteel.spark import session as sessions
from firesteel.spark.dependencies import bring
from firesteel.spark.engine_errors import explain
from firesteel.spark.pipelined import physical_plan, pipelined, set_active
from firesteel.spark.settings import TASK
from firesteel.spark.task_files import TaskFiles
from firesteel.spark.task_shell import TaskSetup, run_task

_SCHEMA = "target int, payload binary"

#: PySpark takes the interpreter of a function's tasks from an attribute of the context they share.
_interpreter = threading.Lock()


class SparkExecutor:
    """Starts attempts as Spark jobs."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def start(self, deployment: Deployment, master: Master) -> SparkAttempt:
        """Start all tasks of one attempt."""
        try:
            return self._start(deployment, master)
        except Exception as error:
            explained = explain(error, starting=True)
            if explained is error:
                raise
            raise explained from error

    def _start(self, deployment: Deployment, master: Master) -> SparkAttempt:
        session = sessions.acquire(self._configuration, deployment.plan.slots)
        try:
            files = bring(session, self._configuration)
            host = "127.0.0.1" if sessions.is_local(session) else outward_address()
            attempt = SparkAttempt(session, deployment, master.endpoint(host), files, self._configuration)
        except BaseException:
            sessions.release()
            raise
        attempt.start()
        return attempt


class SparkAttempt:
    """One Spark job, driven from a thread of its own."""

    def __init__(
        self,
        session: SparkSession,
        deployment: Deployment,
        endpoint: ControlEndpoint,
        files: TaskFiles,
        configuration: Configuration,
    ) -> None:
        self._session = session
        self._deployment = deployment
        self._endpoint = endpoint
        self._files = files
        self._python = configuration.get(PYTHON_EXECUTABLE)
        self._report_seconds = configuration.get(METRICS_INTERVAL).to_millis() / 1000
        self._group = f"firesteel-{deployment.job_id}-{deployment.attempt}"
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)

    def start(self) -> None:
        """Submit the Spark job."""
        self._thread.start()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the Spark job is over."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def error(self) -> BaseException | None:
        """What Spark says went wrong."""
        return self._error

    def kill(self) -> None:
        """Cancel the Spark job; its Python workers go with it."""
        with contextlib.suppress(Exception):  # the JVM may be gone already, and the job with it
            self._session.sparkContext.cancelJobGroup(self._group)

    def _run(self) -> None:
        try:
            self._execute()
        except BaseException as error:  # noqa: BLE001 - handed to the job master by error()
            self._error = explain(error)
        finally:
            sessions.release()

    def _execute(self) -> None:
        context = self._session.sparkContext
        plan = self._deployment.plan
        set_active(self._session)
        context.setJobGroup(self._group, plan.name, interruptOnCancel=True)
        for key, value in TASK.items():
            context.setLocalProperty(key, value)
        with _interpreter, self._interpreter_of_tasks():
            frame = self._frame(plan)
        physical = physical_plan(frame)
        if plan.mode is RuntimeMode.STREAMING:
            physical = pipelined(self._session, physical)
        physical.executeCollect()

    @contextlib.contextmanager
    def _interpreter_of_tasks(self) -> Iterator[None]:
        context = self._session.sparkContext
        usual = context.pythonExec
        context.pythonExec = self._python or usual
        try:
            yield
        finally:
            context.pythonExec = usual

    def _frame(self, plan: JobPlan) -> DataFrame:
        first = plan.stages[0].tasks
        frame = self._session.range(0, first, 1, first).mapInArrow(self._stage_function(0), _SCHEMA)
        for stage in plan.stages[1:]:
            frame = frame.repartitionById(stage.tasks, "target").mapInArrow(
                self._stage_function(stage.index), _SCHEMA
            )
        return frame

    def _stage_function(self, stage: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
        setup = TaskSetup(
            self._deployment.job_id,
            self._deployment.attempt,
            stage,
            _for_stage(self._deployment.plan, stage),
            self._endpoint,
            logging.getLogger().getEffectiveLevel(),
            self._report_seconds,
            self._files,
            self._deployment.checkpointing,
            _restore_for_stage(self._deployment, stage),
        )
        blob = cloudpickle.dumps(setup)

        def stage_function(batches: Iterator[Any]) -> Iterator[Any]:
            return run_task(blob, batches)

        return stage_function


def _for_stage(plan: JobPlan, stage: int) -> JobPlan:
    """The plan without the user code of other stages: a big collection travels to its source only."""
    vertices = tuple(v if v.stage == stage else replace(v, operators=()) for v in plan.vertices)
    return replace(plan, vertices=vertices)


def _restore_for_stage(deployment: Deployment, stage: int) -> Restore | None:
    """The state of the stage's own operators."""
    restore = deployment.restore
    if restore is None:
        return None
    ids = {operator.id for v in deployment.plan.vertices if v.stage == stage for operator in v.operators}
    return replace(restore, operators={i: found for i, found in restore.operators.items() if i in ids})
