"""The composition root: compiles a graph, chooses the executor, starts the job master.

The API calls `submit`. Commands and tests change what that does for a while: another executor
(`use_executor`), somebody who watches the jobs (`observe_jobs`), or something else being run, or nothing at
all (`intercept`).
"""

from __future__ import annotations

import atexit
import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from firesteel.checkpoint.matching import ProgramOperator
from firesteel.checkpoint.state_pickle import collect_program_classes
from firesteel.common import _store_settings
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, SetupError
from firesteel.common.job_id import JobID
from firesteel.common.options import ARCHIVE_DIR, EXECUTOR, HIGH_AVAILABILITY, MAX_PARALLELISM
from firesteel.compiler.compile import compile_job
from firesteel.compiler.program_plans import ProgramPlans
from firesteel.contracts.sink import DriverJob, DriverPart
from firesteel.graph.operator_ids import operator_ids
from firesteel.graph.stream_graph import StreamGraph
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.job_master import JobMaster
from firesteel.jobmaster.leaders.leadership import Leadership, await_leadership
from firesteel.jobmaster.metric_reporting import start_reporting
from firesteel.jobmaster.preparation import prepare, standby_settings
from firesteel.jobmaster.remote.registered_jobs import RegisteredJobs
from firesteel.jobmaster.terminal.console import CONSOLE
from firesteel.jobmaster.terminal.engine_lines import EngineLines
from firesteel.jobmaster.terminal.progress import JobListener, ProgressDisplay
from firesteel.logs.log_book import LOGS
from firesteel.logs.settings import read_log_settings
from firesteel.metrics._reporter_settings import read_reporters
from firesteel.plan.executor import EngineStart, Executor, SimulatedTime, SlotAllowance, TrialExecutor
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.shipped import Shipped
from firesteel.rest.flame_graphs import read_flame_settings
from firesteel.rest.settings import RestSettings, read_rest_settings
from firesteel.state.backends import check_backend

if TYPE_CHECKING:
    from firesteel.rest.archive import JobArchive
    from firesteel.rest.service import RestService

_LOG = logging.getLogger(__name__)

ExecutorFactory = Callable[[Configuration], Executor]

#: Set to 1: jobs show their progress on standard error; "lines": without the part that is drawn again and again.
PROGRESS_VARIABLE = "FIRESTEEL_PROGRESS"

#: Set to 1: jobs are registered whatever runs them, as those of ``firesteel run`` always are; 0: those of a plain ``python
#: job.py`` are not. Otherwise they are, unless they are simulated or belong to a test.
REGISTER_VARIABLE = "FIRESTEEL_REGISTER"


@dataclass(frozen=True, slots=True)
class Submission:
    """A program that is about to run; ``executor`` and ``state_backend`` win over what the configuration says.

    ``allowance``: who has a say in how many slots its job gets.
    """

    graph: StreamGraph
    configuration: Configuration
    job_name: str
    executor: ExecutorFactory | None = None
    state_backend: Shipped | None = None
    driver_parts: tuple[DriverPart, ...] = ()
    allowance: SlotAllowance | None = None


class JobObserver(JobListener, Protocol):
    """Somebody who wants to know of every job that this process submits."""

    def job_submitted(self, client: MasterJobClient) -> None:
        """A job is about to start."""

    def standing_by(self, job_id: JobID) -> None:
        """Another driver runs the job; this one waits."""

    def engine_starting(self, job_id: JobID) -> None:
        """The job waits for its engine, which takes seconds to start; nothing was wrong with it so far."""


_chosen_executor: ContextVar[ExecutorFactory | None] = ContextVar("firesteel_executor", default=None)

# These are of the process, not of a context: a program may well submit from its own threads.
_observers: list[JobObserver] = []
_interceptors: list[Callable[[Submission], Submission | None]] = []
_ENGINE_LINES = EngineLines(lambda: os.environ.get(PROGRESS_VARIABLE))
_leaderships: dict[str, Leadership] = {}  # by the directory of the lease
_archives: list[JobArchive] = []


def submit(
    graph: StreamGraph,
    configuration: Configuration,
    job_name: str,
    state_backend: Shipped | None = None,
    driver_parts: tuple[DriverPart, ...] = (),
) -> MasterJobClient:
    """Compile and start a job; returns when the engine has accepted it, raises what keeps it from starting."""
    submission = Submission(
        graph, configuration, job_name, state_backend=state_backend, driver_parts=driver_parts
    )
    for intercept_submission in _interceptors:
        submission = intercept_submission(submission) or submission
    try:
        return _start(submission)
    except BaseException:
        _ENGINE_LINES.failed()
        raise


def _start(submission: Submission) -> MasterJobClient:
    configuration = submission.configuration
    _store_settings.use(configuration)
    LOGS.use(read_log_settings(configuration))
    read_flame_settings(configuration)  # refuses what makes no sense before the job runs
    if submission.state_backend is None:
        check_backend(configuration)
    plan = compile_job(submission.graph, configuration, submission.job_name)
    plan = replace(plan, program_classes=collect_program_classes(), state_backend=submission.state_backend)
    executor = (submission.executor or _executor_factory(configuration, plan))(configuration)
    program = program_operators(submission.graph, plan, configuration)
    leadership = _leadership(plan, configuration)
    try:
        return _deploy(_Compiled(submission, plan, program), executor, leadership)
    except BaseException:
        if leadership is not None:
            leadership.release()  # changes nothing when the job has ended, or is about to
        raise


