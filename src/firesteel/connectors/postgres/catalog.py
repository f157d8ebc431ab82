"""What has to be there before changes can be read: publication, slot, and what tables look like."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import psycopg

from firesteel.common.errors import ProgramError, StateError
from firesteel.connectors.jdbc.database import StatementFailed
from firesteel.connectors.jdbc.postgresql import PostgresDatabase, translated
from firesteel.connectors.postgres.pgoutput import lsn_of, lsn_text
from firesteel.connectors.postgres.replication import SETTINGS

__all__ = ["Catalog", "Table"]

#: Key types that Python and PostgreSQL (texts: with COLLATE "C") put into the same order.
_ORDERED = {"int2", "int4", "int8", "uuid", "date", "bool"}
_TEXTS = {"text", "varchar"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table, its published columns, and its key, if rows can be told apart and put in order by it."""

    schema: str
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """How messages and positions call it."""
        return f"{self.schema}.{self.name}"

    @property
    def sql_name(self) -> str:
        """Schema and name, each quoted for SQL."""
        return f"{quote(self.schema)}.{quote(self.name)}"


def quote(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


class Catalog:
    """A connection with statements about tables, publications and slots. Close it."""

    def __init__(self, database: PostgresDatabase) -> None:
        options = f"{database.parameters.get('options', '')} {SETTINGS}".strip()
        self._connection = database.open(autocommit=True, options=options)
        self._base_types: dict[int, int] = {}

    def close(self) -> None:
        """Close the connection; that it is lost already does not matter."""
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        with translated():
            cursor = self._connection.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    # Tables -------------------------------------------------------------------------------------------

    def table(self, schema: str, name: str) -> Table:
        """Columns and key of a table; the key is empty unless rows can be read in its order."""
        columns = self.ask(
            "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s "
            "AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' "
            "ORDER BY a.attnum",
            schema,
            name,
        )
        if not columns:
            raise ProgramError(f"there is no table {schema}.{name} in the database, or nobody may see it")
        keys = self.ask(
            "SELECT a.attname, t.typname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey) "
            "JOIN pg_type t ON t.oid = a.atttypid WHERE n.nspname = %s AND c.relname = %s AND i.indisprimary "
            "ORDER BY array_position(i.indkey::int2[], a.attnum)",
            schema,
            name,
        )
        ordered = bool(keys) and all(kind in _ORDERED | _TEXTS for _, kind in keys)
        order = [quote(key) + (' COLLATE "C"' if kind in _TEXTS else "") for key, kind in keys]
        key = tuple(key for key, _ in keys) if ordered else ()
        return Table(schema, name, tuple(c for (c,) in columns), key, tuple(order) if ordered else ())

    def base_type(self, oid: int) -> int:
        """Of a domain the type that it is made from; of others themselves."""
        if oid not in self._base_types:
            [(base,)] = self.ask(
                "WITH RECURSIVE t(oid, base) AS (SELECT %s::oid, (SELECT typbasetype FROM pg_type WHERE oid = %s) "
                "UNION ALL SELECT p.oid, p.typbasetype FROM t JOIN pg_type p ON p.oid = t.base WHERE t.base <> 0) "
                "SELECT oid FROM t ORDER BY base = 0 DESC LIMIT 1",
                oid,
                oid,
            )
            self._base_types[oid] = int(base)
        return self._base_types[oid]

    # Publications and slots ---------------------------------------------------------------------------

    def ensure_publication(self, name: str, tables: list[Table]) -> None:
        """Make the publication, or see that it has the tables, and everything about them."""
        rows = self.ask(
            "SELECT pubinsert AND pubupdate AND pubdelete FROM pg_publication WHERE pubname = %s", name
        )
        if not rows:
            names = ", ".join(table.sql_name for table in tables)
            options = (
                "WITH (publish_via_partition_root = true)"  # changes of partitions are those of the table
            )
            self.ask(f"CREATE PUBLICATION {quote(name)} FOR TABLE {names} {options}")
            return
        if rows != [(True,)] or self._leaves_out(name):
            raise ProgramError(
                f"the publication {name!r} leaves out inserts, updates, deletions, columns or rows, which would be missed in "
                "silence: choose another one, or a name that does not exist, and it is made"
            )
        published = set(
            self.ask("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", name)
        )
        missing = [table for table in tables if (table.schema, table.name) not in published]
        if missing:
            names = ", ".join(table.sql_name for table in missing)
            raise ProgramError(
                f"the publication {name!r} exists and does not have all tables: execute "
                f"ALTER PUBLICATION {quote(name)} ADD TABLE {names}, or choose another publication"
            )

    def _leaves_out(self, name: str) -> bool:
        """Whether it has column lists or row filters, which there are from version 15 on."""
        if self._connection.info.server_version < 150000:
            return False
        return bool(
            self.ask(
                "SELECT 1 FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid "
                "WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)",
                name,
            )
        )

    def ensure_slot(self, name: str) -> int:
        """Make the slot, or find it; the LSN from which it has changes."""
        [(level,)] = self.ask("SHOW wal_level")
        if level != "logical":
            raise StatementFailed(
                f"the server has wal_level = {level}, and changes need wal_level = logical: execute ALTER SYSTEM SET "
                "wal_level = logical, and start the server again"
            )
        if position := self._slot(name):
            return position
        [(lsn,)] = self.ask("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", name)
        return lsn_of(lsn)

    def check_slot(self, name: str, needed: int) -> None:
        """Whether the slot still has everything from an LSN on."""
        confirmed = self._slot(name)
        if confirmed is None:
            raise StateError(
                f"the replication slot {name!r} is gone, and with it the changes since {lsn_text(needed)}, where the checkpoint "
                "stands: start without the checkpoint, with a snapshot of the tables"
            )
        if confirmed > needed:
            raise StateError(
                f"the replication slot {name!r} stands at {lsn_text(confirmed)}, and the checkpoint at {lsn_text(needed)}: the "
                "changes between are gone, because a later checkpoint was complete or somebody else has read from the "
                "slot; start from a later checkpoint, or without one"
            )

    def _slot(self, name: str) -> int | None:
        rows = self.ask(
            "SELECT plugin, database = current_database(), wal_status, confirmed_flush_lsn::text "
            "FROM pg_replication_slots WHERE slot_name = %s",
            name,
        )
        if not rows:
            return None
        [(plugin, is_here, status, confirmed)] = rows
        if plugin != "pgoutput" or not is_here:
            raise ProgramError(
                f"the replication slot {name!r} is of another database or for {plugin!r} instead of pgoutput: choose another name"
            )
        if status == "lost":
            raise StateError(
                f"the replication slot {name!r} was invalidated: the server has deleted changes that it should have kept "
                "(max_slot_wal_keep_size); drop the slot, and start without the checkpoint"
            )
        return lsn_of(confirmed)
