"""A task that reads and writes the socket of its worker itself, before and behind PySpark."""

from __future__ import annotations

import io
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from firesteel.plan.messages import CancelTask
from firesteel.spark import worker_socket
from firesteel.spark.arrow_rows import END_OF_STREAM, BatchWriter
from firesteel.spark.mailbox import END_OF_INPUT, SocketMailbox
from firesteel.spark.worker_socket import WorkerInput, WorkerSocket

FOREVER = 60.0


class Ends:
    """Spark's end of the socket, and the worker's as PySpark has it."""

    def __init__(self) -> None:
        self.spark, self._worker = socket.socketpair()
        self.infile = WorkerInput(os.fdopen(os.dup(self._worker.fileno()), "rb", 65536))
        self.outfile = os.fdopen(os.dup(self._worker.fileno()), "wb", 65536)
        self.socket = WorkerSocket(self.infile, self.outfile)
        self.mailbox = SocketMailbox(self.socket)
        self.mailbox.begin()
        self.writer = BatchWriter()

    def send(self, *payloads: bytes) -> None:
        """As Spark does: a message for every row."""
        for payload in payloads:
            self.spark.sendall(self.writer.batch([(0, payload)]))

    def close(self) -> None:
        for each in (self.mailbox, self.socket, self.spark, self._worker, self.infile, self.outfile):
            each.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    yield found
    found.close()


def popped(mailbox: SocketMailbox, count: int) -> list[Any]:
    found = []
    while len(found) < count:
        mailbox.wait(FOREVER)
        while (mail := mailbox.pop()) is not None:
            found.append(mail)
    return found


def ends_early(wait: Callable[[float], None]) -> bool:
    """Whether somebody ended a wait that would have lasted for ever."""
    began = time.monotonic()
    wait(FOREVER)
    return time.monotonic() - began < FOREVER


def test_payloads_are_read_when_the_task_asks(ends: Ends) -> None:
    assert ends.mailbox.empty()
    assert ends.mailbox.pop() is None
    ends.spark.sendall(ends.writer.schema)
    assert ends.mailbox.empty(), "a schema is no payload"
    ends.send(b"one", b"", b"two")
    assert popped(ends.mailbox, 3) == [b"one", b"", b"two"]
    assert ends.mailbox.empty()


def test_what_pyspark_had_read_ahead_comes_first(ends: Ends) -> None:
    ends.spark.sendall(struct.pack("!i", 7) + ends.writer.schema + ends.writer.batch([(0, b"first")]))
    assert struct.unpack("!i", ends.infile.read(4)) == (7,)
    ends.send(b"second")
    assert popped(ends.mailbox, 2) == [b"first", b"second"]


@pytest.mark.parametrize("size", [10, 100_000, 5_000_000])
def test_a_message_that_comes_in_pieces(ends: Ends, size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    message = ends.writer.schema + ends.writer.batch([(0, payload)])

    def trickle() -> None:
        step = max(1, len(message) // 200)
        for begin in range(0, len(message), step):
            ends.spark.sendall(message[begin : begin + step])

    sender = threading.Thread(target=trickle)
    sender.start()
    assert popped(ends.mailbox, 1) == [payload]
    sender.join()


def test_behind_the_end_pyspark_reads_on(ends: Ends) -> None:
    ends.send(b"last")
    ends.spark.sendall(END_OF_STREAM + struct.pack("!ii", -4, 12))
    assert popped(ends.mailbox, 2) == [b"last", END_OF_INPUT]
    assert ends.mailbox.pop() is None
    assert struct.unpack("!i", ends.infile.read(4)) == (-4,)
    ends.spark.sendall(struct.pack("!i", 13))
    assert struct.unpack("!ii", ends.infile.read(8)) == (12, 13)


@pytest.mark.parametrize("begun", [b"", b"\xff\xff"])
def test_a_spark_that_hangs_up_is_the_end(ends: Ends, begun: bytes) -> None:
    ends.send(b"last")
    ends.spark.sendall(begun)
    ends.spark.close()
    assert popped(ends.mailbox, 2) == [b"last", END_OF_INPUT]


def test_a_wait_ends_when_somebody_wakes_the_task(ends: Ends) -> None:
    waking = threading.Timer(0.01, ends.mailbox.put_control, [CancelTask()])
    waking.start()
    assert ends_early(ends.mailbox.wait)
    assert list(ends.mailbox.control) == [CancelTask()]
    waking.join()
    assert ends_early(ends.mailbox.wait), "it does not wait as long as a message is there"


def test_a_wake_before_the_wait_is_not_lost(ends: Ends) -> None:
    for _ in range(100_000):
        ends.mailbox.wake()
    assert ends_early(ends.mailbox.wait)


def test_a_wait_takes_its_time_when_nothing_comes(ends: Ends) -> None:
    began = time.monotonic()
    ends.mailbox.wait(0.02)
    assert time.monotonic() - began >= 0.02


def test_a_nap_is_not_ended_by_payloads(ends: Ends) -> None:
    ends.send(b"waits")
    has_woken = threading.Event()

    def wake() -> None:
        has_woken.set()
        ends.mailbox.wake()

    waking = threading.Timer(0.05, wake)
    waking.start()
    assert ends_early(ends.mailbox.nap)
    assert has_woken.is_set()
    waking.join()
    assert ends.mailbox.pop() == b"waits"


def test_rows_are_written_between_what_pyspark_writes(ends: Ends) -> None:
    ends.outfile.write(struct.pack("!i", 5))
    ends.socket.send([(1, b"one"), (0, b"")])
    ends.socket.send([])
    ends.socket.close()
    ends.outfile.write(struct.pack("!i", 6))
    ends.outfile.flush()
    content = io.BytesIO(ends.spark.recv(100_000))
    assert struct.unpack("!ii", content.read(8)) == (5, -6)
    batches = [batch.to_pylist() for batch in pa.ipc.open_stream(content)]
    assert [[(row["_0"]["target"], row["_0"]["payload"]) for row in batch] for batch in batches] == [
        [(1, b"one"), (0, b"")],
        [],
    ]
    assert struct.unpack("!i", content.read()) == (6,)


def test_a_task_that_sends_nothing_writes_nothing(ends: Ends) -> None:
    ends.socket.close()
    ends.outfile.write(b"x")
    ends.outfile.flush()
    assert ends.spark.recv(10) == b"x"


def test_the_socket_is_taken_once() -> None:
    assert worker_socket.taken() is None
    ends, seen = Ends(), []

    def main(infile: Any, outfile: Any) -> None:
        seen.extend([infile.read(4), worker_socket.taken(), worker_socket.taken()])

    ends.spark.sendall(b"word")
    worker_socket.hand_over_to(main)(ends.infile, ends.outfile)
    assert seen[0] == b"word"
    assert isinstance(seen[1], WorkerSocket)
    assert seen[2] is None
    seen[1].close()
    ends.close()


def test_a_task_that_is_over_can_be_woken(ends: Ends) -> None:
    ends.mailbox.close()
    ends.mailbox.wake()
