"""Programs for the command line: they submit a small graph to an executor whose tasks are threads."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

# What a program sees as a module beside it. The name of the job says what its tasks do.
ENGINE = """
import queue, threading
from firesteel import launch
from firesteel.common.errors import UserCodeError
from firesteel.datastream._given_options import client_options
from firesteel.graph.stream_graph import Edge, GraphBuilder
from firesteel.plan.exchange import Auto
from firesteel.plan.messages import *
from firesteel.plan.operator_specs import PrintSpec, SourceSpec
from firesteel.plan.shipped import Shipped
from firesteel.plan.task_failure import to_message


class Attempt:
    def __init__(self, deployment, master):
        self.what, self.master = deployment.plan.name, master
        self.tasks = [TaskId(s.index, i) for s in deployment.plan.stages for i in range(s.tasks)]
        self.inboxes = {task: queue.Queue() for task in self.tasks}
        self.threads = [threading.Thread(target=self.run, args=(task,), daemon=True) for task in self.tasks]
        for thread in self.threads:
            thread.start()

    def run(self, task):
        self.master.connected(task, self.inboxes[task].put)
        self.master.deliver(task, TaskStarted("here", 1))
        if self.what == "hello":
            self.master.deliver(task, TextOutput("hello\\n"))
            self.master.deliver(task, TaskFinished())
        elif self.what == "fail":
            error = UserCodeError("ValueError: boom", operator="Map", traceback_text="user's lines")
            error.__cause__ = ValueError("boom")
            self.master.deliver(task, to_message(error))
        else:
            self.master.deliver(task, TextOutput("waiting\\n"))
            self.inboxes[task].get()
            if self.what.startswith("deaf"):
                self.master.deliver(task, TextOutput("told to end\\n"))
                threading.Event().wait()
            self.master.deliver(task, TaskCancelled())

    def join(self, timeout=None):
        for thread in self.threads:
            thread.join(timeout)
        return True

    def error(self):
        return None

    def kill(self):
        pass


class Engine:
    def __init__(self, configuration):
        pass

    def start(self, deployment, master):
        attempt = Attempt(deployment, master)
        if attempt.what.endswith("not deployed"):
            threading.Event().wait()
        return attempt


def submit(name):
    graph = GraphBuilder()
    source = graph.add("Source", SourceSpec(Shipped.of(None, "source"), True))
    graph.add("Print", PrintSpec(), (Edge(source, Auto()),))
    with launch.use_executor(Engine):
        return launch.submit(graph.build(), client_options(), name)


def execute(name):
    return submit(name).wait()
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Write a program; ``engine`` is importable in it. Returns its path."""
    (tmp_path / "engine.py").write_text(ENGINE, encoding="utf-8")

    def write(text: str, name: str = "job.py") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRESTEEL_HOME", str(tmp_path / "home"))
    for name in ("FIRESTEEL_PROGRESS", "FIRESTEEL_CONFIG", "FIRESTEEL_FULL_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
