"""An outside system with transactions, in memory: what crash simulations write to and look at afterwards.

It does what an exactly-once sink needs of a system (`contracts.two_phase_commit`): what was written is seen only after
the commit, a transaction is found again by its handle, and committing or aborting twice is like once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

from firesteel.common._override import override
from firesteel.contracts.sink import SinkFunction
from firesteel.contracts.two_phase_commit import TwoPhaseCommitSinkFunction

__all__ = ["Ledger", "LedgerSink"]


@dataclass(slots=True)
class Ledger:
    """Records by transaction; ``committed`` has them in the order in which they were seen."""

    committed: list[Any] = field(default_factory=list)
    _open: dict[int, list[Any]] = field(default_factory=dict)
    _prepared: set[int] = field(default_factory=set)
    _done: set[int] = field(default_factory=set)
    _next: int = 0
    _written: threading.Condition = field(default_factory=threading.Condition)

    _named: ClassVar[dict[str, Ledger]] = {}

    @classmethod
    def named(cls, name: str) -> Ledger:
        """The ledger of that name in this process; sinks refer to it by name, because they are pickled."""
        return cls._named.setdefault(name, cls())

    @classmethod
    def forget(cls, name: str) -> None:
        """Drop a ledger."""
        cls._named.pop(name, None)

    def add(self, value: Any) -> None:
        """A record that is seen at once, without a transaction."""
        with self._written:
            self.committed.append(value)
            self._written.notify_all()

    def begin(self) -> int:
        """A new transaction."""
        self._next += 1
        self._open[self._next] = []
        return self._next

    def write(self, transaction: int, value: Any) -> None:
        """Add a record to an open transaction."""
        if transaction in self._prepared or transaction not in self._open:
            raise AssertionError(f"transaction {transaction} takes no more records")
        with self._written:
            self._open[transaction].append(value)
            self._written.notify_all()

    def wait_until_written(self, records: int, seconds: float = 600.0) -> None:
        """Wait until so many records have been written, committed or not."""
        with self._written:
            if not self._written.wait_for(lambda: self._size() >= records, seconds):
                raise TimeoutError(f"{self._size()} records were written, {records} expected")

    def _size(self) -> int:
        return len(self.committed) + sum(len(written) for written in self._open.values())

    def prepare(self, transaction: int) -> None:
        """From now on it can be committed, whatever happens to who began it."""
        self._prepared.add(transaction)

    def commit(self, transaction: int) -> None:
        """Let the records be seen."""
        if transaction in self._done:
            return
        if transaction not in self._prepared:
            raise AssertionError(f"transaction {transaction} was never prepared, or was aborted")
        self._done.add(transaction)
        self.committed += self._open.pop(transaction)

    def abort(self, transaction: int) -> None:
        """Forget the records."""
        if transaction in self._done:
            raise AssertionError(f"transaction {transaction} was committed and cannot be aborted")
        self._open.pop(transaction, None)
        self._prepared.discard(transaction)


class LedgerSink(TwoPhaseCommitSinkFunction):
    """Writes into the ledger of a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    @override
    def begin_transaction(self) -> int:
        return Ledger.named(self._name).begin()

    @override
    def invoke(self, transaction: int, value: Any, context: SinkFunction.Context) -> None:  # type: ignore[override]
        Ledger.named(self._name).write(transaction, value)

    @override
    def pre_commit(self, transaction: int) -> None:
        Ledger.named(self._name).prepare(transaction)

    @override
    def commit(self, transaction: int) -> None:
        Ledger.named(self._name).commit(transaction)

    @override
    def abort(self, transaction: int) -> None:
        Ledger.named(self._name).abort(transaction)
