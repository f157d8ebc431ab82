"""Submitting a job: which executor runs it, who is told, what is raised where."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from firesteel import launch
from firesteel.checkpoint.storage import open_storage
from firesteel.common.configuration import Configuration
from firesteel.common.errors import (
    InvalidOptionError,
    JobCancelledError,
    JobTakenOverError,
    NoSuchSnapshotError,
    NotEnoughSlotsError,
)
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.options import EXECUTOR
from firesteel.graph.stream_graph import Edge, GraphBuilder, StreamGraph
from firesteel.jobmaster.checkpoints.settings import read_checkpoint_settings
from firesteel.jobmaster.job_client import ProcessTerminated
from firesteel.jobmaster.leaders.election import LeaseEnd, LeaseView, Outcome
from firesteel.jobmaster.leaders.leadership import await_leadership
from firesteel.jobmaster.leaders.lease import Holder, Lease
from firesteel.jobmaster.leaders.settings import HighAvailability, read_high_availability
from firesteel.plan.exchange import Auto
from firesteel.plan.executor import Deployment, Master
from firesteel.plan.messages import TaskFinished, TaskId, TaskStarted
from firesteel.plan.operator_specs import PrintSpec, RuntimeMode, SourceSpec
from firesteel.plan.shipped import Shipped
from firesteel_support import threads


class AtOnce:
    """An executor whose tasks have finished before it returns; also its own attempt."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def start(self, deployment: Deployment, master: Master) -> AtOnce:
        for stage in deployment.plan.stages:
            for index in range(stage.tasks):
                master.deliver(TaskId(stage.index, index), TaskStarted("here", 1))
                master.deliver(TaskId(stage.index, index), TaskFinished())
        return self

    def join(self, timeout: float | None = None) -> bool:
        return True

    def error(self) -> BaseException | None:
        return None

    def kill(self) -> None:
        pass


class Full(AtOnce):
    def start(self, deployment: Deployment, master: Master) -> AtOnce:
        raise NotEnoughSlotsError(needed=2, available=1)


def graph() -> StreamGraph:
    builder = GraphBuilder()
    source = builder.add("Source", SourceSpec(Shipped.of(None, "source"), True))
    builder.add("Print", PrintSpec(), (Edge(source, Auto()),))
    return builder.build()


def test_executor_of_the_context_runs_the_job() -> None:
    seen: list[Configuration] = []

    def factory(configuration: Configuration) -> AtOnce:
        seen.append(configuration)
        return AtOnce(configuration)

    configuration = Configuration()
    with launch.use_executor(factory):
        client = launch.submit(graph(), configuration, "job")
    client.wait()
    assert seen == [configuration]
    assert client.get_job_name() == "job"


def test_executor_of_the_configuration_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("engines_of_this_test")
    module.AtOnce = AtOnce
    monkeypatch.setitem(sys.modules, module.__name__, module)
    configuration = Configuration().set_string(EXECUTOR.key, "engines_of_this_test:AtOnce")
    with launch.use_executor(Full):
        launch.submit(graph(), configuration, "job").wait()


@pytest.mark.parametrize("name", ["no_such_module:x", "json:nothing", "json"])
def test_executor_that_does_not_exist_is_refused(name: str) -> None:
    configuration = Configuration().set_string(EXECUTOR.key, name)
    with pytest.raises(
        InvalidOptionError, match=r"option 'firesteel\.executor': expected 'module:attribute'"
    ):
        launch.submit(graph(), configuration, "job")


def test_job_that_cannot_start_raises_from_submit() -> None:
    with launch.use_executor(Full), pytest.raises(NotEnoughSlotsError):
        launch.submit(graph(), Configuration(), "job")


def test_observers_are_told_of_jobs_and_their_states() -> None:
    class Observer(launch.JobObserver):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def job_submitted(self, client: Any) -> None:
            self.seen.append(client)

        def status_changed(self, job: Any, status: JobStatus) -> None:
            self.seen.append(status)

    observer = Observer()
    with launch.use_executor(AtOnce), launch.observe_jobs(observer):
        client = launch.submit(graph(), Configuration(), "job")
        client.wait()
    assert observer.seen == [client, JobStatus.RUNNING, JobStatus.FINISHED]


def test_interceptor_sees_the_program_before_anything_runs() -> None:
    class Stop(Exception):
        pass

    taken: list[launch.Submission] = []

    def take(submission: launch.Submission) -> None:
        taken.append(submission)
        raise Stop

    program = graph()
    with launch.intercept(take), pytest.raises(Stop):
        launch.submit(program, Configuration(), "job")
    assert [(one.graph, one.job_name) for one in taken] == [(program, "job")]


def test_progress_is_shown_when_the_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(launch.PROGRESS_VARIABLE, "1")
    with launch.use_executor(AtOnce):
        client = launch.submit(graph(), Configuration(), "job")
    client.wait()
    *states, summary = capsys.readouterr().err.splitlines()
    assert states == [
        f"job job ({client.get_job_id()}) switched to RUNNING",
        f"job job ({client.get_job_id()}) switched to FINISHED",
    ]
    assert summary.startswith("  after ")


