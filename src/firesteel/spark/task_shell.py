"""The function Spark calls for each task: threads, queue, clock and sockets around a `StageTask`.

Hop 6 of a record's journey. A reader thread feeds the mailbox from Spark's Arrow batches; the generator
below is the mailbox loop. It works off mails, polls sources when it has time, and yields what is to be
sent. Yielding blocks when the next stage is busy: that is the back pressure, and while it lasts nothing
is taken from the mailbox, so the stage before feels it too.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import random
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
from pyspark import TaskContext

from firesteel import pyflink_alias
from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.local_directories import open_local_copies
from firesteel.checkpoint.storage import Storage, open_storage
from firesteel.common.configuration import Configuration
from firesteel.common.errors import DataLossError, JobExecutionError
from firesteel.plan.control_protocol import CollectHello, Collector, TaskHello, connect, open_collector
from firesteel.plan.executor import ControlEndpoint
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    CancelTask,
    CheckpointAborted,
    CheckpointCompleted,
    MasterMessage,
    TaskCancelled,
    TaskFinished,
    TaskId,
    TaskStarted,
)
from firesteel.plan.state_handles import Restore
from firesteel.plan.task_failure import to_message
from firesteel.runtime.blame import Blame
from firesteel.runtime.flush_pace import FlushPace
from firesteel.runtime.snapshot_writer import SnapshotForm
from firesteel.runtime.stage_task import StageTask
from firesteel.spark.mailbox import END_OF_INPUT, Mailbox
from firesteel.spark.snapshot_thread import SnapshotThread
from firesteel.spark.task_files import TaskFiles
from firesteel.spark.task_output import TaskOutput

_log = logging.getLogger(__name__)
_MAILS_AT_ONCE = 32
_KILL_SECONDS = 30.0
_HANG_UP_SECONDS = 0.2
_WRITER_SECONDS = 0.005  # how long to leave a busy writer alone
_MASTER_LOST = 75
_BATCH_BYTES = 64 << 20
_CAUSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """What every task of a stage is given."""

    job_id: str
    attempt: int
    stage: int
    plan: JobPlan
    endpoint: ControlEndpoint
    log_level: int
    report_seconds: float
    files: TaskFiles
    checkpointing: bool = False
    restore: Restore | None = None


class _Cancelled(BaseException):
    """The job master asked the task to stop; ``for_good``: the job will not start again."""

    def __init__(self, for_good: bool) -> None:
        self.for_good = for_good


def run_task(blob: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The body of a Spark task."""
    context = TaskContext.get()
    assert context is not None
    setup: TaskSetup = pickle.loads(blob)
    setup.files.prepare()
    if setup.plan.options.get(pyflink_alias.OPTION) == "true":
        pyflink_alias.install()  # modules that tasks import may say "import pyflink" too
    shell = TaskShell(setup, TaskId(setup.stage, context.partitionId()))
    yield from shell.run(batches)


