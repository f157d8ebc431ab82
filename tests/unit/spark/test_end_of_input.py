"""What a task does whose input has ended without a word: it may only hear later than others that the job ends."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from firesteel.common.errors import UpstreamLostError
from firesteel.plan.exchange import Rebalance
from firesteel.plan.messages import CancelTask, CheckpointCompleted
from firesteel.runtime.stage_task import StageTask
from firesteel.spark import task_shell
from firesteel.spark.mailbox import ThreadedMailbox
from firesteel.spark.task_shell import TaskShell
from firesteel_support.flow import Flow
from firesteel_support.task_harness import TaskHarness


@pytest.fixture
def shell() -> Any:
    """As much of a shell as looks at the end of the input."""
    shell: Any = object.__new__(TaskShell)
    shell._mailbox = ThreadedMailbox(iter(()))
    return shell


@pytest.fixture
def task() -> StageTask:
    """It has one input, and has heard nothing on it."""
    flow = Flow()
    stream = flow.source([1], parallelism=1)
    flow.collect(flow.map(stream, lambda value: value, by=Rebalance()), "out")
    return TaskHarness(flow.plan(), stage=1).task


def test_a_last_checkpoint_that_the_task_hears_of_after_its_senders_ended_ends_it_in_order(
    shell: Any, task: StageTask
) -> None:
    message = CheckpointCompleted(7, final=True)
    shell._mailbox.put_control(CheckpointCompleted(6))
    telling = threading.Timer(0.05, shell._mailbox.put_control, [message])
    telling.start()
    shell._check_input_ended(task)
    telling.join()
    assert list(shell._mailbox.control) == [CheckpointCompleted(6), message], "it obeys them next"
    for each in shell._mailbox.control:
        task.obey(each)
    assert task.finished
    task.poll()


def test_input_that_ends_without_a_reason_is_lost(
    shell: Any, task: StageTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_shell, "_CAUSE_SECONDS", 0.05)
    shell._mailbox.put_control(CheckpointCompleted(6))
    with pytest.raises(UpstreamLostError, match="an upstream task ended early"):
        shell._check_input_ended(task)


def test_a_master_that_cancels_the_task_is_the_reason(shell: Any, task: StageTask) -> None:
    shell._mailbox.put_control(CancelTask())
    with pytest.raises(task_shell._Cancelled):
        shell._check_input_ended(task)