# Several drivers.


def several_drivers(directory: Path) -> Configuration:
    return Configuration.from_dict(
        {
            "high-availability.type": "filesystem",
            "high-availability.filesystem.lease-timeout": "200 ms",
            "execution.checkpointing.interval": "1 h",
            "firesteel.cancel.grace": "10 ms",
            "execution.checkpointing.dir": str(directory),
        }
    )


def settings_of(configuration: Configuration) -> HighAvailability:
    settings = read_high_availability(
        configuration, "job", read_checkpoint_settings(configuration, RuntimeMode.STREAMING)
    )
    assert settings is not None
    return settings


def leader_of(configuration: Configuration) -> Lease:
    return Lease(open_storage(settings_of(configuration).directory))


class Waiting(AtOnce):
    """Its tasks run until they are told to end."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.over = threading.Event()

    def start(self, deployment: Deployment, master: Master) -> AtOnce:
        for stage in deployment.plan.stages:
            for index in range(stage.tasks):
                master.deliver(TaskId(stage.index, index), TaskStarted("here", 1))
        return self

    def join(self, timeout: float | None = None) -> bool:
        return self.over.wait(timeout)

    def kill(self) -> None:
        self.over.set()


def test_driver_that_leads_runs_the_job_and_says_that_it_has_finished(tmp_path: Path) -> None:
    configuration = several_drivers(tmp_path)
    for number in (1, 2):
        with launch.use_executor(AtOnce):
            launch.submit(graph(), configuration, "job").wait()
        view = leader_of(configuration).look()
        assert (view.number, view.end) == (number, LeaseEnd(Outcome.FINISHED))


def test_driver_that_is_replaced_fails_its_job(tmp_path: Path) -> None:
    configuration = several_drivers(tmp_path)
    with launch.use_executor(Waiting):
        client = launch.submit(graph(), configuration, "job")
    assert leader_of(configuration).acquire(2, Holder("another", "somewhere"))
    with pytest.raises(JobTakenOverError, match="another driver leads it now"):
        client.wait()
    assert client.get_job_status().result() is JobStatus.FAILED
    assert leader_of(configuration).look() == LeaseView(2, 0), "the job itself has not ended"


@pytest.mark.parametrize("reason", [ProcessTerminated(), KeyboardInterrupt()], ids=["kill", "Ctrl-C"])
def test_process_that_is_told_to_end_leaves_its_job_to_another_driver(
    tmp_path: Path, reason: KeyboardInterrupt
) -> None:
    configuration = several_drivers(tmp_path)
    with launch.use_executor(Waiting):
        client = launch.submit(graph(), configuration, "job")
    client.interrupt(reason).result()
    is_kill = isinstance(reason, ProcessTerminated)
    end = leader_of(configuration).look().end
    assert end == LeaseEnd(Outcome.RELEASED if is_kill else Outcome.CANCELED)
    assert client.is_handed_over == is_kill
    with pytest.raises(JobTakenOverError if is_kill else JobCancelledError):
        client.wait()
    with launch.use_executor(AtOnce):
        launch.submit(graph(), configuration, "job").wait()  # at once, whether there is a checkpoint or not


def test_driver_that_is_alone_cancels_its_job_when_it_is_told_to_end() -> None:
    with launch.use_executor(Waiting):
        client = launch.submit(graph(), Configuration.from_dict({"firesteel.cancel.grace": "10 ms"}), "job")
    client.interrupt(ProcessTerminated()).result()
    with pytest.raises(JobCancelledError):
        client.wait()


def test_driver_that_cannot_start_the_job_lets_others_try(tmp_path: Path) -> None:
    configuration = several_drivers(tmp_path)
    configuration.set_string("execution.state-recovery.path", str(tmp_path / "nothing"))
    with launch.use_executor(AtOnce), pytest.raises(NoSuchSnapshotError):
        launch.submit(graph(), configuration, "job")
    assert leader_of(configuration).look().end == LeaseEnd(Outcome.RELEASED)


def test_driver_whose_job_fails_for_good_says_why(tmp_path: Path) -> None:
    configuration = several_drivers(tmp_path)
    with launch.use_executor(Full), pytest.raises(NotEnoughSlotsError):
        launch.submit(graph(), configuration, "job")
    end = leader_of(configuration).look().end
    assert end is not None
    assert end.outcome is Outcome.FAILED
    assert "slots" in end.sentence


def test_driver_that_stands_by_starts_nothing_and_ends_with_the_job(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    configuration = several_drivers(tmp_path)
    settings = settings_of(configuration)
    leading = await_leadership(settings, "job", lambda text: None)  # as if in another process

    class Observer(launch.JobObserver):
        def standing_by(self, job_id: JobID) -> None:
            assert job_id == settings.job_id
            leading.status_changed(cast(Any, None), JobStatus.CANCELED)

        def job_submitted(self, client: Any) -> None:
            raise AssertionError("it must not start")

    with launch.observe_jobs(Observer()), pytest.raises(SystemExit) as end:
        launch.submit(graph(), configuration, "job")
    assert end.value.code == 0
    assert "standing by for job 'job'" in capfd.readouterr().err


def test_program_does_not_stand_by_for_itself(tmp_path: Path) -> None:
    configuration = several_drivers(tmp_path)
    with launch.use_executor(Waiting):
        first = launch.submit(graph(), configuration, "job")
        with pytest.raises(InvalidOptionError, match=r"runs a job 'job' .* already.*a name of its own"):
            launch.submit(graph(), configuration, "job")
        second = launch.submit(graph(), configuration, "another")
    for client in (first, second):
        client.cancel().result()
    with launch.use_executor(AtOnce):
        launch.submit(graph(), configuration, "job").wait()  # one after the other is fine


def test_job_that_was_cancelled_before_it_could_be_left_to_another_driver_was_not_left(
    tmp_path: Path,
) -> None:
    configuration = several_drivers(tmp_path)
    with launch.use_executor(Waiting):
        client = launch.submit(graph(), configuration, "job")
    client.cancel()
    client.interrupt(ProcessTerminated()).result()
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert not client.is_handed_over
    assert leader_of(configuration).look().end == LeaseEnd(Outcome.CANCELED)


# Ctrl-C while a job is submitted.


class Interruption:
    """Ctrl-C before the n-th line of the functions that submit a job; counted over all of them."""

    FUNCTIONS = ("_deploy", "_deploy_master", "start")

    def __init__(self, line: int, reason: BaseException) -> None:
        self._left = line
        self._reason = reason

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    @property
    def has_struck(self) -> bool:
        return self._left < 0

    def _trace(self, frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        is_ours = code.co_filename.endswith(("launch.py", "job_master.py")) and "test" not in code.co_filename
        if not is_ours or code.co_name not in self.FUNCTIONS:
            return None
        if event == "line" and not self.has_struck:
            self._left -= 1
            if self.has_struck:
                raise self._reason
        return self._trace


class Watching(launch.JobObserver):
    """What everybody is told who watches jobs."""

    def __init__(self) -> None:
        self.clients: list[Any] = []
        self.last: dict[Any, JobStatus] = {}

    def job_submitted(self, client: Any) -> None:
        self.clients.append(client)

    def status_changed(self, job: Any, status: JobStatus) -> None:
        self.last[job.job_id] = status


@pytest.mark.parametrize("reason", [ProcessTerminated, KeyboardInterrupt], ids=["kill", "Ctrl-C"])
@pytest.mark.parametrize("drivers", ["one", "several"])
def test_job_whose_submission_is_interrupted_anywhere_is_over_for_everybody(
    tmp_path: Path, reason: type[KeyboardInterrupt], drivers: str
) -> None:
    line, announced = 0, 0
    while True:
        configuration = several_drivers(tmp_path / str(line))
        if drivers == "one":
            configuration.set_string("high-availability.type", "NONE")
        watching, interruption = Watching(), Interruption(line, reason())
        with (
            launch.use_executor(Waiting),
            launch.observe_jobs(watching),
            contextlib.suppress(KeyboardInterrupt),
            interruption,
        ):
            launch.submit(graph(), configuration, "job").cancel().result()
        if not interruption.has_struck:
            break
        for client in watching.clients:
            assert client.is_over(), line
            assert watching.last[client.get_job_id()].is_terminal_state(), line
        announced += len(watching.clients)
        if drivers == "several":
            # Nobody holds the lease any more, and whether the job goes on elsewhere is what the signal means.
            end = leader_of(configuration).look().end
            assert end is not None, line
            if watching.clients:
                expected = Outcome.RELEASED if reason is ProcessTerminated else Outcome.CANCELED
                assert end.outcome is expected, line
        line += 1
    assert announced > 3
    for thread in threading.enumerate():
        if thread.name.startswith("firesteel-job-"):
            threads.join(thread, 60)
            assert not thread.is_alive()


def test_job_that_an_observer_cannot_bear_is_over_for_the_others(tmp_path: Path) -> None:
    class Full(launch.JobObserver):
        def job_submitted(self, client: Any) -> None:
            raise OSError("no space left on device")

        def status_changed(self, job: Any, status: JobStatus) -> None:
            pass

    watching = Watching()
    with (
        launch.use_executor(Waiting),
        launch.observe_jobs(watching),
        launch.observe_jobs(Full()),
        pytest.raises(OSError, match="no space left"),
    ):
        launch.submit(graph(), Configuration(), "job")
    (client,) = watching.clients
    assert client.is_over()
    assert watching.last[client.get_job_id()] is JobStatus.FAILED
