"""The function Spark calls for each task: hop 6 of a record's journey and hop 13 of a checkpoint's life.

Threads, queue, clock and sockets around a `StageTask`. The generator below is the mailbox loop. It works off mails, which it
reads from Spark's socket, polls sources when it has time, and yields the rows that are to be sent. Yielding blocks when the
next stage is busy: that is the back pressure, and while it lasts nothing is popped from the mailbox, so the stage before
feels it too.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import random
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NoReturn

import pyarrow as pa
from pyspark import TaskContext

from firesteel import pyflink_alias
from firesteel.checkpoint.local_copies import LocalCopies
from firesteel.checkpoint.local_directories import open_local_copies
from firesteel.checkpoint.storage import Storage, open_storage
from firesteel.common import _store_settings
from firesteel.common.configuration import Configuration
from firesteel.common.errors import JobExecutionError, UpstreamLostError
from firesteel.common.options import TASK_MEMORY_LIMIT
from firesteel.control.collect_protocol import Collector, open_collector
from firesteel.control.protocol import CollectHello, TaskHello, connect
from firesteel.logs.origin import LogOrigin
from firesteel.plan.heartbeat import HeartbeatSettings
from firesteel.plan.job_plan import JobPlan
from firesteel.plan.messages import (
    CancelTask,
    CheckpointAborted,
    CheckpointCompleted,
    MasterMessage,
    QueryState,
    SetLogLevels,
    TaskCancelled,
    TaskFinished,
    TaskId,
    TaskInquiry,
    TaskStarted,
)
from firesteel.plan.state_handles import TaskRestore
from firesteel.plan.task_failure import to_message
from firesteel.runtime.blame import Blame
from firesteel.runtime.call_loop import CallLoop, ThreadedLoop
from firesteel.runtime.flush_pace import FlushPace
from firesteel.runtime.pace import SLICE_SECONDS, Pace, WatchedPace
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.stage_task import StageTask
from firesteel.runtime.task_clock import TaskClock
from firesteel.runtime.task_inquiries import TaskInquiries
from firesteel.runtime.vertex import in_megabytes
from firesteel.spark import worker_socket
from firesteel.spark.endpoint_secret import TaskEndpoint, resolved
from firesteel.spark.executor_id import executor_id
from firesteel.spark.mailbox import END_OF_INPUT, Mailbox, SocketMailbox, ThreadedMailbox
from firesteel.spark.memory_watch import MemoryWatch, be_killed_first, collect_less_often, memory_limit
from firesteel.spark.process_statistics import ProcessMeter
from firesteel.spark.query_desk import QueryDesk
from firesteel.spark.snapshot_thread import SnapshotThread
from firesteel.spark.task_files import TaskFiles
from firesteel.spark.task_output import TaskOutput
from firesteel.spark.task_reports import TaskReports
from firesteel.spark.task_secrets import NO_SECRETS, TaskSecrets

Rows = list[tuple[int, bytes]]

_LOG = logging.getLogger(__name__)
_MAILS_AT_ONCE = 32
_LOOK_AROUND_SECONDS = 0.01  # how long payloads are received one after the other
_LONG_SECONDS = 0.02  # work that takes longer than this is slow: what it has made is flushed
_SEND_SECONDS = 0.02  # for which payloads of a busy task wait, to be sent together
_SHORTEST_SLICE_SECONDS = 0.001
_KILL_SECONDS = 30.0
_HANG_UP_SECONDS = 0.2
_NAP_SECONDS = 0.1  # between two looks at what a call waits for, unless somebody wakes the task
_WRITER_SECONDS = 0.005  # how long to leave a busy writer alone
_MASTER_LOST = 75
_BATCH_BYTES = 64 << 20
_CAUSE_SECONDS = 3.0
_CAUSE_PAUSE = 0.01
_ANSWER_SECONDS = 1.0  # how long the master may take to answer before it is asked again
_LOOK_SECONDS = 1.0  # somebody may set the clock forward while the task waits for a moment of it


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """What every task of a stage is given."""

    job_id: str
    attempt: int
    stage: int
    plan: JobPlan
    endpoint: TaskEndpoint
    log_levels: Mapping[str, int]
    report_seconds: float
    files: TaskFiles
    checkpointing: bool = False
    restore: TaskRestore | None = None
    heartbeat: HeartbeatSettings | None = None
    secrets: TaskSecrets = NO_SECRETS


class _Cancelled(BaseException):
    """The job master asked the task to stop; ``for_good``: the job will not start again."""

    def __init__(self, for_good: bool) -> None:
        self.for_good = for_good


def run_task(blob: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The body of a Spark task."""
    context = TaskContext.get()
    assert context is not None
    setup: TaskSetup = pickle.loads(blob)
    options = {**setup.plan.options, **setup.secrets.options()}
    setup = replace(setup, plan=replace(setup.plan, options=options))
    setup.files.prepare()
    be_killed_first()
    collect_less_often()
    _store_settings.use_only(Configuration.from_dict(options))
    if setup.plan.options.get(pyflink_alias.OPTION) == "true":
        pyflink_alias.install()  # modules that tasks import may say "import pyflink" too
    task = TaskId(setup.stage, context.partitionId())
    spark = worker_socket.taken()
    if spark is None:
        for rows in TaskShell(setup, task, ThreadedMailbox(batches)).run():
            yield _record_batch(rows)
        return
    mailbox = SocketMailbox(spark)
    try:
        for rows in TaskShell(setup, task, mailbox).run():
            spark.send(rows)
    finally:
        spark.close()
        mailbox.close()


