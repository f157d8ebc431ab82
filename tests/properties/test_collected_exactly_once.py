"""The way of results from a sink to the driver, cut at any moment: every result is shown once, and in order.

Sink and driver are the real ones; the wire between them is two queues, of which any part gets lost with a crash. What
is made again after a crash differs from what was made before: only what a checkpoint held must be the same.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, cast

import pytest

from firesteel.jobmaster.collect_buffer import CollectBuffer, CollectSession, Delivery
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.plan.results import (
    ResultOutput,
    Results,
    ResultSender,
    decode_frame,
    decode_received,
    encode_received,
)
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.operator import OperatorContext
from firesteel.runtime.operators.collect import CollectOperator
from firesteel.state.operator_state import OperatorStateBackend

RESULTS = 60

Result = tuple[int, int]  # its number, and the attempt that made it


@dataclass(frozen=True)
class Checkpoint:
    """``made``: all results of the history that it belongs to."""

    id: int
    sink: list[bytes]
    made: list[Result]


class Wire:
    """Frames both ways; also the services and the runtime context of the sink."""

    def __init__(self, buffer: CollectBuffer, attempt: int) -> None:
        self._buffer = buffer
        self.attempt = attempt
        self.to_driver: deque[bytes] = deque()
        self.to_sink: deque[bytes] = deque()
        self.sender: ResultSender
        self.start = self.origin = 0
        self.session: CollectSession | None = None

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> ResultOutput:
        self.sender = ResultSender(start, self.to_driver.append)
        self.start, self.origin = start, origin
        return cast(ResultOutput, self.sender)

    def get_index_of_this_subtask(self) -> int:
        return 0

    def deliver_to_driver(self) -> None:
        if self.session is None:  # the hello arrives when it arrives
            self.session = self._buffer.open(0, self.start, self.attempt, self.origin)
        else:
            message = decode_frame(self.to_driver.popleft())
            self.session.receive(message)
            if isinstance(message, Results):
                self.to_sink.append(encode_received(self.session.received))

    def deliver_to_sink(self) -> None:
        self.sender.received(decode_received(self.to_sink.popleft()))


class Job:
    """A source that counts, a sink, a master, a driver: whatever ``draw`` wants happens next."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._buffer = CollectBuffer(
            Delivery.WITH_CHECKPOINTS, capacity=10**9, in_memory=self._draw.choice((0, 10**6))
        )
        self._records = self._buffer.records()
        self._complete: Checkpoint | None = None
        self._pending: list[Checkpoint] = []
        self._late: Checkpoint | None = None  # aborted, and yet it may become complete
        self._checkpoints = 0
        self._attempt = 0
        self.happened: Counter[str] = Counter()
        self._start()

    def _start(self) -> None:
        self._attempt += 1
        self._wire = Wire(self._buffer, self._attempt)
        self._states = OperatorStateBackend()
        self._made: list[Result] = []
        if self._complete is not None:
            self._made = list(self._complete.made)
            self._states.restore([self._complete.sink], 0, 1)
        self._sink = CollectOperator("c")
        wire = cast(Any, self._wire)
        self._sink.open(
            OperatorContext(
                wire,
                wire,
                wire,
                RuntimeMode.STREAMING,
                operator_state=self._states,
                restored_checkpoint_id=None if self._complete is None else self._complete.id,
                checkpointing=True,
            )
        )

    def run(self) -> tuple[list[Result], list[Result]]:
        """What was shown, and what was to be shown."""
        ways = [
            self._emit,
            self._deliver,
            self._confirm,
            self._snapshot,
            self._publish,
            self._notify,
            self._crash,
        ]
        weights = [6, self._draw.choice((1, 6, 20)), self._draw.choice((1, 6, 20)), 2, 2, 2, 0.3]
        while len(self._made) < RESULTS or self._draw.random() < 0.9:
            (way,) = self._draw.choices(ways, weights)
            way()
        self._end()
        self._buffer.end(None)
        return list(self._records), self._made

    def _emit(self) -> None:
        if self._wire.sender.has_room and len(self._made) < RESULTS:
            first = len(self._made)
            values = [(first + n, self._attempt) for n in range(self._draw.randint(1, 4))]
            self._sink.process(values, None)
            self._made += values

    def _deliver(self) -> None:
        if self._wire.session is None or self._wire.to_driver:
            self._wire.deliver_to_driver()

    def _confirm(self) -> None:
        if self._wire.to_sink:
            self._wire.deliver_to_sink()
            self.happened["confirmed"] += 1

    def _snapshot(self) -> None:
        self._checkpoints += 1
        self._sink.snapshot(CheckpointOrder(self._checkpoints, 0))
        checkpoint = Checkpoint(self._checkpoints, list(self._states.snapshot()), list(self._made))
        self._pending.append(checkpoint)
        if self._wire.sender.unconfirmed()[1]:
            self.happened["on the way at a checkpoint"] += 1

    def _publish(self) -> None:
        if self._pending:
            self._complete = self._pending.pop(0)

    def _notify(self) -> None:
        if self._complete is not None:
            self._sink.notify_complete(self._complete.id)

    def _crash(self) -> None:
        if self._wire.to_driver or self._wire.to_sink:
            self.happened["lost on the way"] += 1
        for _ in range(self._draw.randint(0, 2)):  # a checkpoint may become complete behind the failure
            self._publish()
        late, self._late = self._late, self._pending[-1] if self._pending else None
        if late is not None and (self._complete is None or late.id > self._complete.id):  # or behind the next
            self._complete = late
            self.happened["late"] += 1
        self._pending.clear()
        self.happened["crash"] += 1
        self._start()

    def _end(self) -> None:
        self._snapshot()
        while self._pending:
            self._publish()
        self._notify()
        while self._wire.to_driver or self._wire.session is None:
            self._wire.deliver_to_driver()
        assert self._wire.session is not None
        self._wire.session.end()


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_every_result_is_shown_once_whatever_gets_lost(first: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(first, first + 100):
        job = Job(seed)
        shown, expected = job.run()
        assert shown == expected, f"seed {seed}"
        happened += job.happened
    often = ("crash", "lost on the way", "on the way at a checkpoint", "confirmed")
    assert min(happened[what] for what in often) > 50
    assert happened["late"]


@pytest.mark.parametrize("fault", ["forgets", "shows at once", "repeats"])
def test_faults_would_be_noticed(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    match fault:
        case "forgets":  # what is on its way at a checkpoint
            whole = ResultSender.unconfirmed
            monkeypatch.setattr(
                ResultSender,
                "unconfirmed",
                lambda self: (whole(self)[0] + sum(r.count for r in whole(self)[1]), []),
            )
        case "shows at once":  # what no checkpoint holds
            monkeypatch.setattr(Job, "_snapshot", shows_at_once(Job._snapshot))
        case _:  # what was shown
            monkeypatch.setattr(CollectBuffer, "_show", repeats)
    with pytest.raises(Exception, match=r"seed|never arrived"):
        test_every_result_is_shown_once_whatever_gets_lost(0)


def shows_at_once(snapshot: Any) -> Any:
    def changed(job: Job) -> None:
        snapshot(job)
        job._sink.notify_complete(job._checkpoints)

    return changed


def repeats(buffer: CollectBuffer, known: Any, piece: Any) -> None:
    known.shown = piece.end
    buffer._shown.put(piece)
