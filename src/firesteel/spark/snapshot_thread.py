"""Writes snapshots to storage beside the task's loop, and acknowledges them.

One thread per task, started with the first snapshot. The loop hands over serialised pieces; it holds back when many
are waiting, so that state larger than memory can pass through. The thread also removes the local copies that a
completed or aborted checkpoint has made useless.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from firesteel.plan.messages import CheckpointAborted, CheckpointCompleted, TaskMessage
from firesteel.runtime.subtask_snapshot import (
    Piece,
    SnapshotFile,
    SnapshotForm,
    StorageServices,
    SubtaskSnapshot,
    declined,
)

_WAITING = 64


class SnapshotThread:
    """`add` and `checkpoint_ended` are called by the task's loop, in the order of what happens to the snapshots."""

    def __init__(
        self, services: StorageServices, form: SnapshotForm, send: Callable[[TaskMessage], None]
    ) -> None:
        self._services = services
        self._form = form
        self._send = send
        self._orders: queue.SimpleQueue[
            tuple[SubtaskSnapshot, list[Piece], bool] | CheckpointCompleted | CheckpointAborted | None
        ] = queue.SimpleQueue()
        self._files: dict[SubtaskSnapshot, SnapshotFile | None] = {}  # None: it has failed
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether enough is waiting to be written."""
        return self._orders.qsize() >= _WAITING

    def add(self, snapshot: SubtaskSnapshot) -> None:
        """Write the pieces that a snapshot has by now."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="firesteel-snapshots", daemon=True)
            self._thread.start()
        self._orders.put((snapshot, snapshot.drain(), snapshot.is_serialised))

    def checkpoint_ended(self, message: CheckpointCompleted | CheckpointAborted) -> None:
        """How a checkpoint has ended: nobody needs the files of an aborted one."""
        if self._thread is not None:  # else there are no files
            self._orders.put(message)

    def close(self) -> None:
        """Write what is waiting, then end."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            if isinstance(order, CheckpointAborted):
                self._abort(order.checkpoint_id)
            elif isinstance(order, CheckpointCompleted):
                if self._services.local_copies is not None:
                    self._services.local_copies.checkpoint_completed(order.checkpoint_id)
            else:
                self._write(*order)

    def _write(self, snapshot: SubtaskSnapshot, pieces: list[Piece], complete: bool) -> None:
        if snapshot not in self._files:
            self._files[snapshot] = SnapshotFile(snapshot, self._services, self._form)
        file = self._files[snapshot]
        if file is not None:
            try:
                file.write(pieces)
                if complete:
                    self._send(file.finish())
            except Exception as error:  # noqa: BLE001 - whatever it is, the checkpoint fails and not the task
                self._files[snapshot] = None
                file.abort()
                self._send(declined(snapshot, error))
        if complete:
            del self._files[snapshot]

    def _abort(self, checkpoint_id: int) -> None:
        for snapshot, file in list(self._files.items()):
            if snapshot.order.id == checkpoint_id:
                del self._files[snapshot]
                if file is not None:
                    file.abort()
        if self._services.local_copies is not None:
            self._services.local_copies.checkpoint_aborted(checkpoint_id)