class TaskShell:
    """Drives one `StageTask`; also the services it asks for."""

    def __init__(self, setup: TaskSetup, task: TaskId, mailbox: Mailbox) -> None:
        self._setup = setup
        self._id = task
        self._endpoint = resolved(setup.endpoint)
        self._mailbox = mailbox
        self._collectors: list[Collector] = []
        self._call_loop: CallLoop | None = None
        self.job_id = setup.job_id
        self.attempt = setup.attempt
        self.random = random.Random()
        self.now = TaskClock().now
        timeout = _shortest_timeout(setup)
        self.pace: Pace = WatchedPace(min(SLICE_SECONDS, max(_SHORTEST_SLICE_SECONDS, timeout / 10)))
        self._send_seconds = min(_SEND_SECONDS, timeout / 5)
        self._sent_at = 0.0
        self._records_sent = 0
        self._log_levels = dict(setup.log_levels)
        self._inquiries = TaskInquiries(lambda answer: self._master.send(answer), threading.get_ident())
        hello = TaskHello(setup.job_id, setup.attempt, task, executor=executor_id())
        self._master = connect(self._endpoint, hello, self._on_message, self._on_master_lost, setup.heartbeat)
        self._trust = self._master.trust
        self._output = TaskOutput(self._master.send)
        self._pace = FlushPace()
        self._settings = TaskSettings.of(setup.plan)
        self._memory = MemoryWatch(memory_limit(self._settings.configuration))
        process = ProcessMeter(self._memory.limit)
        self._reports = TaskReports(self._master.send, setup.report_seconds, process.read, self.now)
        self._storages: dict[str, Storage] = {}
        self.local_copies: LocalCopies | None = None
        self._desk = QueryDesk(self._master.send)
        self._snapshots = SnapshotThread(self, self._settings.snapshot_form, self._master.send)

    # Services -----------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have the loop look at the sources again."""
        self._mailbox.wake()

    def call_loop(self) -> CallLoop:
        """An event loop in a thread of its own."""
        if self._call_loop is None:
            self._call_loop = ThreadedLoop()
        return self._call_loop

    def write_text(self, text: str, to_stderr: bool = False) -> None:
        """Lines for whoever started the job."""
        self._output.write(text, to_stderr)

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> Collector:
        """A connection for results, of its own so that waiting for the driver blocks nothing else."""
        hello = CollectHello(self.job_id, self.attempt, collect_id, subtask, start, origin)
        collector = open_collector(self._endpoint, hello)
        self._collectors.append(collector)
        return collector

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
        if isinstance(message, SetLogLevels):
            self._log_levels.update(message.levels)  # for a task that has not begun to log
        if isinstance(message, TaskInquiry):
            self._inquiries.answer(message)  # at once: the task may be stuck, which is why somebody asks
        elif isinstance(message, QueryState):
            self._desk.put(message)
            self._mailbox.wake()
        else:
            self._mailbox.put_control(message)

    def _on_master_lost(self) -> None:
        # The driver is gone: nobody wants this task's work, and nobody would ever end it.
        os._exit(_MASTER_LOST)

    # The loop -----------------------------------------------------------------------------------------

    def run(self) -> Iterator[Rows]:
        """The life of the task."""
        task: StageTask | None = None
        try:
            with self._output.redirected(self._log_levels, self._origin()):
                task = StageTask(self._setup.plan, self._id, self, checkpointing=self._setup.checkpointing)
                self._open(task)
                queryable = tuple(task.queryable.take_new())
                self._master.send(TaskStarted(os.uname().nodename, os.getpid(), self.attempt, queryable))
                # At once: the first record may be waited for, or worked on, for long.
                self._reports.report(task.report())
                self._mailbox.begin()
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

    def _origin(self) -> LogOrigin:
        """Who logs, for every line of this process."""
        plan = self._setup.plan
        names = plan.subtask_names(self._id.stage, self._id.index)
        return LogOrigin(self.job_id, plan.name, ", ".join(names), self.attempt)

    def _open(self, task: StageTask) -> None:
        if self._setup.checkpointing:
            configuration = self._settings.configuration
            self.local_copies = open_local_copies(configuration, self.job_id, self.attempt)
        task.open(self._setup.restore)
        copies = self.local_copies
        if copies is not None and self._setup.restore is not None:
            _LOG.info(
                "%s: local copies of keyed state were read for %d segment(s), %d bytes",
                ", ".join(task.names),
                copies.segments_read,
                copies.bytes_read,
            )

    def _work(self, task: StageTask) -> Iterator[Rows]:
        mailbox, desk = self._mailbox, self._desk
        input_over = False
        while True:
            began = time.monotonic()
            if began > self._trust.until:
                self._await_trust()
            if task.unread:
                yield from self._do(task, task.resume)
            for _ in range(_MAILS_AT_ONCE):
                if desk.waiting:
                    desk.answer(task.queryable)
                if not task.may_receive or time.monotonic() - began > _LOOK_AROUND_SECONDS:
                    break
                mail = mailbox.pop()
                if mail is None:
                    break
                if mail is END_OF_INPUT:
                    input_over = True
                    self._check_input_ended(task)
                else:
                    yield from self._do(task, task.receive, mail)
            while mailbox.control:
                yield from self._do(task, task.obey, self._pop_control())
            yield from self._do(task, task.poll)
            if self._can_work_on_snapshots(task):
                snapshot = task.work_on_snapshots()
                assert snapshot is not None
                self._snapshots.add(snapshot)
            for report in task.take_messages():
                self._master.send(report)
            busy = not mailbox.empty() or task.ready() or self._can_work_on_snapshots(task)
            now = time.monotonic()
            # Slow user code makes few results: each may leave at once, before the next call lasts long too.
            flush = (not busy or now - began > _LONG_SECONDS) and self._pace.pause(now) <= 0
            is_due = now - self._sent_at >= self._send_seconds or task.has_much_to_send or task.flush_is_due
            if flush or is_due:
                self._sent_at = now
                rows = task.take(idle=flush)
                if rows:
                    if flush:
                        before, self._records_sent = self._records_sent, task.records_sent
                        self._pace.flushed(len(rows), self._records_sent - before, now)
                    yield from self._hand_over(task, rows)
            self._report(task)
            if busy:
                continue
            if flush and input_over and task.finished and mailbox.empty():
                return
            self._output.flush()
            self.pace.rest()
            rests_since = time.monotonic()
            # Sources that are asked once for every flush cost half of what those cost that are asked in between, too.
            pause = max(0.0, self._pace.pause(rests_since))
            wait = self._seconds_to_wait(task, pause)
            mailbox.wait(wait if flush else min(wait, pause))
            self._reports.rested(rests_since)

    def _do(self, task: StageTask, call: Callable[..., Any], *arguments: Any) -> Iterator[Rows]:
        """Make a call of the task; while it pauses, send what it has made. A slow receiver stops it here."""
        call(*arguments)
        while task.paused:
            if any(isinstance(message, CancelTask) for message in self._mailbox.control):
                self._cancel()
            waits = task.waits
            rows = task.take(idle=waits)
            if rows:
                yield from self._hand_over(task, rows)
            self._report(task)
            if waits:
                rests_since = time.monotonic()
                self._mailbox.nap(_NAP_SECONDS)
                self._reports.rested(rests_since)
            else:
                task.resume()

    def _hand_over(self, task: StageTask, rows: Rows) -> Iterator[Rows]:
        """Give rows to Spark, which takes them as fast as their receivers do: the time that takes is back pressure."""
        is_readable = self._settings.queryable_state and not task.paused
        for batch in _batches(rows):
            self._reports.begin_to_wait(task.report)
            if is_readable:
                self._desk.begin_to_wait(task.queryable)
            yield batch
            if is_readable:
                self._desk.end_to_wait()
            self._reports.end_to_wait()

    def _can_work_on_snapshots(self, task: StageTask) -> bool:
        return task.has_snapshots and not self._snapshots.busy

    def _check_input_ended(self, task: StageTask) -> None:
        try:
            task.input_ended()
        except UpstreamLostError:
            # Either the job ends with a checkpoint, and the tasks before this one have heard of it first: nothing is lost, and
            # this one hears of it now. Or one of them is gone, and the job master is about to find out and to cancel this one:
            # what it says is the reason, this here only the consequence.
            deadline = time.monotonic() + _CAUSE_SECONDS
            while time.monotonic() < deadline:
                waiting = list(self._mailbox.control)
                if any(isinstance(message, CheckpointCompleted) and message.final for message in waiting):
                    return
                if any(isinstance(message, CancelTask) for message in waiting):
                    self._cancel()
                self._mailbox.nap(_CAUSE_PAUSE)
            raise

    def _seconds_to_wait(self, task: StageTask, pause: float) -> float:
        now = self.now()
        until_report = self._reports.due_at - time.monotonic()
        until_written = _WRITER_SECONDS if task.has_snapshots else math.inf
        return max(0.0, min(task.next_poll(now + pause) - now, until_report, until_written, _LOOK_SECONDS))

    def _pop_control(self) -> MasterMessage:
        """The next message of the job master that the task itself has to obey."""
        message = self._mailbox.pop_control()
        if isinstance(message, CancelTask):
            raise _Cancelled(message.for_good)
        if isinstance(message, CheckpointCompleted) and time.monotonic() > self._trust.until:
            self._await_trust()  # sinks are about to commit
        if isinstance(message, CheckpointAborted | CheckpointCompleted):
            self._snapshots.checkpoint_ended(message)
        return message

    def _await_trust(self) -> None:
        """Continue only if the master still counts on this task: one of the two was stopped for a while.

        If it does not, it ends the task, or its connection, which ends the process.
        """
        while time.monotonic() > self._trust.until:
            if any(isinstance(message, CancelTask) for message in self._mailbox.control):
                self._cancel()
            self._master.ask_for_trust(_ANSWER_SECONDS)

    def _cancel(self) -> NoReturn:
        """Somewhere among the messages is one that ends the task."""
        while True:
            message = self._mailbox.pop_control()
            if isinstance(message, CancelTask):
                raise _Cancelled(message.for_good)

    def _report(self, task: StageTask) -> None:
        if time.monotonic() >= self._reports.due_at:
            self._output.flush()
            self._reports.report(task.report())
            self._check_memory(task)

    def _check_memory(self, task: StageTask) -> None:
        size, limit = self._memory.excess(), self._memory.limit
        if size is None or limit is None:
            return
        raise JobExecutionError(
            f"task {', '.join(task.names)} uses {in_megabytes(size)} of memory, more than its limit of "
            f"{in_megabytes(limit.size)} ({limit.origin}): {task.describe_memory()}; the rest is what functions keep "
            "themselves. Keep less (a time to live for state), keep it on disk (state.backend.type: disk), spread it (a "
            f"higher parallelism), or raise {TASK_MEMORY_LIMIT.key}"
        )

    def _finish(self, task: StageTask) -> None:
        self._reports.close()
        self._desk.answer(task.queryable)
        self._snapshots.close()
        if self.local_copies is not None:
            self.local_copies.end_job()
        errors = task.close()
        if errors:
            raise errors[0]
        for collector in self._collectors:
            collector.close()
        self._output.finish()
        self._reports.report(task.report())
        self._master.send(TaskFinished())
        self._master.close()

    def _close(self, task: StageTask | None) -> None:
        self._reports.close()
        self._desk.end_to_wait()
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

    def _await_kill(self) -> Iterator[Rows]:
        # Returning would look like success to Spark, and raising would have it print a Java stack trace.
        # The job master cancels the Spark job. If Spark is slow in that, it kills this process; otherwise it only
        # hangs up, which is noticed by writing: without that, every restart would leave processes with all
        # their state behind for as long as they wait.
        for _ in range(round(_KILL_SECONDS / _HANG_UP_SECONDS)):
            time.sleep(_HANG_UP_SECONDS)
            yield []
        raise RuntimeError("the job master did not end the attempt")


