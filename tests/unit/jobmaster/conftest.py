"""An executor whose tasks are threads of this process, and plans for it."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from firesteel.plan.executor import Deployment, Master
from firesteel.plan.job_plan import JobPlan, OperatorPlan, StagePlan, VertexPlan
from firesteel.plan.messages import CancelTask, MasterMessage, TaskCancelled, TaskId, TaskMessage, TaskStarted
from firesteel.plan.operator_specs import PrintSpec, RuntimeMode
from firesteel_support import threads

sys.path.insert(0, str(Path(__file__).parent))  # for numbered_source


class Killed(BaseException):
    """Raised in a task that is killed."""


class TaskHandle:
    """What the body of a thread task works with."""

    def __init__(self, task: TaskId, master: Master) -> None:
        self.id = task
        self.master = master
        self.inbox: queue.Queue[MasterMessage | None] = queue.Queue()

    def say(self, *messages: TaskMessage) -> None:
        for message in messages:
            self.master.deliver(self.id, message)

    def next_message(self) -> MasterMessage:
        message = self.inbox.get(timeout=300)
        if message is None:
            raise Killed
        return message

    def run_until_cancelled(self) -> None:
        while not isinstance(self.next_message(), CancelTask):
            pass
        self.say(TaskCancelled())


Body = Callable[[TaskHandle], None]


class ThreadAttempt:
    """One thread for each task; a body that raises ends the attempt with that error."""

    def __init__(self, deployment: Deployment, master: Master, body: Body) -> None:
        self._body = body
        self._error: BaseException | None = None
        stages = deployment.plan.stages
        ids = [TaskId(stage.index, index) for stage in stages for index in range(stage.tasks)]
        self.tasks = [TaskHandle(task, master) for task in ids]
        self._threads = [threading.Thread(target=self._run, args=(task,), daemon=True) for task in self.tasks]
        for thread in self._threads:
            thread.start()

    def _run(self, task: TaskHandle) -> None:
        task.master.connected(task.id, task.inbox.put)
        task.say(TaskStarted("localhost", 1))
        try:
            self._body(task)
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001
            self._error = error

    def join(self, timeout: float | None = None) -> bool:
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def error(self) -> BaseException | None:
        return self._error

    def kill(self) -> None:
        for task in self.tasks:
            task.inbox.put(None)


@dataclass
class ThreadExecutor:
    """Runs ``body`` in every task."""

    body: Body
    deployments: list[Deployment] = field(default_factory=list)

    def start(self, deployment: Deployment, master: Master) -> ThreadAttempt:
        self.deployments.append(deployment)
        return ThreadAttempt(deployment, master, self.body)


@pytest.fixture
def thread_executor() -> Callable[[Body], ThreadExecutor]:
    return ThreadExecutor


@pytest.fixture
def make_plan() -> Callable[..., JobPlan]:
    def make(*parallelisms: int, mode: RuntimeMode = RuntimeMode.STREAMING) -> JobPlan:
        vertices = [
            VertexPlan(n, f"v{n}", n, 0, p, 128, (OperatorPlan(f"id{n}", f"op{n}", PrintSpec()),))
            for n, p in enumerate(parallelisms)
        ]
        stages = [StagePlan(n, p, (n,)) for n, p in enumerate(parallelisms)]
        return JobPlan("test job", mode, tuple(stages), tuple(vertices), ())

    return make


@pytest.fixture(autouse=True)
def no_thread_is_left_behind() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        threads.join(thread, 60)
    assert [thread.name for thread in left if thread.is_alive()] == []
