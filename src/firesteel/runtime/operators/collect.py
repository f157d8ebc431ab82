"""The sink of ``execute_and_collect``: hop 10 of a record's journey when results go back to the driver."""

from __future__ import annotations

from typing import Any

from firesteel.common._override import override
from firesteel.contracts.state import ListState
from firesteel.plan.results import ResultOutput, Results
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.operator import Operator, OperatorContext, Timestamps, internal_list
from firesteel.runtime.wire_format import pickle_values

#: Results that the driver had not confirmed in an attempt: (attempt, offset of the first, [(count, pickle), ...]).
UNCONFIRMED = "\0unconfirmed results"


class CollectOperator(Operator):
    """Sends results to the driver at once, and tells it later what checkpoints cover.

    1. Results are numbered, over all attempts of the job; they leave as they come.
    2. A checkpoint holds how many the driver has confirmed, and those that are still on their way.
    3. When it is complete, the driver hears up to which number results are covered: these may be shown.
    4. When a job continues from a checkpoint, what was on its way is sent again; the driver drops what it has.
    """

    def __init__(self, collect_id: str) -> None:
        self._collect_id = collect_id
        self._end = 0
        self._covered: dict[int, int] = {}  # by checkpoint that is not complete yet

    @override
    def open(self, context: OperatorContext) -> None:
        """Step 4: send again what was on its way when the checkpoint was taken."""
        self.output = context.output
        services = context.services
        self._attempt = services.attempt
        self._state: ListState[Any] = context.operator_state.get_list_state(internal_list(UNCONFIRMED))
        # Tasks that ended in order had sent everything, and the driver has shown it: with another parallelism numbers begin again.
        restored = [] if context.ended_in_order else list(self._state.get())
        # With another parallelism than before the driver is a new one, to which numbers mean nothing yet.
        confirmed = [(attempt, start) for attempt, start, _ in restored]
        self._confirmed: tuple[int, int] = max(confirmed, default=(self._attempt, 0))
        waiting = [Results(count, blob) for _, _, blobs in restored for count, blob in blobs]
        origin, self._end = self._confirmed
        subtask = context.runtime.get_index_of_this_subtask()
        self._result_output: ResultOutput = services.open_collection(
            self._collect_id, subtask, self._end, origin
        )
        for results in waiting:
            self._send(results)
        if context.restored_checkpoint_id is not None:
            self._result_output.covered(self._end)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Step 1: the batch as one pickle."""
        self._send(Results(len(values), pickle_values(values)))

    def _send(self, results: Results) -> None:
        self._result_output.send(results)
        self._end += results.count

    @override
    def snapshot(self, order: CheckpointOrder) -> None:
        """Step 2: what the driver has confirmed, and what is on its way."""
        start, waiting = self._result_output.unconfirmed()
        blobs = [(results.count, results.blob) for results in waiting]
        # While nothing new is confirmed, nobody knows whether the driver has heard of this attempt at all.
        origin = self._confirmed[0] if start == self._confirmed[1] else self._attempt
        self._state.update([(origin, start, blobs)])
        self._covered[order.id] = self._end

    @override
    def notify_complete(self, checkpoint_id: int) -> None:
        """Step 3: tell the driver which results are covered."""
        complete = [number for number in self._covered if number <= checkpoint_id]
        if complete:
            self._result_output.covered(max(self._covered.pop(number) for number in complete))

    @override
    def notify_aborted(self, checkpoint_id: int) -> None:
        """Forget what the checkpoint would have covered."""
        self._covered.pop(checkpoint_id, None)
