"""Operations that take longer than a request: whoever starts one gets a trigger id and asks again with it.

As in Flink, a client may choose the id, and starting the same operation with the same id again does nothing.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from firesteel.common.completable_future import CompletableFuture

__all__ = ["Operations"]

#: How many are remembered.
_KEPT = 1000

#: What somebody has started: the kind of operation, and the job or nothing.
Scope = tuple[str, str]


@dataclass(slots=True)
class _Operation:
    outcome: CompletableFuture
    told: bool = False  # whether somebody has heard how it ended


class Operations:
    """Everything that was started and not forgotten yet; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._operations: OrderedDict[tuple[Scope, str], _Operation] = OrderedDict()

    def start(self, scope: Scope, wanted_id: str | None, begin: Callable[[], CompletableFuture]) -> str:
        """Start something, unless it was started with this id before; returns the trigger id."""
        trigger_id = wanted_id or secrets.token_hex(16)
        outcome = CompletableFuture()
        with self._lock:
            if (scope, trigger_id) in self._operations:
                return trigger_id
            self._operations[scope, trigger_id] = _Operation(outcome)
            while len(self._operations) > _KEPT:
                self._operations.popitem(last=False)
        # Not under the lock: to begin may mean to look at a storage that is slow to answer.
        begin().add_done_callback(lambda ended: _pass_on(ended, outcome))
        return trigger_id

    def find(self, scope: Scope, trigger_id: str) -> CompletableFuture | None:
        """What was started with an id; None when nobody has, or it is forgotten."""
        with self._lock:
            operation = self._operations.get((scope, trigger_id))
            if operation is None:
                return None
            if operation.outcome.done():
                operation.told = True
                self._lock.notify_all()
            return operation.outcome

    def await_told(self, seconds: float) -> None:
        """Give those who have started something a while to hear how it ended; returns at once if nobody has."""
        deadline = time.monotonic() + seconds
        with self._lock:
            while any(not each.told for each in self._operations.values()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._lock.wait(left)


def _pass_on(ended: CompletableFuture, outcome: CompletableFuture) -> None:
    error = ended.exception()
    if error is None:
        outcome.complete(ended.result())
    else:
        outcome.complete_exceptionally(error)
