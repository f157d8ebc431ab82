"""Control connections over real sockets: authentication, order, back pressure, and how they end."""

from __future__ import annotations

import pickle
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from firesteel.control.certificates import make_certificates
from firesteel.control.channel import AuthenticationError, connect_channel
from firesteel.control.collect_protocol import open_collector
from firesteel.control.protocol import (
    CollectHello,
    Hello,
    TaskConnection,
    TaskHello,
    connect,
    decode,
    encode,
    open_channel,
    outward_address,
)
from firesteel.control.server import CollectorLostError, ControlServer
from firesteel.plan.executor import Listening
from firesteel.plan.messages import (
    CancelTask,
    MasterMessage,
    TaskFinished,
    TaskId,
    TaskMessage,
    TaskReport,
    TextOutput,
)
from firesteel.plan.results import (
    WINDOW_BLOBS,
    Covered,
    Results,
    decode_frame,
    encode_received,
    encode_results,
)
from firesteel.plan.tls_identity import TlsIdentity

TIMEOUT = 300.0  # for what will never happen: machines may be slow
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

    def receive_collection(
        self, hello: CollectHello, frames: Iterator[bytes], answer: Callable[[bytes], None]
    ) -> None:
        received = hello.start
        try:
            for frame in frames:
                self.may_read.wait(TIMEOUT)
                message = decode_frame(frame)
                self.events.put(message)
                if isinstance(message, Results):
                    received += message.count
                    answer(encode_received(received))
        except CollectorLostError:
            self.events.put("lost")
        else:
            self.events.put("ended")

    def connection_failed(self, hello: Hello, error: Exception) -> None:
        self.events.put(error)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def identity() -> TlsIdentity:
    made = make_certificates([], 2, "a password")
    return TlsIdentity(made.authority, made.certificate, made.key)


@pytest.fixture(params=["plain", "encrypted"])
def server(
    recorder: Recorder, identity: TlsIdentity, request: pytest.FixtureRequest
) -> Iterator[ControlServer]:
    server = ControlServer(Listening(tls=identity if request.param == "encrypted" else None), recorder)
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
    connection.send(TaskReport((), counts))
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
    with pytest.raises(AuthenticationError):
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
    sent = [Results(number, b"%d" % number) for number in range(100)]
    for results in sent:
        collector.send(results)
    collector.covered(17)
    collector.close()
    assert [recorder.next() for _ in range(102)] == [*sent, Covered(17), "ended"]
    assert collector.unconfirmed() == (sum(range(100)), [])


def test_collector_waits_for_its_consumer(server: ControlServer, recorder: Recorder) -> None:
    recorder.may_read.clear()
    collector = open_collector(server.endpoint, COLLECT)
    closed = threading.Event()

    def collect() -> None:
        collector.send(Results(1, b"x"))
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
    channel.send(encode_results(Results(1, b"x")))
    channel.close()
    assert [recorder.next(), recorder.next()] == [Results(1, b"x"), "lost"]


def test_collector_keeps_what_is_not_confirmed_and_no_more_than_its_window(
    server: ControlServer, recorder: Recorder
) -> None:
    recorder.may_read.clear()
    collector = open_collector(server.endpoint, CollectHello("job", 1, "c", start=10))
    sent = [Results(1, b"x") for _ in range(WINDOW_BLOBS)]
    for results in sent:
        collector.send(results)
    assert collector.unconfirmed() == (10, sent)
    more = threading.Thread(target=collector.send, args=(Results(1, b"y"),))
    more.start()
    more.join(0.05)
    assert more.is_alive()
    recorder.may_read.set()
    more.join(TIMEOUT)
    assert not more.is_alive()
    collector.close()
    assert collector.unconfirmed() == (10 + WINDOW_BLOBS + 1, [])


def test_collector_whose_driver_is_gone_fails(server: ControlServer) -> None:
    collector = open_collector(server.endpoint, COLLECT)
    server.close()

    def send_too_much() -> None:
        for _ in range(WINDOW_BLOBS + 1):
            collector.send(Results(1, b"x"))

    with pytest.raises(OSError):  # noqa: PT011 - by sending, or by waiting for room
        send_too_much()
    collector.close()


def test_server_leaves_no_thread_behind(recorder: Recorder) -> None:
    before = set(threading.enumerate())
    server = ControlServer(Listening(), recorder)
    lost = threading.Event()
    connection = connect(server.endpoint, TASK, print, lost.set)
    recorder.next()
    server.close()
    assert lost.wait(TIMEOUT)
    connection.close()
    assert {thread for thread in threading.enumerate() if thread.is_alive()} <= before


def test_all_tasks_of_a_large_job_may_come_at_once(recorder: Recorder) -> None:
    server = ControlServer(Listening(), recorder, tasks=300)
    address = ("127.0.0.1", server.endpoint.port)
    waiting = [
        socket.create_connection(address) for _ in range(300)
    ]  # all are there, none has introduced itself yet
    channels = [connect_channel(sock, server.endpoint.secret) for sock in waiting]
    for channel in channels:
        channel.send(encode(TASK))
    assert {recorder.next()[0] for _ in channels} == {"connected"}
    server.close()
    for channel in channels:
        channel.close()


def test_values_of_classes_that_cannot_be_imported_travel() -> None:
    class Local:
        def __init__(self) -> None:
            self.value = 7

    report = decode(encode(TaskReport((), {"x": Local()})))
    assert type(report.accumulators["x"]) is Local, "in the process that made the class it is the same class"


def test_endpoint_does_not_show_its_secret(server: ControlServer) -> None:
    assert "secret" not in repr(server.endpoint)


def test_outward_address_is_an_address() -> None:
    assert len(outward_address().split(".")) == 4