def _shortest_timeout(setup: TaskSetup) -> float:
    """How long records may wait in this task, in seconds."""
    timeouts = [vertex.buffer_timeout_ms for vertex in setup.plan.vertices if vertex.stage == setup.stage]
    return min((timeout for timeout in timeouts if timeout >= 0), default=math.inf) / 1000


def _batches(rows: Rows) -> Iterator[Rows]:
    """The rows in batches that are not too large: Arrow counts the bytes of a batch in 32 bits."""
    sizes = [len(payload) for _, payload in rows]
    if sum(sizes) <= _BATCH_BYTES:
        yield rows
        return
    start = size = 0
    for end, added in enumerate(sizes):
        if size and size + added > _BATCH_BYTES:
            yield rows[start:end]
            start, size = end, 0
        size += added
    yield rows[start:]


def _record_batch(rows: Rows) -> pa.RecordBatch:
    targets, payloads = [target for target, _ in rows], [payload for _, payload in rows]
    # From buffers, because pa.array() of Python objects imports pandas: a second of processor time per worker.
    buffers = [array("i", targets), array("i", accumulate(map(len, payloads), initial=0)), b"".join(payloads)]
    target, offsets, content = map(pa.py_buffer, buffers)
    columns = [
        pa.Array.from_buffers(pa.int32(), len(rows), [None, target]),
        pa.Array.from_buffers(pa.binary(), len(rows), [None, offsets, content]),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["target", "payload"])