class TaskShell:
    """Drives one `StageTask`; also the services it asks for."""

    def __init__(self, setup: TaskSetup, task: TaskId) -> None:
        self._setup = setup
        self._id = task
        self._mailbox = Mailbox()
        self._collectors: dict[str, Collector] = {}
        self.job_id = setup.job_id
        self.attempt = setup.attempt
        self.random = random.Random()
        hello = TaskHello(setup.job_id, setup.attempt, task)
        self._master = connect(setup.endpoint, hello, self._on_message, self._on_master_lost)
        self._output = TaskOutput(self._master.send)
        self._next_report = time.monotonic() + setup.report_seconds
        self._pace = FlushPace()
        self._storages: dict[str, Storage] = {}
        self.local_copies: LocalCopies | None = None
        self._snapshots = SnapshotThread(self, SnapshotForm.of(setup.plan.options), self._master.send)

    # Services -----------------------------------------------------------------------------------------

    def now(self) -> float:
        """Time of the machine."""
        return time.time()

    def wake(self) -> None:
        """Have the loop look at the sources again."""
        self._mailbox.wake()

    def write_text(self, text: str, to_stderr: bool = False) -> None:
        """Lines for whoever started the job."""
        self._output.write(text, to_stderr)

    def collect(self, collect_id: str, blob: bytes) -> None:
        """Records for the driver, on a connection of their own so that waiting for it blocks nothing else."""
        if collect_id not in self._collectors:
            hello = CollectHello(self.job_id, self.attempt, collect_id)
            self._collectors[collect_id] = open_collector(self._setup.endpoint, hello)
        self._collectors[collect_id](blob)

    def storage(self, root: str) -> Storage:
        """Where the files of a checkpoint are."""
        if root not in self._storages:
            self._storages[root] = open_storage(root)
        return self._storages[root]

    def cached_file(self, name: str) -> str:
        """Path of a registered file, as Spark distributed it."""
        return self._setup.files.cached_file(name)

    # Control ------------------------------------------------------------------------------------------

    def _on_message(self, message: MasterMessage) -> None:
        self._mailbox.put_control(message)

    def _on_master_lost(self) -> None:
        # The driver is gone: nobody wants this task's work, and nobody would ever end it.
        os._exit(_MASTER_LOST)

    # The loop -----------------------------------------------------------------------------------------

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The life of the task."""
        task: StageTask | None = None
        try:
            with self._output.redirected(self._setup.log_level):
                task = StageTask(self._setup.plan, self._id, self, checkpointing=self._setup.checkpointing)
                self._open(task)
                self._master.send(TaskStarted(os.uname().nodename, os.getpid(), self.attempt))
                self._mailbox.feed(batches)
                yield from self._work(task)
                self._finish(task)
        except GeneratorExit:
            self._close(task)
            raise
        except _Cancelled as cancelled:
            self._close(task)
            if cancelled.for_good and self.local_copies is not None:
                self.local_copies.end_job()
            self._master.send(TaskCancelled())
            self._master.close()
            yield from self._await_kill()
        except SystemExit as error:
            self._close(task)
            self._fail(
                RuntimeError(f"user code wanted the task's process to exit (SystemExit: {error.code})")
            )
            yield from self._await_kill()
        except Exception as error:  # noqa: BLE001 - reported to the job master, which ends the job
            self._close(task)
            self._fail(error)
            yield from self._await_kill()

    def _open(self, task: StageTask) -> None:
        if self._setup.checkpointing:
            configuration = Configuration.from_dict(dict(self._setup.plan.options))
            self.local_copies = open_local_copies(configuration, self.job_id, self.attempt)
        task.open(self._setup.restore)
        copies = self.local_copies
        if copies is not None and self._setup.restore is not None:
            _log.info(
                "%s: local copies of keyed state were read for %d segment(s), %d bytes",
                ", ".join(task.names),
                copies.segments_read,
                copies.bytes_read,
            )

    def _work(self, task: StageTask) -> Iterator[pa.RecordBatch]:
        mailbox = self._mailbox
        input_over = False
        while True:
            for _ in range(_MAILS_AT_ONCE):
                mail = mailbox.take()
                if mail is None:
                    break
                if mail is END_OF_INPUT:
                    input_over = True
                    self._check_input_ended(task)
                else:
                    task.receive(mail)
            while mailbox.control:
                self._obey(task)
            task.poll()
            if self._can_work_on_snapshots(task):
                snapshot = task.work_on_snapshots()
                assert snapshot is not None
                self._snapshots.add(snapshot)
            for report in task.take_messages():
                self._master.send(report)
            busy = not mailbox.empty() or task.ready() or self._can_work_on_snapshots(task)
            pause = 0.0 if busy else self._pace.pause(time.monotonic())
            rows = task.take(idle=not busy and pause <= 0)
            if rows:
                if not busy:
                    self._pace.flushed(len(rows), time.monotonic())
                yield from _record_batches(rows)
            self._report(task)
            if busy:
                continue
            if pause <= 0 and input_over and task.finished and mailbox.empty():
                return
            self._output.flush()
            wait = self._seconds_to_wait(task)
            mailbox.wait(min(wait, pause) if pause > 0 else wait)

    def _can_work_on_snapshots(self, task: StageTask) -> bool:
        return task.has_snapshots and not self._snapshots.busy

    def _check_input_ended(self, task: StageTask) -> None:
        try:
            task.input_ended()
        except DataLossError:
            # Most likely a task before this one is gone, and the job master is about to find out and to cancel
            # this one. What it says is the reason, this here only the consequence.
            deadline = time.monotonic() + _CAUSE_SECONDS
            while not self._mailbox.control and time.monotonic() < deadline:
                self._mailbox.wait(_CAUSE_SECONDS)
            if self._mailbox.control:
                self._obey(task)
            raise

    def _seconds_to_wait(self, task: StageTask) -> float:
        until_report = self._next_report - time.monotonic()
        until_written = _WRITER_SECONDS if task.has_snapshots else math.inf
        return max(0.0, min(task.next_poll() - self.now(), until_report, until_written))

    def _obey(self, task: StageTask) -> None:
        message = self._mailbox.take_control()
        if isinstance(message, CancelTask):
            raise _Cancelled(message.for_good)
        if isinstance(message, CheckpointAborted | CheckpointCompleted):
            self._snapshots.hear(message)
        task.obey(message)

    def _report(self, task: StageTask) -> None:
        now = time.monotonic()
        if now >= self._next_report:
            self._next_report = now + self._setup.report_seconds
            self._output.flush()
            self._master.send(task.report())

    def _finish(self, task: StageTask) -> None:
        self._snapshots.close()
        if self.local_copies is not None:
            self.local_copies.end_job()
        errors = task.close()
        if errors:
            raise errors[0]
        for collector in self._collectors.values():
            collector.close()
        self._output.flush()
        self._master.send(task.report())
        self._master.send(TaskFinished())
        self._master.close()

    def _close(self, task: StageTask | None) -> None:
        # A failure is on its way already; what close() adds to it would only hide the first cause.
        if task is not None:
            task.close()
        if self.local_copies is not None:
            self.local_copies.close()
        self._output.flush()

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, JobExecutionError):
            names = ", ".join(v.name for v in self._setup.plan.vertices if v.stage == self._id.stage)
            error = Blame(names, self._id.index, self._setup.plan.stages[self._id.stage].tasks, "").error(
                error
            )
        self._master.send(to_message(error))
        self._master.close()

    def _await_kill(self) -> Iterator[pa.RecordBatch]:
        # Returning would look like success to Spark, and raising would have it print a Java stack trace.
        # The job master cancels the Spark job. If Spark is slow in that, it kills this process; otherwise it only
        # hangs up, which is noticed by writing: without that, every restart would leave processes with all
        # their state behind for as long as they wait.
        for _ in range(round(_KILL_SECONDS / _HANG_UP_SECONDS)):
            time.sleep(_HANG_UP_SECONDS)
            yield _record_batch([], [])
        raise RuntimeError("the job master did not end the attempt")


def _record_batches(rows: list[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    """The rows in batches that are not too large: Arrow counts the bytes of a batch in 32 bits."""
    sizes = [len(payload) for _, payload in rows]
    if sum(sizes) <= _BATCH_BYTES:
        yield _record_batch(rows, sizes)
        return
    start = size = 0
    for end, added in enumerate(sizes):
        if size and size + added > _BATCH_BYTES:
            yield _record_batch(rows[start:end], sizes[start:end])
            start, size = end, 0
        size += added
    yield _record_batch(rows[start:], sizes[start:])


def _record_batch(rows: list[tuple[int, bytes]], sizes: list[int]) -> pa.RecordBatch:
    targets, payloads = [target for target, _ in rows], [payload for _, payload in rows]
    # From buffers, because pa.array() of Python objects imports pandas: a second of processor time per worker.
    buffers = [array("i", targets), array("i", accumulate(sizes, initial=0)), b"".join(payloads)]
    target, offsets, content = map(pa.py_buffer, buffers)
    columns = [
        pa.Array.from_buffers(pa.int32(), len(rows), [None, target]),
        pa.Array.from_buffers(pa.binary(), len(rows), [None, offsets, content]),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["target", "payload"])