def _leadership(plan: JobPlan, configuration: Configuration) -> Leadership | None:
    """Wait until this driver leads the job, if it has several."""
    settings = standby_settings(plan, configuration)
    if settings is None:
        return None
    earlier = _leaderships.get(settings.directory)
    if earlier is not None and not earlier.is_over:
        # It would stand by for itself, and end the program when the other job ends.
        raise InvalidOptionError(
            f"option '{HIGH_AVAILABILITY.key}': this program runs a job '{plan.name}' with the id {settings.job_id} "
            "already, and standby drivers tell jobs by their ids; give each job of a program a name of its own: "
            "execute(name)"
        )

    def on_standby() -> None:
        for observer in _observers:
            observer.standing_by(settings.job_id)

    leadership = await_leadership(
        settings, plan.name, lambda text: CONSOLE.write(f"{text}\n", "stderr"), on_standby
    )
    _leaderships[settings.directory] = leadership
    return leadership


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A program on its way to running, with its plan and what has to be known of its operators."""

    submission: Submission
    plan: JobPlan
    program: list[ProgramOperator]


def _deploy(compiled: _Compiled, executor: Executor, leadership: Leadership | None) -> MasterJobClient:
    submission = compiled.submission
    job = DriverJob(submission.configuration, compiled.plan.slots, isinstance(executor, SimulatedTime))
    started = ExitStack()
    try:
        for part in submission.driver_parts:
            started.callback(part.stop)
            part.start(job)
        return _deploy_master(compiled, executor, leadership, at_end=started.close)
    except BaseException:
        started.close()  # stops those that the end of the job has not stopped
        raise


def _deploy_master(
    compiled: _Compiled, executor: Executor, leadership: Leadership | None, at_end: Callable[[], None]
) -> MasterJobClient:
    configuration = compiled.submission.configuration
    reporters = read_reporters(configuration)
    # The last thing that may refuse the job: it claims the job's directory.
    before = (0, False) if leadership is None else (leadership.epoch_before, leadership.finished_before)
    simulated = isinstance(executor, SimulatedTime)
    prepared = prepare(compiled.plan, compiled.program, configuration, *before, simulated=simulated)
    # The REST interface comes first: the registry notes where it is.
    observers = [
        *_rest(configuration, executor),
        *_archive(configuration),
        *_observers,
        *_registration(executor),
    ]
    master = JobMaster(
        prepared.plan,
        executor,
        prepared.settings,
        start=prepared.start,
        store=prepared.store,
        listeners=[*([] if leadership is None else [leadership]), *_progress(), *observers],
        plans=ProgramPlans(compiled.submission.graph, configuration, prepared.plan),
        allowance=compiled.submission.allowance,
    )
    client = MasterJobClient(master, None if leadership is None else leadership.hand_over)
    try:  # from now on others know the job: whatever keeps it from starting, Ctrl-C above all, ends it for them, too
        client.when_over(at_end)
        if leadership is not None:
            leadership.bind(master, prepared.epoch)
        for observer in observers:
            observer.job_submitted(client)
        if reporters:
            client.when_over(start_reporting(reporters, master.metrics).end)
        master.start()
        client.wait_until_deployed()
        return client
    except BaseException as reason:
        client.abort_submission(reason)
        raise


def spark_session(configuration: Configuration) -> Any:
    """The session that jobs run in; one is started if there is none, except where jobs do not run on Spark."""
    from firesteel.spark import session

    is_spark = not configuration.get(EXECUTOR) and _chosen_executor.get() is None
    return session.for_program(configuration, is_simulated=not is_spark)


@contextmanager
def use_executor(factory: ExecutorFactory) -> Iterator[None]:
    """Run the jobs that are submitted inside the block on this executor."""
    token = _chosen_executor.set(factory)
    try:
        yield
    finally:
        _chosen_executor.reset(token)


@contextmanager
def observe_jobs(observer: JobObserver) -> Iterator[None]:
    """Tell ``observer`` of the jobs that are submitted inside the block."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextmanager
def register_jobs() -> Iterator[None]:
    """Let commands of other processes find the jobs that are submitted inside the block, and talk to them."""
    registered = RegisteredJobs()
    with observe_jobs(registered):
        try:
            yield
        finally:
            registered.close()


@contextmanager
def intercept(receiver: Callable[[Submission], Submission | None]) -> Iterator[None]:
    """Hand submissions to ``receiver`` first; it may give another one to run, and raises if none is to run."""
    _interceptors.append(receiver)
    try:
        yield
    finally:
        _interceptors.remove(receiver)


