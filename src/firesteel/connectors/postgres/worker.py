"""The thread that reads: first the tables, then the slot. The task's thread never waits for the database."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from psycopg.adapt import Transformer

from firesteel.connectors.jdbc.database import ConnectionLost, StatementFailed
from firesteel.connectors.jdbc.postgresql import PostgresDatabase
from firesteel.connectors.postgres.batches import Batch
from firesteel.connectors.postgres.catalog import Catalog, Table
from firesteel.connectors.postgres.changes import ChangeDeserializer
from firesteel.connectors.postgres.position import CdcPosition
from firesteel.connectors.postgres.replication import ReplicationStream
from firesteel.connectors.postgres.snapshot import read_snapshot
from firesteel.connectors.postgres.stream import ChangeReader

__all__ = ["CdcSettings", "CdcWorker"]

#: Records of a batch at most, but for a change that has more; batches that may wait for the task.
BATCH_SIZE, BATCHES = 1000, 16
#: How soon the thread notices that something is confirmed, or that it is to end.
PAUSE_SECONDS = 0.1

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class CdcSettings:
    """What to read, and how. ``snapshot`` is ``initial``, ``never`` or ``only``."""

    database: PostgresDatabase
    tables: tuple[tuple[str, str], ...]
    slot: str
    publication: str
    snapshot: str
    deserializer: ChangeDeserializer
    ignores_truncate: bool
    patience_seconds: float


class CdcWorker:
    """Puts batches into a queue; whoever takes them calls `confirm` when they will never be asked for again."""

    def __init__(self, settings: CdcSettings, position: CdcPosition, wake: Callable[[], None]) -> None:
        self._settings = settings
        self._position = position
        self._wake = wake
        self._batches: queue.Queue[Batch] = queue.Queue(BATCHES)
        self._stopped = threading.Event()
        self._confirmed = 0
        self._stream: ReplicationStream | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="postgres-cdc", daemon=True)
        self._thread.start()

    def next(self) -> Batch | None:
        """A batch, if one is there; raises what the thread has raised."""
        with contextlib.suppress(queue.Empty):
            return self._batches.get_nowait()
        if self.error is not None:
            raise self.error
        return None

    def confirm(self, lsn: int) -> None:
        """The server may forget what is before an LSN."""
        self._confirmed = max(self._confirmed, lsn)

    def close(self) -> None:
        """End the thread, and wait until it has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            catalog = Catalog(self._settings.database)
            try:
                self._read(catalog)
            finally:
                catalog.close()
        except BaseException as error:  # noqa: BLE001 - the task's thread raises it
            self.error = error
        self._wake()

    def _read(self, catalog: Catalog) -> None:
        settings = self._settings
        tables = [catalog.table(schema, name) for schema, name in settings.tables]
        if settings.snapshot != "only":
            catalog.ensure_publication(settings.publication, tables)
            if self._position.is_new:
                start = catalog.ensure_slot(settings.slot)
                if settings.snapshot == "never":
                    self._position = CdcPosition(end_lsn=start, snapshot_done=True)
            else:
                catalog.check_slot(settings.slot, self._position.end_lsn)
        if not self._position.snapshot_done:
            self._read_tables(tables)
        if settings.snapshot == "only":
            self._put(Batch([], [], self._position, ended=True))
        else:
            self._read_changes(catalog, tables)

    def _read_tables(self, tables: list[Table]) -> None:
        settings = self._settings
        batches = read_snapshot(settings.database, tables, self._position, settings.deserializer, BATCH_SIZE)
        with contextlib.closing(batches):  # type: ignore[type-var]  # a generator
            for batch in batches:
                self._put(batch)
                if self._stopped.is_set():
                    return

    def _read_changes(self, catalog: Catalog, tables: list[Table]) -> None:
        """Read the slot; when the connection is lost, resume where the last batch ended."""
        failing_since: float | None = None
        while not self._stopped.is_set():
            before = self._position
            try:
                self._read_stream(catalog, tables)
            except (ConnectionLost, StatementFailed) as error:
                if self._position != before:
                    failing_since = None
                now = time.monotonic()
                failing_since = now if failing_since is None else failing_since
                is_taken = "[55006]" in str(error)
                if isinstance(error, StatementFailed) and not is_taken:
                    raise
                if now - failing_since > self._settings.patience_seconds:
                    raise self._explained(error, is_taken) from error
                _LOG.warning("changes cannot be read, which is tried again: %s", error)
                self._stopped.wait(0.5)

    def _explained(self, error: Exception, is_taken: bool) -> Exception:
        name = self._settings.database.name
        if is_taken:
            return StatementFailed(
                f"somebody else reads from the replication slot {self._settings.slot!r} of {name}: every job needs a slot of its "
                f"own (set_slot_name), and an old task of this job would have given up by now: {error}"
            )
        return ConnectionLost(
            f"changes of {name} could not be read for {self._settings.patience_seconds:g} s: {error}"
        )

    def _read_stream(self, catalog: Catalog, tables: list[Table]) -> None:
        settings = self._settings
        stream = ReplicationStream(
            settings.database, settings.slot, settings.publication, self._position.end_lsn
        )
        self._stream = stream
        try:
            reader = ChangeReader(
                self._position,
                tables,
                settings.deserializer,
                settings.ignores_truncate,
                catalog.base_type,
                Transformer(stream.for_loading),
            )
            while not self._stopped.is_set():
                self._step(stream, reader)
        finally:
            self._stream = None
            stream.close()

    def _step(self, stream: ReplicationStream, reader: ChangeReader) -> None:
        stream.confirmed = self._confirmed
        data = stream.receive()
        if data is not None and reader.take(data):
            stream.tell(at_once=True)
        if len(reader) >= BATCH_SIZE or (data is None and reader.position != self._position):
            self._put(reader.batch())
        if data is None:
            stream.wait(PAUSE_SECONDS)

    def _put(self, batch: Batch) -> None:
        """Wait until there is room; the server hears of us meanwhile."""
        while not self._stopped.is_set():
            try:
                self._batches.put(batch, timeout=PAUSE_SECONDS)
            except queue.Full:
                if self._stream is not None:
                    self._stream.confirmed = self._confirmed
                    self._stream.tell()
                continue
            self._position = batch.after
            self._wake()
            return
