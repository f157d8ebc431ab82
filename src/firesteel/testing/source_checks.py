"""A check that a source keeps its promise through checkpoints, crashes, zombies and changes of parallelism."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from firesteel.common.errors import short_repr
from firesteel.contracts.source import Source
from firesteel.datastream.connectors.base import DeliveryGuarantee
from firesteel.testing._source_attempt import SavedSource, SourceAttempt
from firesteel.testing.manual_clock import ManualClock

__all__ = ["check_source"]

_ACTIONS = 14
_LIMITS = (1, 2, 3, 7, 1024)


def check_source(
    make_source: Callable[[], Source],
    expected: Sequence[Any],
    *,
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
    split_of: Callable[[Any], Hashable] | None = None,
    max_parallelism: int = 3,
    seeds: Iterable[int] = range(20),
    patience: float = 60.0,
) -> None:
    """Read a source through checkpoints, crashes and changes of parallelism; an AssertionError says what it broke.

    Every seed is a history of its own, with a source of its own: ``make_source`` is called once for each, and prepares the
    other system if reading changes it. ``expected`` are all records of the source. After each history every one of them has
    come once (with `AT_LEAST_ONCE`: or again after a crash), and those for which ``split_of`` gives the same in the order in
    which they are expected. ``patience``: that many seconds without a record mean that none will come.

    >>> from firesteel.datastream.connectors import NumberSequenceSource
    >>> check_source(lambda: NumberSequenceSource(1, 50), range(1, 51))
    """
    for seed in seeds:
        history = _History(list(expected), guarantee, split_of)
        run = _Run(make_source(), history, random.Random(seed), max_parallelism, patience)
        try:
            run.play()
        except BaseException as error:
            error.add_note(f"seed {seed}: {', '.join(run.done)}")
            raise
        finally:
            run.close()


class _Given(NamedTuple):
    value: Any
    attempt: int


@dataclass(slots=True)
class _History:
    """What the job has been given, without what crashes undid."""

    expected: list[Any]
    guarantee: DeliveryGuarantee
    split_of: Callable[[Any], Hashable] | None
    given: list[_Given] = field(default_factory=list)
    undone: list[_Given] = field(default_factory=list)
    last_restored: int | None = None

    def add(self, values: list[Any], attempt: int) -> None:
        """Records that were given now."""
        for value in values:
            earlier = [each for each in self.given if _same(each.value, value)]
            allowed = sum(_same(each, value) for each in self.expected)
            assert allowed, (
                f"unexpected: {short_repr(value)} was given, which is not among the expected records"
            )
            if len(earlier) >= allowed:
                self._refuse_double(value, earlier[-1].attempt, attempt)
            self.given.append(_Given(value, attempt))

    def _refuse_double(self, value: Any, before: int, attempt: int) -> None:
        assert before != attempt, f"doubled: {short_repr(value)} was given twice, without a crash in between"
        assert self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE, (
            f"doubled: {short_repr(value)} was given before checkpoint {self.last_restored}, and again after the restore "
            "from it; the position in a checkpoint has to be behind all records that polls have given"
        )

    def undo(self, length: int, checkpoint_id: int | None) -> None:
        """A crash: all that came after the checkpoint is undone."""
        self.undone += self.given[length:]
        del self.given[length:]
        self.last_restored = checkpoint_id

    def complete(self) -> bool:
        """Whether every expected record has come."""
        return not self._missing()

    def _missing(self) -> list[Any]:
        values = [each.value for each in self.given]
        return [value for value in self.expected if not _take(values, value)]

    def check_all_came(self) -> None:
        """Nothing is lost, and the order in every split is right."""
        missing = self._missing()
        assert not missing, self._loss(missing)
        if self.split_of is not None and self.guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            self._check_order(self.split_of)

    def _loss(self, missing: list[Any]) -> str:
        value = missing[0]
        what = f"lost: {len(missing)} of {len(self.expected)} records never came, such as {short_repr(value)}"
        if any(_same(each.value, value) for each in self.undone):
            return (
                f"{what}; it was given before a crash, after checkpoint {self.last_restored}, and did not come again after "
                "the restore: in the checkpoint its split is missing, or at a position ahead of what polls had given, or it "
                "was acknowledged too early"
            )
        return f"{what}; a split, or what was read ahead, did not find its way into a checkpoint"

    def _check_order(self, split_of: Callable[[Any], Hashable]) -> None:
        for split in {split_of(value) for value in self.expected}:
            wanted = [value for value in self.expected if split_of(value) == split]
            came = [each.value for each in self.given if split_of(each.value) == split]
            for first, second in zip(wanted, came, strict=True):
                assert _same(first, second), (
                    f"order: in split {split!r} {short_repr(second)} came where {short_repr(first)} was expected"
                )


def _same(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)


def _take(values: list[Any], value: Any) -> bool:
    for place, other in enumerate(values):
        if _same(other, value):
            del values[place]
            return True
    return False


class _Checkpoint(NamedTuple):
    id: int
    saved: SavedSource
    length: int


class _Run:
    """One history: a source, the attempts that read it, and what they gave."""

    def __init__(
        self, source: Source, history: _History, rng: random.Random, max_parallelism: int, patience: float
    ) -> None:
        self._source = source
        self._history = history
        self._rng = rng
        self._most = min(max_parallelism, source.max_subtasks or max_parallelism)
        self._patience = patience
        self._clock = ManualClock()
        self._newest: _Checkpoint | None = None
        self._late: list[int] = []
        self._next_id = 1
        self._attempts = 0
        self.done: list[str] = []
        self._attempt = self._begin()

    def _begin(self) -> SourceAttempt:
        self._attempts += 1
        parallelism = self._rng.randint(1, self._most)
        newest = self._newest
        start = "" if newest is None else f" from checkpoint {newest.id}"
        self.done.append(f"start with parallelism {parallelism}{start}")
        saved = None if newest is None else newest.saved
        return SourceAttempt(self._source, parallelism, self._clock, saved, self._attempts)

    def play(self) -> None:
        for _ in range(_ACTIONS):
            match self._rng.choice(("read", "read", "read", "checkpoint", "checkpoint", "crash")):
                case "read":
                    self._read()
                case "checkpoint":
                    self._checkpoint()
                case "crash":
                    self._crash()
        while not self._history.complete() and self._read():
            pass
        self._history.check_all_came()
        self._end()

    def _read(self) -> bool:
        """Some records, unless there are none; whether there were any."""
        self.done.append("read")
        while not self._history.complete() and not self._attempt.ended:
            self._attempt.look_again()
            subtasks = list(range(self._attempt.parallelism))
            self._rng.shuffle(subtasks)
            some = subtasks[: self._rng.randint(1, len(subtasks))]
            if sum(self._poll(subtask) for subtask in some) or sum(self._poll(each) for each in subtasks):
                return True
            if not self._attempt.wait(self._patience):
                break
        return False

    def _poll(self, subtask: int) -> bool:
        limit = self._rng.choice(_LIMITS)
        values = self._attempt.poll(subtask, limit)
        assert len(values) <= limit, f"a poll for at most {limit} records gave {len(values)}"
        self._history.add(values, self._attempts)
        return bool(values)

    def _checkpoint(self) -> None:
        number, self._next_id = self._next_id, self._next_id + 1
        saved = self._attempt.checkpoint(number)
        outcome = self._rng.choice(("complete", "complete", "complete late", "complete unheard", "aborted"))
        self.done.append(f"checkpoint {number} {outcome}")
        if outcome == "aborted":
            self._attempt.abort(number)
            return
        self._newest = _Checkpoint(number, saved, len(self._history.given))
        if outcome == "complete late":
            self._late.append(number)
        if outcome == "complete":
            for late in [*self._late, number]:
                self._attempt.complete(late)
            self._late.clear()

    def _crash(self) -> None:
        """The attempt ends, or continues for a while beside the one that replaces it."""
        zombie = self._attempt if self._rng.random() < 0.5 else None
        self.done.append("crash" if zombie is None else "crash, with a zombie that reads on")
        if zombie is None:
            self._attempt.close()
        self._late.clear()
        newest = self._newest
        self._history.undo(0 if newest is None else newest.length, None if newest is None else newest.id)
        self._attempt = self._begin()
        if zombie is not None:
            with contextlib.closing(zombie), contextlib.suppress(Exception):  # it may be shut out
                for subtask in range(zombie.parallelism):
                    zombie.poll(subtask, self._rng.choice(_LIMITS))

    def _end(self) -> None:
        """Nothing more comes, and who is told to stop does."""
        for subtask in range(self._attempt.parallelism):
            self._poll(subtask)
        self._attempt.stop()
        for _ in range(10_000):
            if self._attempt.ended:
                return
            for subtask in range(self._attempt.parallelism):
                self._poll(subtask)
        raise AssertionError("after stop() the reader does not end: poll() has to answer ended=True soon")

    def close(self) -> None:
        self._attempt.close()