def program_operators(
    graph: StreamGraph, plan: JobPlan, configuration: Configuration
) -> list[ProgramOperator]:
    """What has to be known of the operators to find their state again."""
    ids = operator_ids(graph)
    nodes = {ids[node.id]: node for node in graph}
    for_all = configuration.get(MAX_PARALLELISM) != MAX_PARALLELISM.default
    return [
        ProgramOperator(
            operator.id,
            operator.name,
            vertex.parallelism,
            vertex.max_parallelism,
            uid=nodes[operator.id].uid,
            max_parallelism_is_given=for_all or nodes[operator.id].max_parallelism is not None,
            state_types=operator.state_types,
        )
        for vertex in plan.vertices
        for operator in vertex.operators
    ]


def _progress() -> list[JobListener]:
    match os.environ.get(PROGRESS_VARIABLE):
        case "1":
            return [ProgressDisplay()]
        case "lines":
            return [ProgressDisplay(live=False)]
        case _:
            return []


def _registration(executor: Executor) -> list[JobObserver]:
    if _is_registering():
        return []
    if os.environ.get(REGISTER_VARIABLE) == "1":
        return [_registered_jobs(asked_for=True)]
    return [_registered_jobs(asked_for=False)] if _is_looked_for(executor) else []


def _is_looked_for(executor: Executor) -> bool:
    """Whether other processes may look for jobs of this executor without being asked to."""
    is_trial = isinstance(executor, TrialExecutor) and executor.is_trial
    # Jobs of unit tests come and go; they would push those that somebody looks for out of the history.
    is_test = "pytest" in sys.modules
    return not (os.environ.get(REGISTER_VARIABLE) == "0" or is_trial or is_test)


def _is_registered(executor: Executor) -> bool:
    """Whether commands find jobs of this executor; they speak to them over REST."""
    return _is_registering() or os.environ.get(REGISTER_VARIABLE) == "1" or _is_looked_for(executor)


def _rest(configuration: Configuration, executor: Executor) -> list[JobObserver]:
    settings = read_rest_settings(configuration)
    if settings is None or not (settings.is_asked_for or _is_registered(executor)):
        return []
    try:
        return [_rest_service(settings)]
    except (OSError, SetupError) as error:  # a job does not depend on who can watch it
        _LOG.warning("there is no REST interface: %s", error)
        return []


def _archive(configuration: Configuration) -> list[JobObserver]:
    directory = configuration.get(ARCHIVE_DIR)
    return [] if directory is None else [_job_archive(directory)]


@functools.cache
def _job_archive(directory: str) -> JobArchive:
    from firesteel.rest.archive import JobArchive  # late: most jobs do without

    archive = JobArchive(directory)
    _archives.append(archive)
    atexit.register(_close_in, os.getpid(), archive)
    return archive


def await_archives() -> None:
    """Wait until the jobs of this process that have ended are in their archives."""
    for archive in _archives:
        archive.close()


@functools.cache
def _rest_service(settings: RestSettings) -> RestService:
    from firesteel.rest.service import RestService  # late: simulated jobs and tests do without

    service = RestService(settings)
    atexit.register(_close_in, os.getpid(), service)
    return service


def _is_registering() -> bool:
    return any(isinstance(observer, RegisteredJobs) for observer in _observers)


@functools.cache
def _registered_jobs(asked_for: bool) -> RegisteredJobs:
    registered = RegisteredJobs(asked_for)
    atexit.register(_close_in, os.getpid(), registered)
    return registered


def _close_in(process: int, registered: RegisteredJobs | RestService | JobArchive) -> None:
    if os.getpid() == process:  # a child that the program has forked has no jobs, though it looks as if
        registered.close()


def _executor_factory(configuration: Configuration, plan: JobPlan) -> ExecutorFactory:
    name = configuration.get(EXECUTOR)
    if name:
        return _load(name)
    factory = _chosen_executor.get()
    if factory is not None:
        return factory
    return _spark(configuration, plan)


def _spark(configuration: Configuration, plan: JobPlan) -> ExecutorFactory:
    from firesteel.spark import startup

    # A driver that stands by may never need one.
    if startup.begin(configuration, plan.slots, early=configuration.get(HIGH_AVAILABILITY) == "NONE"):
        _ENGINE_LINES.starting()
    # Late, because only jobs that run on Spark should need it. It takes a second, in which the JVM starts.
    from firesteel.spark.executor import SparkExecutor

    return functools.partial(SparkExecutor, on_start=_on_engine_start)


def _on_engine_start(start: EngineStart) -> None:
    if start.version is not None:
        _ENGINE_LINES.ready(start.version)
        return
    _ENGINE_LINES.starting(start.where)
    for observer in _observers:
        observer.engine_starting(JobID(start.job_id))


def _load(name: str) -> ExecutorFactory:
    module_name, _, attribute = name.partition(":")
    try:
        named: Any = importlib.import_module(module_name)
        for name_within in attribute.split("."):
            named = getattr(named, name_within)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidOptionError(
            f"option '{EXECUTOR.key}': expected 'module:attribute' naming a class or function that "
            f"makes an executor, got {name!r}: {error}"
        ) from error
    factory: ExecutorFactory = named
    return factory
