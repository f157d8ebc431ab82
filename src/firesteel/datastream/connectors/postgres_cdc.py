"""PostgreSQL's changes as a stream: a snapshot of tables, then every change of them."""

from firesteel.connectors.postgres.cdc import PostgresCdcSource, PostgresCdcSourceBuilder
from firesteel.connectors.postgres.changes import ChangeDeserializer, PostgresChange, Unavailable

__all__ = [
    "ChangeDeserializer",
    "PostgresCdcSource",
    "PostgresCdcSourceBuilder",
    "PostgresChange",
    "Unavailable",
]
