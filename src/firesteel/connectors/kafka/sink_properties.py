"""Properties of the Kafka sink: those of Java's producer under their names, librdkafka's, and three of its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.common.errors import InvalidArgumentError, SetupError
from firesteel.connectors.kafka.client_security import security_properties

__all__ = ["SinkProperties", "check_client"]

_OWN = "firesteel."
_DAY_MS = 24 * 3600 * 1000

#: Names of Java's client that librdkafka has under another one.
_RENAMED = {"max.request.size": "message.max.bytes"}
#: What Java's client needs, and a Python program need not say; it changes nothing here.
_WITHOUT_EFFECT = frozenset(
    {"key.serializer", "value.serializer", "buffer.memory", "partitioner.class", "client.dns.lookup"}
)
#: What the sink decides.
_TAKEN = {
    "transactional.id": "set_transactional_id_prefix()",
    "delivery.report.only.error": "nothing: the sink asks for errors by itself",
}


def check_client() -> None:
    """Say so if the client library is not installed here."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise SetupError(
            "the Kafka sink needs the package confluent-kafka, which is not installed here: pip install 'firesteel[kafka]'"
        )


@dataclass(frozen=True)
class SinkProperties:
    """What was set, checked; ``given`` are properties of librdkafka, passwords among them, the rest is the sink's own.

    ``max_block_ms``: how long the sink waits for a cluster that does not answer. ``staged_max_bytes``: what a subtask may stage
    between two checkpoints. ``marker_retention_ms``: for how long the cluster keeps offsets of groups that nobody uses.
    """

    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_block_ms: int = 60_000
    staged_max_bytes: int = 1 << 30
    marker_retention_ms: int = 7 * _DAY_MS

    @property
    def servers(self) -> str:
        """Where the cluster is."""
        return self.given["bootstrap.servers"]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> SinkProperties:
        """Check and translate what a program has set."""
        given: dict[str, str] = {}
        own: dict[str, int] = {}
        for key, value in properties.items():
            security = security_properties(key, str(value), properties)
            if security is not None:
                given |= security
            elif key == "max.block.ms" or key.startswith(_OWN):
                own[_own_name(key)] = _number(key, value)
            elif key not in _WITHOUT_EFFECT:
                given[_name(key)] = str(value)
        return cls(given, **own)


def _own_name(key: str) -> str:
    name = key.removeprefix(_OWN).replace(".", "_")
    if name not in ("max_block_ms", "staged_max_bytes", "marker_retention_ms"):
        raise InvalidArgumentError(
            f"the Kafka sink has no property {key!r}; its own are firesteel.staged.max.bytes and firesteel.marker.retention.ms"
        )
    return name


def _number(key: str, value: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number <= 0:
        raise InvalidArgumentError(f"the property {key!r} must be a whole number above 0, got {value!r}")
    return number


def _name(key: str) -> str:
    if key in _TAKEN:
        raise InvalidArgumentError(f"the property {key!r} is set by the Kafka sink itself; use {_TAKEN[key]}")
    return _RENAMED.get(key, key)
