"""HTTP: batches of records to a server. Needs ``firesteel[http]``."""

from __future__ import annotations

from firesteel.connectors.http.sink import HttpSink

__all__ = ["HttpSink"]
