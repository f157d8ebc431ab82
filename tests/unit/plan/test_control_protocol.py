"""Control connections over real sockets: authentication, order, back pressure, and how they end."""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import AuthenticationError
from typing import Any

import pytest

from firesteel.jobmaster.control_server import CollectorLostError, ControlServer
from firesteel.plan.control_protocol import (
    CollectHello,
    Hello,
    TaskConnection,
    TaskHello,
    connect,
    decode,
    encode,
    open_channel,
    open_collector,
    outward_address,
)
from firesteel.plan.messages import (
    CancelTask,
    MasterMessage,
    TaskFinished,
    TaskId,
    TaskMessage,
    TaskReport,
    TextOutput,
)

TIMEOUT = 10.0
TASK = TaskHello("job", 1, TaskId(0, 0))
COLLECT = CollectHello("job", 1, "c")


class Recorder:
    """A handler that writes down what happens, and waits before each message when told to."""

    def __init__(self) -> None:
        self.events: queue.Queue[Any] = queue.Queue()
        self.may_read = threading.Event()
        self.may_read.set()

    def next(self) -> Any:
        return self.events.get(timeout=TIMEOUT)

    def accepts(self, hello: Hello) -> bool:
        return hello.attempt == 1

    def task_connected(
        self, hello: TaskHello, connection: int, send: Callable[[MasterMessage], None]
    ) -> None:
        self.events.put(("connected", hello.task, send))

    def task_said(self, hello: TaskHello, connection: int, message: TaskMessage) -> None:
        self.may_read.wait(TIMEOUT)
        self.events.put(message)

    def task_disconnected(self, hello: TaskHello, connection: int) -> None:
        self.events.put("disconnected")

    def take_collection(self, hello: CollectHello, blobs: Iterator[bytes]) -> None:
        try:
            for blob in blobs:
                self.may_read.wait(TIMEOUT)
                self.events.put(blob)
        except CollectorLostError:
            self.events.put("lost")
        else:
            self.events.put("ended")

    def connection_failed(self, hello: Hello, error: Exception) -> None:
        self.events.put(error)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def server(recorder: Recorder) -> Iterator[ControlServer]:
    server = ControlServer("127.0.0.1", recorder)
    yield server
    recorder.may_read.set()
    server.close()


def never() -> None:
    raise AssertionError("the master is not lost")


def connected(server: ControlServer, on_message: Callable[[Any], None] = print) -> TaskConnection:
    return connect(server.endpoint, TASK, on_message, never)


def test_messages_arrive_in_order_and_close_waits_until_they_are_handled(
    server: ControlServer, recorder: Recorder
) -> None:
    connection = connected(server)
    for number in range(2_000):
        connection.send(TextOutput(f"{number}\n"))
    connection.send(TaskFinished())
    connection.close()
    events = list(recorder.events.queue)
    assert events[0][:2] == ("connected", TaskId(0, 0))
    assert [event.text for event in events[1:-2]] == [f"{number}\n" for number in range(2_000)]
    assert events[-2:] == [TaskFinished(), "disconnected"]


def test_master_reaches_the_task(server: ControlServer, recorder: Recorder) -> None:
    received: queue.Queue[Any] = queue.Queue()
    connection = connected(server, received.put)
    _, _, send = recorder.next()
    send(CancelTask())
    assert received.get(timeout=TIMEOUT) == CancelTask()
    connection.close()


def test_task_that_says_more_than_the_master_takes_has_to_wait(
    server: ControlServer, recorder: Recorder
) -> None:
    recorder.may_read.clear()
    connection = connected(server)
    sent = threading.Event()

    def talk() -> None:
        for _ in range(400):
            connection.send(TextOutput("x" * 100_000))  # 40 MB: more than all buffers on the way hold
        sent.set()

    thread = threading.Thread(target=talk)
    thread.start()
    assert not sent.wait(0.2)
    recorder.may_read.set()
    assert sent.wait(TIMEOUT)
    thread.join()
    connection.close()


