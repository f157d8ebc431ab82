"""The protocol of two-phase-commit sinks: hop 14 of a checkpoint's life.

One transaction from barrier to barrier is committed with the checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from firesteel.common._override import override
from firesteel.contracts.state import ListState
from firesteel.contracts.two_phase_commit import TwoPhaseCommitSinkFunction
from firesteel.plan.state_handles import CheckpointOrder
from firesteel.runtime.operator import OperatorContext, Timestamps, internal_list
from firesteel.runtime.operators.function_operator import FunctionOperator
from firesteel.runtime.operators.sink import RecordContext, hand_over
from firesteel.runtime.user_function import UserFunction

TRANSACTIONS = "\0transactions"


@dataclass(frozen=True, slots=True)
class Transaction:
    """A handle and the checkpoint whose barrier pre-committed it; None: it is open."""

    handle: Any
    checkpoint_id: int | None = None


class TwoPhaseCommitOperator(FunctionOperator):
    """Calls a `TwoPhaseCommitSinkFunction`.

    1. A transaction is open before the first record.
    2. At a barrier it is pre-committed and becomes pending; the next one is begun; the handles of both are in the
       checkpoint.
    3. When a checkpoint is complete, all transactions pending for it and for earlier ones are committed.
    4. When a job continues from a checkpoint, what is pending in it is committed and what was open is aborted.
    5. Without checkpoints the only transaction is committed at the end of the input.
    """

    def __init__(self, function: UserFunction) -> None:
        super().__init__(function)
        self._sink: TwoPhaseCommitSinkFunction = function.instance
        self._current: Transaction | None = None
        self._pending: list[Transaction] = []
        self._ended = False
        self._committed = 0

    @override
    def open(self, context: OperatorContext) -> None:
        """Open the function, then steps 4 and 1."""
        super().open(context)
        self._pace = context.pace
        self._context = RecordContext(self, context.services)
        self._checkpointing = context.checkpointing
        context.system_metrics.gauge("pendingCommittables", lambda: len(self._pending))
        context.system_metrics.gauge("successfulCommittables", lambda: self._committed)
        self._state: ListState[Any] = context.operator_state.get_list_state(internal_list(TRANSACTIONS))
        self._recover(list(self._state.get()))
        self._begin()

    def _recover(self, transactions: list[Transaction]) -> None:
        pending = [transaction for transaction in transactions if transaction.checkpoint_id is not None]
        for transaction in sorted(pending, key=lambda transaction: transaction.checkpoint_id or 0):
            self._sink.recover_and_commit(transaction.handle)
            self._committed += 1
        for transaction in transactions:
            if transaction.checkpoint_id is None:
                self._sink.recover_and_abort(transaction.handle)
        self._sink.finish_recovering_context([transaction.handle for transaction in transactions])

    def _begin(self) -> None:
        self._current = Transaction(self._sink.begin_transaction())
        self._invoke = partial(self._sink.invoke, self._current.handle)

    @override
    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Write every record in the open transaction."""
        self.cursor = cursor = self._pace.begin(values)
        hand_over(self._invoke, cursor, timestamps, self._context)
        self.left = self._pace.end()

    @override
    def finish(self) -> None:
        """Step 5: commit the only transaction, unless a last checkpoint will come."""
        self._ended = True
        if not self._checkpointing and self._current is not None:
            while self._pending:  # of a savepoint that has failed, or is not complete yet
                self._commit_oldest()
            self._sink.pre_commit(self._current.handle)
            transaction, self._current = self._current, None
            self._sink.commit(transaction.handle)
            self._committed += 1

    def _commit_oldest(self) -> None:
        self._sink.commit(self._pending[0].handle)
        del self._pending[0]
        self._committed += 1

    @override
    def snapshot(self, order: CheckpointOrder) -> None:
        """Step 2: pre-commit the open transaction, and begin the next one."""
        super().snapshot(order)
        if self._current is not None:
            self._sink.pre_commit(self._current.handle)
            self._pending.append(Transaction(self._current.handle, order.id))
            self._current = None
        if not self._ended:
            self._begin()
        self._state.update(self._pending + ([] if self._current is None else [self._current]))

    @override
    def notify_complete(self, checkpoint_id: int) -> None:
        """Step 3: commit what is pending; a transaction that cannot be committed stays pending."""
        while self._pending and (self._pending[0].checkpoint_id or 0) <= checkpoint_id:
            self._commit_oldest()
        super().notify_complete(checkpoint_id)

    @override
    def close(self) -> None:
        """Abort the transaction that no checkpoint will ever complete."""
        try:
            if self._current is not None:
                transaction, self._current = self._current, None
                self._sink.abort(transaction.handle)
        finally:
            super().close()
