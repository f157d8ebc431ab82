"""Properties of the Kafka source: Flink's own, those of Java's consumer under their names, and librdkafka's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.common.errors import InvalidArgumentError
from firesteel.connectors.kafka.client_security import security_properties
from firesteel.connectors.kafka.source_offsets import KafkaOffsetResetStrategy

__all__ = ["SourceProperties"]

_LOG = logging.getLogger(__name__)

#: As Flink's: new partitions are looked for every five minutes.
_DISCOVERY_MS = 5 * 60 * 1000
_TIMEOUT_MS = 30 * 1000
#: How soon deleted topics are noticed.
_WATCH_MS = 30 * 1000

_FLINK = {
    "partition.discovery.interval.ms", "commit.offsets.on.checkpoint", "client.id.prefix", "register.consumer.metrics",
}  # fmt: skip
#: Java's names, and librdkafka's.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
#: They say how Java's client does its work, and have no meaning here.
_WITHOUT_MEANING = {
    "key.deserializer", "value.deserializer", "max.poll.records", "interceptor.classes", "metric.reporters",
    "metrics.num.samples", "metrics.sample.window.ms", "metrics.recording.level", "auto.include.jmx.reporter",
    "enable.metrics.push", "exclude.internal.topics", "partition.assignment.strategy", "ssl.protocol", "ssl.provider",
    "security.providers", "ssl.trustmanager.algorithm", "ssl.keymanager.algorithm", "flink.disable-metrics",
}  # fmt: skip
#: What the source must decide itself.
_FIXED = {
    "auto.offset.reset": "error",  # the source says what happens then, and to whom
    "enable.partition.eof": "true",
}
_DEFAULTS = {
    "isolation.level": "read_uncommitted",  # Java's default, and so Flink's; librdkafka's is the other one
    "enable.auto.commit": "false",
    "max.poll.interval.ms": "86400000",  # back pressure may last; nobody else takes over the partitions
    "fetch.wait.max.ms": "100",
    "fetch.error.backoff.ms": "100",
    "log_level": "2",  # lost connections are told once, by the source itself
    "reconnect.backoff.max.ms": "1000",
}


@dataclass(frozen=True)
class SourceProperties:
    """What the source does, and ``client``, what its clients are made with: passwords, too, so they are never shown."""

    client: dict[str, str] = field(default_factory=dict, repr=False)
    client_id_prefix: str = "firesteel-kafka-source"
    group: str | None = None
    discovery_seconds: float | None = _DISCOVERY_MS / 1000
    commits: bool = True
    reset: KafkaOffsetResetStrategy | None = None
    timeout_seconds: float = _TIMEOUT_MS / 1000
    watch_seconds: float = _WATCH_MS / 1000

    @property
    def servers(self) -> str:
        """The brokers that the user named."""
        return self.client["bootstrap.servers"]

    @staticmethod
    def of(given: Mapping[str, str], bounded: bool) -> SourceProperties:
        """Sort out what the user gave."""
        if not given.get("bootstrap.servers"):
            raise InvalidArgumentError(
                "a Kafka source needs brokers: call set_bootstrap_servers('host:port') or set the property bootstrap.servers"
            )
        group = given.get("group.id") or None
        interval = _number(given, "partition.discovery.interval.ms", _DISCOVERY_MS)
        return SourceProperties(
            client={**_DEFAULTS, **_client_properties(given), **_FIXED},
            client_id_prefix=given.get("client.id.prefix") or group or "firesteel-kafka-source",
            group=group,
            discovery_seconds=interval / 1000 if interval > 0 and not bounded else None,
            commits=_truth(given, "commit.offsets.on.checkpoint", True) and group is not None,
            reset=_reset(given.get("auto.offset.reset")),
            timeout_seconds=_number(given, "default.api.timeout.ms", _TIMEOUT_MS) / 1000,
            watch_seconds=_number(given, "metadata.max.age.ms", _WATCH_MS) / 1000,
        )

    def for_client(self, name: str) -> dict[str, str]:
        """The properties of one client."""
        # A client of librdkafka must have a group; without the user's, this one is never used.
        group = self.group or f"{self.client_id_prefix}-without-group"
        return {**self.client, "group.id": group, "client.id": f"{self.client_id_prefix}-{name}"}


def _client_properties(given: Mapping[str, str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for key, value in given.items():
        security = security_properties(key, value, given)
        if security is not None:
            properties |= security
        elif key in _WITHOUT_MEANING:
            _LOG.info("the Kafka source has no use for the property %s, which is one of Java's client", key)
        elif key in _RENAMED:
            properties[_RENAMED[key]] = value if not value.startswith("-") else "0"
        elif key not in _FLINK and key not in _FIXED and key != "default.api.timeout.ms":
            properties[key] = value
    return properties


def _reset(value: str | None) -> KafkaOffsetResetStrategy | None:
    names = {
        "earliest": KafkaOffsetResetStrategy.EARLIEST, "beginning": KafkaOffsetResetStrategy.EARLIEST,
        "smallest": KafkaOffsetResetStrategy.EARLIEST, "latest": KafkaOffsetResetStrategy.LATEST,
        "end": KafkaOffsetResetStrategy.LATEST, "largest": KafkaOffsetResetStrategy.LATEST, "none": None, "error": None,
    }  # fmt: skip
    if value is None:
        return None
    if value.lower() not in names:
        raise InvalidArgumentError(
            f"the property auto.offset.reset is earliest, latest or none, got {value!r}"
        )
    return names[value.lower()]


def _number(given: Mapping[str, str], key: str, default: int) -> int:
    value = given.get(key)
    try:
        return default if value is None else int(value)
    except ValueError:
        raise InvalidArgumentError(
            f"the property {key} is a whole number of milliseconds, got {value!r}"
        ) from None


def _truth(given: Mapping[str, str], key: str, default: bool) -> bool:
    value = given.get(key)
    if value is None:
        return default
    if value.lower() not in ("true", "false"):
        raise InvalidArgumentError(f"the property {key} is true or false, got {value!r}")
    return value.lower() == "true"
