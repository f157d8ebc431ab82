"""An executor whose tasks finish at once: a program continues behind its job as if there had been no records."""

from __future__ import annotations

import os
import socket

from firesteel.common.configuration import Configuration
from firesteel.plan.executor import Deployment, Master
from firesteel.plan.messages import TaskFinished, TaskId, TaskStarted

__all__ = ["EmptyRun"]


class EmptyRun:
    """`plan.executor.Executor` and its own attempt: it is over before `start` returns."""

    is_trial = True

    def __init__(self, configuration: Configuration) -> None:
        pass

    def start(self, deployment: Deployment, master: Master) -> EmptyRun:
        """Report that all tasks have begun and ended."""
        for stage in deployment.plan.stages:
            for task in (TaskId(stage.index, index) for index in range(stage.tasks)):
                master.deliver(task, TaskStarted(socket.gethostname(), os.getpid(), deployment.attempt))
                master.deliver(task, TaskFinished())
        return self

    def join(self, timeout: float | None = None) -> bool:
        """Nothing to wait for."""
        return True

    def error(self) -> BaseException | None:
        """Nothing can go wrong."""
        return None

    def kill(self) -> None:
        """It is over already."""
