"""The executor protocol on Spark: one Spark job per attempt, pipelined for streams, blocking for batch."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import cloudpickle
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from firesteel.common._redaction import public_options, secret_options
from firesteel.common.configuration import Configuration
from firesteel.common.options import METRICS_INTERVAL, SPARK_MASTER
from firesteel.logs.levels import levels
from firesteel.plan.executor import ControlEndpoint, Deployment, EngineExecutor, EngineStart, Master
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.state_handles import TaskRestore
from firesteel.spark import engine_process, executor_list
from firesteel.spark import session as sessions
from firesteel.spark.dependencies import bring, interpreter_of_tasks
from firesteel.spark.endpoint_secret import TaskEndpoint, endpoint_in_file, warn_if_open
from firesteel.spark.engine_errors import explain
from firesteel.spark.jvm import a_job_has_run
from firesteel.spark.pipelined import physical_plan, pipelined, set_active
from firesteel.spark.settings import SHUFFLE_WAIT, TASK, shuffle_wait
from firesteel.spark.task_files import TaskFiles
from firesteel.spark.task_secrets import TaskSecrets
from firesteel.spark.task_shell import TaskSetup, run_task

_LOG = logging.getLogger(__name__)

_SCHEMA = "target int, payload binary"
#: How long Spark may take to answer when somebody waits for the end of the only job, and when it has others.
_ANSWER_SECONDS = 1.0
_SHARED_ANSWER_SECONDS = 10.0

#: PySpark reads the interpreter of a function's tasks from an attribute of the context they share.
_interpreter = threading.Lock()


class SparkExecutor:
    """Starts attempts as Spark jobs."""

    def __init__(
        self, configuration: Configuration, on_start: Callable[[EngineStart], None] = lambda start: None
    ) -> None:
        self._configuration = configuration
        self._on_start = on_start

    def start(self, deployment: Deployment, master: Master) -> SparkAttempt:
        """Start all tasks of one attempt."""
        try:
            return self._start(deployment, master)
        except Exception as error:
            explained = explain(error, starting=True, master=self._configuration.get(SPARK_MASTER))
            if explained is error:
                raise
            raise explained from error

    def _start(self, deployment: Deployment, master: Master) -> SparkAttempt:
        def on_start(where: str, version: str | None) -> None:
            self._on_start(EngineStart(deployment.job_id, where, version))

        slots = deployment.plan.slots
        session = sessions.acquire(
            self._configuration, slots, master.is_wanted, on_start, master.awaits_slots
        )
        try:
            files = bring(session, self._configuration)
            listening = sessions.listening(session, self._configuration)
            attempt = SparkAttempt(
                session, deployment, master.endpoint(listening), files, self._configuration
            )
        except BaseException:
            sessions.release()
            raise
        attempt.start()
        return attempt

    def executors(self) -> tuple[EngineExecutor, ...]:
        """The processes of Spark in which tasks may run."""
        return executor_list.executors(sessions.current)

    def executor_threads(self, executor_id: str) -> list[tuple[str, str]]:
        """What the threads of a JVM do."""
        return executor_list.threads(sessions.current, executor_id)

    def count_slots(self, job_id: str, wanted: int) -> int:
        """How many of the slots Spark has, or would have; the session of a cluster is started for it."""

        def on_start(where: str, version: str | None) -> None:
            self._on_start(EngineStart(job_id, where, version))

        try:
            return sessions.count_slots(self._configuration, wanted, on_start)
        except Exception as error:
            explained = explain(error, starting=True, master=self._configuration.get(SPARK_MASTER))
            if explained is error:
                raise
            raise explained from error

    def kill_by_force(self) -> None:
        """End Spark's driver process if it does not answer."""
        if sessions.owns_jvm():
            _end_silent_jvm(lambda: SparkContext._gateway.jvm.System.nanoTime())


