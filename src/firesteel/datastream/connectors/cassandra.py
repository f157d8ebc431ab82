"""Cassandra: rows as a sink. Needs ``firesteel[cassandra]``."""

from __future__ import annotations

from firesteel.connectors.cassandra.sink import CassandraSink

__all__ = ["CassandraSink"]
