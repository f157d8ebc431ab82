"""The first look at the tables: all rows at one moment, whose place among the changes is known exactly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from firesteel.common.errors import StateError
from firesteel.common.types import Row
from firesteel.connectors.jdbc.postgresql import PostgresDatabase, translated
from firesteel.connectors.postgres.batches import Batch
from firesteel.connectors.postgres.catalog import Table, quote
from firesteel.connectors.postgres.changes import ChangeDeserializer, PostgresChange, records_of
from firesteel.connectors.postgres.position import CdcPosition, TableProgress
from firesteel.connectors.postgres.replication import SETTINGS, exported_snapshot

__all__ = ["read_snapshot"]


def read_snapshot(
    database: PostgresDatabase,
    tables: list[Table],
    position: CdcPosition,
    deserializer: ChangeDeserializer,
    size: int,
) -> Iterator[Batch]:
    """The rows of all tables that were not read before; the last batch says that the snapshot is done."""
    for table in tables:
        _refuse_broken(table, position.progress(table.full_name))
    with _transaction_at_snapshot(database) as (connection, lsn, now):
        if position.is_new:
            position = CdcPosition(end_lsn=lsn)
        for table in tables:
            if not position.progress(table.full_name).is_done:
                for batch in _rows(connection, table, position, lsn, now, deserializer, size):
                    yield batch
                    position = batch.after
    done = CdcPosition(position.end_lsn, snapshot_done=True, tables=position.tables)
    yield Batch([], [], after=done.done_until(done.end_lsn))


@contextlib.contextmanager
def _transaction_at_snapshot(database: PostgresDatabase) -> Iterator[tuple[Any, int, int]]:
    options = f"{database.parameters.get('options', '')} {SETTINGS}".strip()
    with contextlib.closing(database.open(options=options)) as connection:
        with exported_snapshot(database) as (name, lsn), translated():
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET TRANSACTION SNAPSHOT '{name}'".encode())
            row = connection.execute("SELECT (extract(epoch FROM now()) * 1000)::bigint").fetchone()
        assert row is not None
        yield connection, lsn, row[0]


def _rows(
    connection: Any,
    table: Table,
    position: CdcPosition,
    lsn: int,
    now: int,
    deserializer: ChangeDeserializer,
    size: int,
) -> Iterator[Batch]:
    progress = position.progress(table.full_name)
    sql, parameters = _query(table, progress)
    indexes = [table.columns.index(column) for column in table.key]
    with translated(), connection.cursor("firesteel_snapshot") as cursor:
        cursor.execute(sql, parameters)
        while rows := cursor.fetchmany(size):
            values: list[Any] = []
            keys: list[Any] = []
            for row in rows:
                change = PostgresChange(
                    "snapshot",
                    table.schema,
                    table.name,
                    None,
                    Row._make(row, table.columns),
                    timestamp_ms=now,
                )
                records = records_of(deserializer, change)
                values += records
                keys += [tuple(row[index] for index in indexes)] * len(records)
            if table.key:
                last = tuple(rows[-1][index] for index in indexes)
                progress = progress.read(last, lsn)
            else:
                progress = TableProgress(broken=True)
            position = position.with_table(table.full_name, progress)
            yield Batch(
                values,
                [now] * len(values),
                after=position,
                within=_within(table, position, progress, keys, lsn),
            )
    finished = TableProgress().read(None, lsn) if progress.broken else progress.read(None, lsn)
    yield Batch([], [], after=position.with_table(table.full_name, finished))


def _within(
    table: Table, position: CdcPosition, progress: TableProgress, keys: list[Any], lsn: int
) -> Callable[[int], tuple[int, CdcPosition]]:
    """Where a batch can be cut: behind the records of a whole row."""

    def cut(count: int) -> tuple[int, CdcPosition]:
        while count < len(keys) and table.key and keys[count] == keys[count - 1]:
            count += 1
        if not table.key:
            return count, position
        return count, position.with_table(table.full_name, progress.read(keys[count - 1], lsn))

    return cut


def _query(table: Table, progress: TableProgress) -> tuple[str, tuple[Any, ...]]:
    columns = ", ".join(quote(column).replace("%", "%%") for column in table.columns)
    sql = f"SELECT {columns} FROM {table.sql_name.replace('%', '%%')}"
    if not table.key:
        return sql, ()
    order = ", ".join(table.order).replace("%", "%%")
    if progress.last_key is None:
        return f"{sql} ORDER BY {order}", ()
    marks = ", ".join("%s" for _ in table.key)
    return f"{sql} WHERE ({order}) > ({marks}) ORDER BY {order}", progress.last_key


def _refuse_broken(table: Table, progress: TableProgress) -> None:
    if progress.broken:
        raise StateError(
            f"the job stopped while it read {table.full_name} for the first time, and without a primary key (of whole "
            "numbers, texts, UUIDs or dates) nobody can say which rows are left; start without the checkpoint"
        )
