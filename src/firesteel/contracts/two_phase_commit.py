"""A sink that writes in transactions of the outside system, one for each checkpoint.

The transaction is open from one barrier to the next. At the barrier it is *pre-committed*: from now on it can be
committed whatever happens. When the checkpoint is complete it is committed, and what it wrote becomes seen.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.contracts.sink import SinkFunction

__all__ = ["TwoPhaseCommitSinkFunction"]

IN = TypeVar("IN", contravariant=True, default=Any)
#: The handle of a transaction.
TX = TypeVar("TX", default=Any)


class TwoPhaseCommitSinkFunction(SinkFunction[IN], Generic[IN, TX]):
    """Exactly-once output into a system that can keep transactions open, and find them again by a handle.

    A handle is any picklable object; it is kept in checkpoints. What the system must be able to do: keep what was
    written unseen until the commit, keep a transaction for as long as a checkpoint and a recovery take, find it again
    after the writer has died, and commit it twice like once. All methods are called after ``open``.
    """

    @abstractmethod
    def begin_transaction(self) -> TX:
        """Begin a transaction and return its handle; called before the first record and at every checkpoint."""

    @abstractmethod
    @override
    def invoke(  # type: ignore[override]
        self, transaction: TX, value: IN, context: SinkFunction.Context, /
    ) -> None:
        """Write one record in a transaction."""

    @abstractmethod
    def pre_commit(self, transaction: TX, /) -> None:
        """Make sure that the transaction can be committed, even by another process; no record follows in it."""

    @abstractmethod
    def commit(self, transaction: TX, /) -> None:
        """Make the transaction seen. May be called again for one that was committed, and must then do nothing.

        What it raises fails the job, which then continues from the checkpoint and commits again.
        """

    @abstractmethod
    def abort(self, transaction: TX, /) -> None:
        """Forget the transaction. May be called again for one that was aborted, or never written to."""

    def recover_and_commit(self, transaction: TX, /) -> None:
        """Commit a transaction of an earlier attempt; it may have been committed."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: TX, /) -> None:
        """Abort a transaction of an earlier attempt; it may have been aborted."""
        self.abort(transaction)

    def finish_recovering_context(self, transactions: Sequence[TX], /) -> None:
        """All transactions of the checkpoint have been seen to, before the first new one is begun.

        The attempt before may have begun others since: a sink that can find those by itself may abort them here.
        Other subtasks have their own, which must be left alone.
        """
