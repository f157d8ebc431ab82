"""The event loop of a task: in simulated time, and in a thread of its own."""

from __future__ import annotations

import asyncio
import math
import socket
import threading

import pytest

from firesteel.runtime.call_loop import SteppedLoop, ThreadedLoop
from firesteel.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def loop(clock: ManualClock):
    stepped = SteppedLoop(clock.now)
    stepped.acquire()
    yield stepped
    stepped.release()


def start(loop, coroutine, done):
    async def run():
        done.append(await coroutine)

    loop.call(lambda: done.append(asyncio.get_running_loop().create_task(run())))


def results(done):
    return [each for each in done if not isinstance(each, asyncio.Task)]


async def sleep(seconds, result):
    await asyncio.sleep(seconds)
    return result


def test_sleeping_takes_simulated_time(loop, clock):
    done: list[object] = []
    for seconds in (3600, 60):
        start(loop, sleep(seconds, seconds), done)
    assert loop.next_deadline() <= clock.now()  # there is something to run
    loop.poll()
    assert loop.next_deadline() == pytest.approx(clock.now() + 60)
    clock.advance_to(loop.next_deadline())
    loop.poll()
    assert results(done) == [60]
    clock.advance_to(loop.next_deadline())
    loop.poll()
    assert results(done) == [60, 3600]


def test_deadlines_that_were_cancelled_do_not_count(loop, clock):
    async def in_time():
        async with asyncio.timeout(10):
            return await sleep(1, "in time")

    done: list[object] = []
    start(loop, in_time(), done)
    loop.poll()
    clock.advance(1.0)
    loop.poll()
    assert results(done) == ["in time"]
    start(loop, sleep(100, "later"), done)
    loop.poll()
    assert loop.next_deadline() == pytest.approx(clock.now() + 100)


def test_a_thread_is_waited_for(loop, clock):
    go_on = threading.Event()
    done: list[object] = []
    start(loop, asyncio.to_thread(lambda: go_on.wait() and "from a thread"), done)
    loop.poll()
    assert results(done) == []
    assert loop.next_deadline() < math.inf  # to be looked at again soon, though nothing is scheduled
    go_on.set()
    while not results(done):
        loop.poll()
    assert results(done) == ["from a thread"]


def test_a_socket_is_waited_for(loop):
    async def receive():
        return await asyncio.get_running_loop().sock_recv(ours, 100)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        done: list[object] = []
        start(loop, receive(), done)
        loop.poll()
        assert loop.next_deadline() < math.inf
        theirs.sendall(b"hello")
        while not results(done):
            loop.poll()
        assert results(done) == [b"hello"]


@pytest.mark.parametrize("threaded", [True, False])
def test_calls_that_are_under_way_are_cancelled_at_the_end(threaded, clock):
    loop = ThreadedLoop() if threaded else SteppedLoop(clock.now)
    loop.acquire()
    begun, cancelled = threading.Event(), threading.Event()

    async def waits():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    tasks: list[object] = []
    loop.call(lambda: tasks.append(asyncio.get_running_loop().create_task(waits())))
    while not begun.is_set():
        loop.poll()
    loop.release()
    assert cancelled.is_set()


def test_operators_share_a_thread_until_the_last_one_is_closed():
    def named():
        return [thread for thread in threading.enumerate() if thread.name == "firesteel-calls"]

    before = len(named())
    loop = ThreadedLoop()
    loop.acquire()
    loop.acquire()
    assert len(named()) == before + 1
    loop.release()
    assert len(named()) == before + 1
    loop.release()
    assert len(named()) == before
