"""A check that a sink keeps its promise through checkpoints, crashes, zombies and changes of parallelism."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from firesteel.common.errors import short_repr
from firesteel.contracts.sink import Sink, SinkFunction
from firesteel.contracts.write_ahead import GenericWriteAheadSink
from firesteel.datastream.connectors.base import DeliveryGuarantee
from firesteel.plan.state_handles import CheckpointKind
from firesteel.testing.checkpoint_harness import CheckpointHarness, OperatorCheckpoint
from firesteel.testing.manual_clock import ManualClock

__all__ = ["check_sink"]

_ACTIONS = 16
#: Numbers of records that only zombies write.
_PHANTOMS = 1_000_000


def check_sink(
    make_sink: Callable[[], Sink | SinkFunction | GenericWriteAheadSink],
    read_back: Callable[[], Iterable[Any]],
    *,
    guarantee: DeliveryGuarantee,
    record: Callable[[int], Any] = int,
    idempotent: bool = False,
    max_parallelism: int = 3,
    seeds: Iterable[int] = range(20),
) -> None:
    """Write through checkpoints, crashes and changes of parallelism; an AssertionError says what the sink broke.

    Every seed is a history of its own: ``make_sink`` is called once for each and has the other system emptied.
    ``read_back`` gives all records that can be seen there now. Records are ``record(0)``, ``record(1)`` and so on, numbers
    unless one says otherwise; they must all differ. In the end each of them can be seen: once with `EXACTLY_ONCE`, and at any
    moment no record twice and none that no completed checkpoint has; at least once with `AT_LEAST_ONCE`, and once if
    ``idempotent``, for sinks that replace what they have written before.

    >>> from firesteel.testing import CollectSink
    >>> sink = CollectSink()
    >>> check_sink(lambda: sink, lambda: sink.values, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, seeds=[1])
    """
    for seed in seeds:
        run = _Run(
            make_sink(), read_back, guarantee, record, idempotent, random.Random(seed), max_parallelism
        )
        try:
            run.play()
        except BaseException as error:
            error.add_note(f"seed {seed}: {', '.join(run.done)}")
            raise
        finally:
            run.close()


class _Checkpoint(NamedTuple):
    id: int
    saved: OperatorCheckpoint
    position: int


class _Run:
    """One history: a sink, the attempts that write, and a source of numbers as a position."""

    def __init__(
        self,
        sink: Any,
        read_back: Callable[[], Iterable[Any]],
        guarantee: DeliveryGuarantee,
        record: Callable[[int], Any],
        idempotent: bool,
        rng: random.Random,
        most: int,
    ) -> None:
        self._sink = sink
        self._read_back = read_back
        self._exactly_once = guarantee is DeliveryGuarantee.EXACTLY_ONCE
        self._keeps = guarantee is not DeliveryGuarantee.NONE
        self._unique = self._exactly_once or idempotent
        self._record = record
        self._rng = rng
        self._most = most
        self._clock = ManualClock()
        self._newest: _Checkpoint | None = None
        self._late: list[int] = []
        self._next_id = 1
        self._attempts = 0
        self._position = 0
        self._highest = 0
        self._phantoms = _PHANTOMS
        self.done: list[str] = []
        self._open: list[CheckpointHarness] = []
        self._attempt = self._begin()

    def _begin(self) -> CheckpointHarness:
        self._attempts += 1
        parallelism = self._rng.randint(1, self._most)
        newest = self._newest
        start = "" if newest is None else f" from checkpoint {newest.id}"
        self.done.append(f"start with parallelism {parallelism}{start}")
        saved = None if newest is None else newest.saved
        harness = CheckpointHarness(
            self._sink, parallelism, restore=saved, clock=self._clock, attempt=self._attempts
        )
        self._open.append(harness)
        return harness

    def play(self) -> None:
        for _ in range(_ACTIONS):
            match self._rng.choice(("write", "write", "checkpoint", "checkpoint", "time", "crash")):
                case "write":
                    self._write(self._rng.randint(1, 9))
                case "checkpoint":
                    self._checkpoint()
                case "time":
                    self._let_time_pass()
                case "crash":
                    self._crash()
            self._check_seen(f"after: {self.done[-1]}")
        self._write(3)
        self._finish()
        self._check_seen("at the end")
        self._check_nothing_lost(self._position, "at the end")

    # What happens -----------------------------------------------------------------------------------------

    def _write(self, count: int) -> None:
        self.done.append(f"write {self._position} to {self._position + count - 1}")
        subtasks = list(self._attempt)
        for _ in range(count):
            subtasks[self._position % len(subtasks)].process([self._record(self._position)])
            self._position += 1
        self._highest = max(self._highest, self._position)

    def _let_time_pass(self) -> None:
        self.done.append("let a minute pass")
        for subtask in self._attempt:
            subtask.advance(60.0)

    def _checkpoint(self) -> None:
        number, self._next_id = self._next_id, self._next_id + 1
        saved = self._attempt.checkpoint(number)
        outcome = self._rng.choice(("complete", "complete", "complete late", "complete unheard", "aborted"))
        self.done.append(f"checkpoint {number} {outcome}")
        if outcome == "aborted":
            self._attempt.abort(number)
            return
        self._newest = _Checkpoint(number, saved, self._position)
        if outcome == "complete late":
            self._late.append(number)
        if outcome == "complete":
            for late in [*self._late, number]:
                self._attempt.complete(late)
            self._late.clear()
            self._check_flushed(f"after checkpoint {number} was complete")

    def _crash(self) -> None:
        """The attempt ends, or continues for a while beside the one that replaces it."""
        old, self._late = self._attempt, []
        is_zombie = self._rng.random() < 0.5
        self.done.append("crash, with a zombie that writes and commits" if is_zombie else "crash")
        if not is_zombie:
            self._close(old)
        self._position = 0 if self._newest is None else self._newest.position
        self._attempt = self._begin()
        self._check_flushed("after the restore")
        if is_zombie:
            self._haunt(old)
            self._close(old)

    def _haunt(self, zombie: CheckpointHarness) -> None:
        """It does not know that it has been replaced: it writes, and hears of a checkpoint that is complete."""
        for subtask in zombie:
            with contextlib.suppress(Exception):  # it may be shut out
                subtask.process([self._record(number) for number in self._zombie_numbers()])
        if self._newest is not None:
            with contextlib.suppress(Exception):
                zombie.complete(self._newest.id)

    def _zombie_numbers(self) -> list[int]:
        """Records that no checkpoint will ever have; for sinks that may write twice, those that come again anyway."""
        if not self._exactly_once:
            return list(range(self._position, self._highest))
        self._phantoms += 2
        return [self._phantoms - 2, self._phantoms - 1]

    def _finish(self) -> None:
        self.done.append("end of the input, last checkpoint")
        self._attempt.finish()
        self._attempt.checkpoint(self._next_id, CheckpointKind.FINAL)
        self._attempt.complete(self._next_id)
        self._newest = None  # all of it is to be seen now
        self._close(self._attempt)

    def _close(self, attempt: CheckpointHarness) -> None:
        self._open.remove(attempt)
        with contextlib.suppress(Exception):  # as in a job: closing a failed attempt changes nothing
            attempt.close()

    def close(self) -> None:
        for attempt in list(self._open):
            self._close(attempt)

    # What must hold ---------------------------------------------------------------------------------------

    def _check_seen(self, when: str) -> None:
        """Nothing is seen that must not be, at this moment."""
        seen = list(self._read_back())
        if self._exactly_once:
            self._check_phantoms(seen, when)
            self._check_not_too_early(seen, when)
        if self._unique:
            self._check_doubles(seen, when)

    def _check_phantoms(self, seen: list[Any], when: str) -> None:
        for number in range(_PHANTOMS, self._phantoms):
            assert self._record(number) not in seen, (
                f"a zombie's write can be seen: {short_repr(self._record(number))} was written by an attempt that had been "
                f"replaced, in no checkpoint that was completed ({when})"
            )

    def _check_not_too_early(self, seen: list[Any], when: str) -> None:
        if self._newest is None and self.done[-1].startswith("end"):
            return
        complete = 0 if self._newest is None else self._newest.position
        for number in range(complete, self._highest):
            assert self._record(number) not in seen, (
                f"seen too early: {short_repr(self._record(number))} can be seen, and no completed checkpoint has it; it "
                f"would be seen twice after a crash ({when})"
            )

    def _check_doubles(self, seen: list[Any], when: str) -> None:
        for number in range(self._highest):
            record = self._record(number)
            times = seen.count(record)
            assert times < 2, (
                f"doubled: {short_repr(record)} can be seen {times} times: a commit that came again, from a restored "
                f"checkpoint or a zombie, must do what it did the first time ({when})"
            )

    def _check_flushed(self, when: str) -> None:
        """What is before a completed checkpoint can be seen, unless the sink may keep it in its own state."""
        if not self._exactly_once:
            self._check_nothing_lost(self._position, when)

    def _check_nothing_lost(self, position: int, when: str) -> None:
        """Everything before the position can be seen."""
        if not self._keeps:
            return
        seen = list(self._read_back())
        lost = [number for number in range(position) if self._record(number) not in seen]
        assert not lost, (
            f"lost: {len(lost)} of {position} records cannot be seen, such as {short_repr(self._record(lost[0]))}: not flushed "
            f"before the checkpoint, not handed over to it, or not committed when it was complete ({when})"
        )