def test_messages_show_their_state_at_the_time_of_sending(server: ControlServer, recorder: Recorder) -> None:
    connection = connected(server)
    counts = {"words": 1}
    connection.send(TaskReport((), counts, {}))
    counts["words"] = 2
    connection.close()
    recorder.next()
    assert recorder.next().accumulators == {"words": 1}


def test_task_learns_that_the_master_is_gone(server: ControlServer, recorder: Recorder) -> None:
    lost = threading.Event()
    connection = connect(server.endpoint, TASK, print, lost.set)
    recorder.next()
    server.close()
    assert lost.wait(TIMEOUT)
    for _ in range(1_000):
        connection.send(TaskFinished())  # goes nowhere, blocks nobody
    connection.close()
    connection.close()


def test_master_learns_that_a_task_is_gone(server: ControlServer, recorder: Recorder) -> None:
    channel = open_channel(server.endpoint, TASK)
    recorder.next()
    channel.close()
    assert recorder.next() == "disconnected"


class Bomb:
    """Says so when it is unpickled."""

    exploded = False

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    Bomb.exploded = True


def test_nothing_is_unpickled_from_a_peer_without_the_secret(server: ControlServer) -> None:
    stranger = replace(server.endpoint, secret=b"guess")
    bomb: Any = Bomb()
    with pytest.raises((AuthenticationError, EOFError, OSError)):
        open_channel(stranger, bomb)
    assert not Bomb.exploded


def test_connection_of_another_attempt_is_refused(server: ControlServer, recorder: Recorder) -> None:
    lost = threading.Event()
    connection = connect(server.endpoint, replace(TASK, attempt=2), print, lost.set)
    assert lost.wait(TIMEOUT)
    connection.close()
    assert recorder.events.empty()


def test_message_that_cannot_be_read_is_reported(server: ControlServer, recorder: Recorder) -> None:
    channel = open_channel(server.endpoint, TASK)
    recorder.next()
    channel.send(b"not a pickle")
    assert recorder.next() == "disconnected"
    assert isinstance(recorder.next(), pickle.UnpicklingError)
    channel.close()


def test_collector_delivers_everything_before_close_returns(
    server: ControlServer, recorder: Recorder
) -> None:
    collector = open_collector(server.endpoint, COLLECT)
    for number in range(100):
        collector(b"%d" % number)
    collector.close()
    assert [recorder.next() for _ in range(101)] == [b"%d" % number for number in range(100)] + ["ended"]


def test_collector_waits_for_its_consumer(server: ControlServer, recorder: Recorder) -> None:
    recorder.may_read.clear()
    collector = open_collector(server.endpoint, COLLECT)
    closed = threading.Event()

    def collect() -> None:
        collector(b"x")
        collector.close()
        closed.set()

    thread = threading.Thread(target=collect)
    thread.start()
    assert not closed.wait(0.1)
    recorder.may_read.set()
    assert closed.wait(TIMEOUT)
    thread.join()


def test_broken_collector_is_told_from_an_ended_one(server: ControlServer, recorder: Recorder) -> None:
    channel = open_channel(server.endpoint, COLLECT)
    channel.send(b"x")
    channel.close()
    assert [recorder.next(), recorder.next()] == [b"x", "lost"]


def test_server_leaves_no_thread_behind(recorder: Recorder) -> None:
    before = set(threading.enumerate())
    server = ControlServer("127.0.0.1", recorder)
    lost = threading.Event()
    connection = connect(server.endpoint, TASK, print, lost.set)
    recorder.next()
    server.close()
    assert lost.wait(TIMEOUT)
    connection.close()
    assert {thread for thread in threading.enumerate() if thread.is_alive()} <= before


def test_values_of_classes_that_cannot_be_imported_travel() -> None:
    class Local:
        def __init__(self) -> None:
            self.value = 7

    report = decode(encode(TaskReport((), {"x": Local()}, {})))
    assert type(report.accumulators["x"]) is Local, "in the process that made the class it is the same class"


def test_endpoint_does_not_show_its_secret(server: ControlServer) -> None:
    assert "secret" not in repr(server.endpoint)


def test_outward_address_is_an_address() -> None:
    assert len(outward_address().split(".")) == 4
