"""Security properties mean the same to source and sink, and secrets stay secret."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from firesteel.common.errors import FiresteelError, InvalidArgumentError
from firesteel.common.serialization import SimpleStringSchema
from firesteel.connectors.kafka.client_trouble import Trouble
from firesteel.connectors.kafka.sink_confluent import ConfluentCluster
from firesteel.connectors.kafka.sink_properties import SinkProperties
from firesteel.connectors.kafka.source_properties import SourceProperties
from firesteel.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

SERVERS = {"bootstrap.servers": "localhost:1"}
SECRET = "Sesame42"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def of_source(given: Mapping[str, str]) -> Mapping[str, str]:
    return SourceProperties.of({**SERVERS, **given}, False).client


def of_sink(given: Mapping[str, str]) -> Mapping[str, str]:
    return SinkProperties.of({**SERVERS, **given}).given


both = pytest.mark.parametrize("client_of", [of_source, of_sink])
Client = Callable[[Mapping[str, str]], Mapping[str, str]]


@both
def test_a_login_of_java_may_have_any_characters(client_of: Client) -> None:
    client = client_of({"sasl.jaas.config": MODULE + r""" username='a"n\'n' password="p;\"\\w";"""})
    assert (client["sasl.username"], client["sasl.password"]) == ("a\"n'n", r"p;\"\w".replace(r"\"", '"'))


@both
def test_stores_that_others_can_read_are_taken(client_of: Client) -> None:
    trusted = client_of({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"})
    assert trusted["ssl.ca.location"] == "/ca.pem"
    own = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/k.p12", "ssl.keystore.password": SECRET}
    keys = {key: value for key, value in client_of(own).items() if key.startswith("ssl.")}
    assert keys == {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": SECRET}
    assert client_of({"ssl.endpoint.identification.algorithm": ""})[
        "ssl.endpoint.identification.algorithm"
    ] == ("none")


@both
@pytest.mark.parametrize("store", ["ssl.truststore.location", "ssl.keystore.location", "ssl.keystore.key"])
def test_stores_of_java_are_refused(client_of: Client, store: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{store} is about a JKS store of Java") as raised:
        client_of({store: SECRET})
    assert SECRET not in str(raised.value)


def test_the_marker_of_the_sink_is_read_with_the_same_security() -> None:
    """A consumer is made of the producer's properties; one that is unknown to it would be refused."""
    secure = {
        "security.protocol": "SSL",
        "enable.ssl.certificate.verification": "false",
        "linger.ms": "5",
        "reconnect.backoff.ms": "50",
    }
    cluster = ConfluentCluster(SinkProperties.of({**SERVERS, **secure}))
    seen: dict[str, Any] = {}

    def remember(kind: Any, config: Mapping[str, Any]) -> None:
        seen.update(config)

    cluster._made = remember  # type: ignore[method-assign]
    cluster.consumer("g")
    assert seen["enable.ssl.certificate.verification"] == "false"
    assert "linger.ms" not in seen


LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": SECRET,
}


def test_no_description_of_a_source_or_sink_has_its_password() -> None:
    record = KafkaRecordSerializationSchema.builder().set_topic("t")
    record.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers("localhost:1").set_record_serializer(record.build())
    for key, value in LOGIN.items():
        sink.set_property(key, value)
    source = KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("t")
    source.set_value_only_deserializer(SimpleStringSchema()).set_properties(LOGIN)
    consumer = FlinkKafkaConsumer("t", SimpleStringSchema(), {**SERVERS, **LOGIN, "group.id": "g"})
    producer = FlinkKafkaProducer("t", SimpleStringSchema(), {**SERVERS, **LOGIN})
    for each in (sink, sink.build(), source, source.build(), consumer, consumer.as_source(), producer):
        assert SECRET not in repr(each)


def test_no_error_about_a_property_has_a_password() -> None:
    with pytest.raises(FiresteelError) as raised:
        KafkaSource.builder().set_property("sasl.password", SECRET.encode())  # type: ignore[arg-type]
    assert SECRET not in str(raised.value)
    assert "sasl.password" in str(raised.value)
    for key in ("sasl.pasword", "ssl.key.password"):
        built = KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("t")
        built.set_value_only_deserializer(SimpleStringSchema()).set_property("ssl.key.location", "/nowhere")
        with pytest.raises(FiresteelError) as raised:
            built.set_property("security.protocol", "SSL").set_property(key, SECRET).build()
        assert SECRET not in str(raised.value)


def test_trouble_is_told_once_in_a_while_with_the_best_reason(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble("sink", "somewhere:1")
    with caplog.at_level(logging.WARNING):
        for code, text in ((KafkaError._TRANSPORT, "refused"), (KafkaError._ALL_BROKERS_DOWN, "1/1 down")):
            trouble.note(KafkaError(code, text))
    assert trouble.reason == "refused (_TRANSPORT)"
    assert not trouble.refused
    assert [record.getMessage() for record in caplog.records] == [
        "the Kafka sink has trouble with somewhere:1, and tries again: refused (_TRANSPORT)"
    ]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (KafkaError._AUTHENTICATION, "wrong password"),
        (KafkaError._SSL, "not trusted"),
        (KafkaError._TRANSPORT, "SSL alert 42"),
    ],
)
def test_a_refusal_is_known_until_brokers_answer(code: int, text: str) -> None:
    trouble = Trouble("sink", "somewhere:1")
    trouble.note(KafkaError(code, text))
    assert trouble.refused
    trouble.is_over()
    assert not trouble.refused
