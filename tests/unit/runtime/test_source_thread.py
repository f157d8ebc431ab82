"""A blocking `SourceFunction` beside the task: nothing lost, no wake-up missed, always ended."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import pytest

from firesteel.common.watermark_strategy import Watermark
from firesteel.contracts.source import Polled, SourceFunction, SourceReaderContext
from firesteel.runtime import source_thread
from firesteel.runtime.source_thread import SourceFunctionReader

Body = Callable[[SourceFunction.SourceContext], None]


class Scripted(SourceFunction):
    def __init__(self, body: Body) -> None:
        self._body = body
        self.cancelled = threading.Event()

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        self._body(ctx)

    def cancel(self) -> None:
        self.cancelled.set()


class Driver:
    """Polls a reader as a task does, waiting for wake-ups and never sleeping."""

    def __init__(self, body: Body) -> None:
        self.woken = threading.Event()
        self.function = Scripted(body)
        self.reader = SourceFunctionReader(
            self.function, SourceReaderContext(0, 1, lambda: 0.0, self.woken.set)
        )
        self.reader.open()

    def poll(self, limit: int = 1000) -> Polled:
        """The next poll that gives something, or the end."""
        while True:
            self.woken.clear()
            polled = self.reader.poll(limit)
            if polled.values or polled.ended or polled.watermark is not None or polled.idle:
                return polled
            if polled.retry_at == math.inf:
                assert self.woken.wait(300), "the reader waits for a wake-up that does not come"

    def drain(self) -> list[Polled]:
        found = []
        while not (polled := self.poll()).ended:
            found.append(polled)
        return found


def test_everything_collected_arrives_in_order_before_the_end() -> None:
    def body(ctx: SourceFunction.SourceContext) -> None:
        for number in range(20_000):
            ctx.collect(number)

    values = [value for polled in Driver(body).drain() for value in polled.values]
    assert values == list(range(20_000))


def test_timestamps_and_signals_keep_their_places() -> None:
    def body(ctx: SourceFunction.SourceContext) -> None:
        ctx.collect("a")
        ctx.collect_with_timestamp("b", 5)
        ctx.emit_watermark(5)
        ctx.mark_as_temporarily_idle()
        ctx.collect("c")
        ctx.emit_watermark(Watermark(6))

    driver = Driver(body)
    seen = []
    while not (polled := driver.poll()).ended:
        stamps = polled.timestamps or [None] * len(polled.values)
        seen += list(zip(polled.values, stamps, strict=True))
        seen += [("watermark", polled.watermark)] if polled.watermark is not None else []
        seen += [("idle", None)] if polled.idle else []
    assert seen == [("a", None), ("b", 5), ("watermark", 5), ("idle", None), ("c", None), ("watermark", 6)]


def test_a_poll_takes_no_more_than_its_limit() -> None:
    go = threading.Event()

    def body(ctx: SourceFunction.SourceContext) -> None:
        for number in range(10):
            ctx.collect(number)
        go.set()

    driver = Driver(body)
    go.wait(300)
    assert driver.poll(4).values == [0, 1, 2, 3]
    assert driver.poll(100).values == [4, 5, 6, 7, 8, 9]


def test_a_sleeping_consumer_is_woken_by_the_next_record_and_by_the_end() -> None:
    steps = [threading.Event() for _ in range(3)]

    def body(ctx: SourceFunction.SourceContext) -> None:
        for number, step in enumerate(steps):
            step.wait(300)
            ctx.collect(number)

    driver = Driver(body)
    for number, step in enumerate(steps):
        assert driver.reader.poll(10).values == []
        threading.Timer(0.01, step.set).start()
        assert driver.poll().values == [number]
    assert driver.poll().ended


def test_a_fast_source_waits_for_a_slow_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_thread, "_FIRST_CAPACITY", 10)
    monkeypatch.setattr(source_thread, "_POLLS_AHEAD", 1)
    collected = []

    def body(ctx: SourceFunction.SourceContext) -> None:
        for number in range(1000):
            ctx.collect(number)
            collected.append(number)

    driver = Driver(body)
    values = []
    while not (polled := driver.poll(7)).ended:
        values += polled.values
        assert len(collected) <= len(values) + 11
    assert values == list(range(1000))


def test_an_error_in_run_surfaces_after_what_was_collected() -> None:
    def body(ctx: SourceFunction.SourceContext) -> None:
        ctx.collect(1)
        raise OSError("the socket is gone")

    driver = Driver(body)
    assert driver.poll().values == [1]
    with pytest.raises(OSError, match="the socket is gone"):
        driver.poll()


def test_stop_lets_run_finish_and_keeps_what_it_collects() -> None:
    def body(ctx: SourceFunction.SourceContext) -> None:
        driver_ready.wait(300)
        driver.function.cancelled.wait(300)
        assert not ctx.is_running()
        ctx.collect("last words")

    driver_ready = threading.Event()
    driver = Driver(body)
    driver_ready.set()
    driver.reader.stop()
    assert driver.poll().values == ["last words"]
    assert driver.poll().ended


def test_close_ends_a_run_that_goes_on_collecting() -> None:
    ended = threading.Event()

    def body(ctx: SourceFunction.SourceContext) -> None:
        try:
            while True:
                ctx.collect(1)
        finally:
            ended.set()

    driver = Driver(body)
    driver.poll()
    driver.reader.close()
    assert ended.wait(300)


def test_close_ends_a_run_that_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_thread, "_FIRST_CAPACITY", 2)
    ended = threading.Event()

    def body(ctx: SourceFunction.SourceContext) -> None:
        try:
            while True:
                ctx.collect(1)
        finally:
            ended.set()

    driver = Driver(body)
    driver.reader.close()
    assert ended.wait(300)
