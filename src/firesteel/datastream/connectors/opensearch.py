"""OpenSearch: documents as a sink. Needs ``firesteel[opensearch]``."""

from __future__ import annotations

from firesteel.connectors.opensearch.sink import OpenSearchSink

__all__ = ["OpenSearchSink"]
