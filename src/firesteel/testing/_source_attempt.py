"""One attempt of a job that has only a source: its readers, and its enumerator, if it has one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from firesteel.contracts.source import Source
from firesteel.control.protocol import decode
from firesteel.jobmaster.instructions import RunWork, SendToTasks
from firesteel.jobmaster.source_coordinator import SourceCoordinator
from firesteel.plan.messages import EnumeratorEvent, SplitsAssigned
from firesteel.testing.checkpoint_harness import CheckpointHarness, OperatorCheckpoint
from firesteel.testing.manual_clock import ManualClock

__all__ = ["SavedSource", "SourceAttempt"]


@dataclass(frozen=True, slots=True)
class SavedSource:
    """A source in a checkpoint."""

    readers: OperatorCheckpoint
    enumerators: dict[str, bytes]


class SourceAttempt:
    """Readers by subtask, and the enumerator in the job master; messages between them arrive at once."""

    def __init__(
        self, source: Source, parallelism: int, clock: ManualClock, restore: SavedSource | None, attempt: int
    ) -> None:
        self._clock = clock
        self._harness = CheckpointHarness(
            source,
            parallelism,
            restore=None if restore is None else restore.readers,
            clock=clock,
            attempt=attempt,
        )
        self._work: list[tuple[float, RunWork]] = []
        self._enumerators = SourceCoordinator(self._harness.plan)
        self._enumerators.now = clock.now()
        self._enumerators.start({} if restore is None else restore.enumerators)
        self._exchange()

    @property
    def parallelism(self) -> int:
        return len(list(self._harness))

    @property
    def ended(self) -> bool:
        return all(subtask.source.ended for subtask in self._harness)

    def poll(self, subtask: int, limit: int) -> list[Any]:
        """What one reader gives now."""
        self._exchange()
        harness = self._harness[subtask]
        given = [] if harness.source.ended else list(harness.poll(limit))
        self._exchange()
        return given

    def look_again(self) -> None:
        """From now on what a thread brings is noticed by `wait`."""
        self._harness.woken.clear()

    def wait(self, seconds: float) -> bool:
        """Nobody has anything: let time pass, or wait for a thread; False when none said anything for so long."""
        wishes = [s.source.retry_at for s in self._harness if not s.source.ended]
        due = min([*wishes, *(when for when, _ in self._work)], default=math.inf)
        if due < math.inf:
            self._clock.advance_to(due)
            self._exchange()
            return True
        return self._harness.woken.wait(seconds)

    def checkpoint(self, checkpoint_id: int) -> SavedSource:
        self._exchange()
        enumerators = self._enumerators.snapshot(checkpoint_id)
        return SavedSource(self._harness.checkpoint(checkpoint_id), enumerators)

    def complete(self, checkpoint_id: int) -> None:
        self._enumerators.checkpoint_completed(checkpoint_id)
        self._harness.complete(checkpoint_id)
        self._exchange()

    def abort(self, checkpoint_id: int) -> None:
        self._enumerators.checkpoint_aborted(checkpoint_id)
        self._harness.abort(checkpoint_id)
        self._exchange()

    def stop(self) -> None:
        for subtask in self._harness:
            subtask.source.stop()

    def close(self) -> None:
        self._harness.close()
        self._enumerators.stop()

    # Between enumerator and readers -----------------------------------------------------------------------

    def _exchange(self) -> None:
        self._enumerators.now = self._clock.now()
        self._do_due_work()
        while self._listen() or self._enumerators.out:
            said, self._enumerators.out = self._enumerators.out, []
            for instruction in said:
                match instruction:
                    case SendToTasks(message=message):
                        self._deliver(message)
                    case RunWork(delay=delay):
                        self._work.append((self._clock.now() + delay, instruction))
            self._do_due_work()

    def _listen(self) -> bool:
        messages = [message for subtask in self._harness for message in subtask.source.take_messages()]
        for message in messages:
            self._enumerators.reader_said(message)
        return bool(messages)

    def _deliver(self, message: Any) -> None:
        match message:
            case SplitsAssigned(_, subtask, splits, no_more):
                self._harness[subtask].source.assign(decode(splits), no_more)
            case EnumeratorEvent(_, subtask, event):
                self._harness[subtask].source.handle_event(decode(event))

    def _do_due_work(self) -> None:
        now = self._clock.now()
        due = [work for when, work in self._work if when <= now]
        self._work = [each for each in self._work if each[0] > now]
        for work in due:
            try:
                result, error = work.call(), None
            except Exception as raised:  # noqa: BLE001 - the enumerator's handler decides what it means
                result, error = None, raised
            self._enumerators.work_done(work.work, result, error)