def _end_silent_jvm(ask: Callable[[], object]) -> None:
    # Other jobs in the same Spark would go with it, so they have a say: a long pause is not the end.
    alone = sessions.running_jobs() <= 1
    if not engine_process.answers(ask, _ANSWER_SECONDS if alone else _SHARED_ANSWER_SECONDS):
        _LOG.warning("Spark's driver process does not answer; it is ended by force")
        engine_process.kill_jvm()


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
        self._python = interpreter_of_tasks(session, configuration)
        self._may_choose_wait = (
            sessions.is_local(session) and sessions.owns_jvm() and SHUFFLE_WAIT not in configuration.to_dict()
        )
        self._report_seconds = configuration.get(METRICS_INTERVAL).to_millis() / 1000
        self._secrets = TaskSecrets(secret_options(configuration.to_dict()))
        self._group = f"firesteel-{deployment.job_id}-{deployment.attempt}"
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._submitting = threading.Lock()
        self._is_submitted = False
        self._is_killed = False
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)

    def start(self) -> None:
        """Submit the Spark job, in a thread of its own, and return at once."""
        self._thread.start()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the Spark job is over."""
        return self._over.wait(timeout)

    def error(self) -> BaseException | None:
        """What Spark says went wrong."""
        return self._error

    def kill(self) -> None:
        """Cancel the Spark job; its Python workers go with it. One that has not been submitted yet never will be."""
        with self._submitting:
            self._is_killed = True
            if not self._is_submitted:
                self._over.set()  # the thread finds out when Spark has answered; nobody needs to wait for that
                return
        with contextlib.suppress(Exception):  # the JVM may be gone already, and the job with it
            # Also one that Spark is about to hear of: the group has no other jobs.
            self._session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

    def ping(self) -> None:
        """Ask Spark something simple: returns when its driver process answers."""
        self._session.sparkContext._jsc.sc().isStopped()

    def kill_by_force(self, processes: Sequence[int]) -> None:
        """End these worker processes, and Spark's driver process if it is ours and does not answer."""
        engine_process.end_workers(processes)
        if sessions.owns_jvm():
            _end_silent_jvm(self.ping)
        elif not engine_process.answers(self.ping, _SHARED_ANSWER_SECONDS):
            _LOG.warning(
                "Spark's driver process does not answer, and belongs to a session that this program has started: it and "
                "its workers may remain until somebody ends them (process %s)",
                engine_process.jvm_process() or "unknown",
            )

    def _run(self) -> None:
        try:
            if sessions.is_local(self._session):
                with endpoint_in_file(self._endpoint) as endpoint, self._secrets.in_file() as self._secrets:
                    self._execute(endpoint)
            else:
                warn_if_open(self._session.sparkContext)
                self._execute(self._endpoint)
        except BaseException as error:  # noqa: BLE001 - handed to the job master by error()
            self._error = explain(error)
        finally:
            sessions.release()
            self._over.set()

    def _execute(self, endpoint: TaskEndpoint) -> None:
        context = self._session.sparkContext
        plan = self._deployment.plan
        set_active(self._session)
        context.setJobGroup(self._group, plan.name, interruptOnCancel=True)
        for key, value in TASK.items():
            context.setLocalProperty(key, value)
        self._choose_shuffle_wait(plan)
        with _interpreter, self._interpreter_of_tasks():
            frame = self._frame(plan, endpoint)
        physical = physical_plan(frame)
        if plan.mode is RuntimeMode.STREAMING:
            physical = pipelined(self._session, physical)
        with self._submitting:
            if self._is_killed:
                return
            self._is_submitted = True
        try:
            physical.executeCollect()
        finally:
            a_job_has_run()

    def _choose_shuffle_wait(self, plan: JobPlan) -> None:
        """Tasks that send read it when they start. Those of a job that starts beside this one may get the other's, which is no harm."""
        if self._may_choose_wait:
            writers = sum(stage.tasks for stage in plan.stages[:-1])
            milliseconds = shuffle_wait(writers, os.cpu_count() or 1)
            self._session.sparkContext._jsc.sc().conf().set(SHUFFLE_WAIT, str(milliseconds))

    @contextlib.contextmanager
    def _interpreter_of_tasks(self) -> Iterator[None]:
        context = self._session.sparkContext
        usual = context.pythonExec
        context.pythonExec = self._python or usual
        try:
            yield
        finally:
            context.pythonExec = usual

    def _frame(self, plan: JobPlan, endpoint: TaskEndpoint) -> DataFrame:
        first = plan.stages[0].tasks
        frame = self._session.range(0, first, 1, first).mapInArrow(self._stage_function(0, endpoint), _SCHEMA)
        for stage in plan.stages[1:]:
            frame = frame.repartitionById(stage.tasks, "target").mapInArrow(
                self._stage_function(stage.index, endpoint), _SCHEMA
            )
        return frame

    def _stage_function(self, stage: int, endpoint: TaskEndpoint) -> Callable[[Iterator[Any]], Iterator[Any]]:
        setup = TaskSetup(
            self._deployment.job_id,
            self._deployment.attempt,
            stage,
            _without_secrets(self._deployment.plan.for_stage(stage)),
            endpoint,
            levels(),
            self._report_seconds,
            self._files,
            self._deployment.checkpointing,
            _restore_for_stage(self._deployment, stage),
            self._deployment.heartbeat,
            self._secrets,
        )
        blob = cloudpickle.dumps(setup)

        def stage_function(batches: Iterator[Any]) -> Iterator[Any]:
            return run_task(blob, batches)

        return stage_function


def _without_secrets(plan: JobPlan) -> JobPlan:
    return replace(plan, options=public_options(plan.options))


def _restore_for_stage(deployment: Deployment, stage: int) -> TaskRestore | None:
    """The state of the stage's own operators."""
    restore = deployment.restore
    if restore is None:
        return None
    ids = {operator.id for v in deployment.plan.vertices if v.stage == stage for operator in v.operators}
    return replace(restore, operators={i: state for i, state in restore.operators.items() if i in ids})
