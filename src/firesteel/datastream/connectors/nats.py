"""NATS: streams of JetStream as a source and as a sink. Needs ``firesteel[nats]``."""

from __future__ import annotations

from firesteel.connectors.nats.sink import NatsSink
from firesteel.connectors.nats.source import NatsMessage, NatsSource

__all__ = ["NatsMessage", "NatsSink", "NatsSource"]
