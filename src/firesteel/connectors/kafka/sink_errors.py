"""What errors of the Kafka client mean: a sentence for those that no other try will cure, an unknown outcome for the rest."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError

from firesteel.common.errors import FiresteelError, ProgramError, SetupError, short_repr
from firesteel.connectors.kafka.client_trouble import refusal
from firesteel.connectors.kafka.sink_client import FencedError, OutgoingRecord, UnknownOutcomeError
from firesteel.connectors.kafka.sink_properties import SinkProperties

__all__ = ["DOES_NOT_EXIST", "NOT_READY", "NO_ANSWER", "explained"]

#: The topic, or the partition.
DOES_NOT_EXIST = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
#: Who keeps the offsets of a group is not known yet, or does not know the end of a transaction yet.
NOT_READY = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
#: Nobody answers.
NO_ANSWER = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT}
)
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_NOT_ALLOWED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "write to the topic {topic!r} (EXACTLY_ONCE: read it, too, for the marker)",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "read the group {id!r}, in whose offsets the marker is; groups have the names of "
    "transactional ids, so allow the prefix",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "use the transactional id {id!r}; allow the prefix",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "write idempotently (IdempotentWrite on the cluster)",
}
_WRONG_LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})


def explained(
    error: Any,
    properties: SinkProperties,
    topic: str,
    record: OutgoingRecord | None = None,
    transactional_id: str | None = None,
) -> FiresteelError | UnknownOutcomeError:
    """The error to raise for one of the client."""
    code, said = (None, "no answer") if error is None else (error.code(), error.str())
    if code in DOES_NOT_EXIST or code is None:
        return ProgramError(
            f"the topic {topic!r} does not exist at {properties.servers}, or not any more ({said}); create it, or correct its name"
        )
    if code in _FENCED:
        return FencedError(
            f"another producer has initialised the transactional id {transactional_id!r} ({said})"
        )
    if code in _TOO_LARGE:
        return _too_large(said, topic, record)
    if code in _NOT_ALLOWED:
        what = _NOT_ALLOWED[code].format(topic=topic, id=transactional_id)
        return SetupError(f"the user of the Kafka sink is not allowed to {what} ({said})")
    if code in _WRONG_LOGIN:
        return SetupError(refusal(properties.servers, said))
    if code == KafkaError.TOPIC_EXCEPTION:
        return ProgramError(f"{topic!r} cannot be the name of a topic ({said})")
    if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return ProgramError(
            f"transaction.timeout.ms is larger than the cluster allows ({said}); leave it out: transactions of this sink "
            "take no longer than their writing"
        )
    if code == KafkaError._MSG_TIMED_OUT:
        return UnknownOutcomeError(
            f"records for the topic {topic!r} could not be delivered to {properties.servers} within delivery.timeout.ms ({said}); "
            "check that the brokers run and can be reached from here"
        )
    if code in NO_ANSWER:
        return UnknownOutcomeError(
            f"no Kafka broker answers at {properties.servers} within {properties.max_block_ms / 1000:g} s, or one has not "
            f"finished in that time ({said}); check bootstrap.servers and that the brokers run"
        )
    return UnknownOutcomeError(f"Kafka at {properties.servers}: {said} (code {code})")


def _too_large(said: str, topic: str, record: OutgoingRecord | None) -> ProgramError:
    what = "a record"
    if record is not None:
        size = len(record.value or b"") + len(record.key or b"")
        what = f"a record of {size} bytes, with key {short_repr(record.key)},"
    return ProgramError(
        f"{what} is too large for the topic {topic!r} ({said}); raise max.request.size of the sink and "
        "max.message.bytes of the topic, or write less in one record"
    )
