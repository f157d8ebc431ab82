"""Messages about changes of tables, as Debezium, Canal and Maxwell write them; not in PyFlink's DataStream API."""

from __future__ import annotations

from firesteel.formats.changes import CanalJsonSchema, DebeziumJsonSchema, MaxwellJsonSchema

__all__ = ["CanalJsonSchema", "DebeziumJsonSchema", "MaxwellJsonSchema"]
