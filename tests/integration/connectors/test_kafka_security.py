"""Kafka with certificates and with passwords, on a real broker: they open what they should, and nobody tells them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from firesteel.common import SimpleStringSchema, WatermarkStrategy
from firesteel.datastream.connectors.base import DeliveryGuarantee
from firesteel.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from firesteel.testing import simulated_environment
from firesteel_support.servers.kafka import PASSWORD, USER, KafkaBroker

WRONG = "Sesame42"
NO_WAY_IN = "cannot be used with these security properties"


def properties(kafka: KafkaBroker, how: str) -> dict[str, str]:
    if how == "certificate":
        return kafka.with_certificate()
    if how != "JAAS":
        return kafka.with_password(how)
    given = kafka.with_password("PLAIN")
    password = given.pop("sasl.password").replace('"', r"\"")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return given | {
        "sasl.jaas.config": f'{module} required username="{given.pop("sasl.username")}" password="{password}";'
    }


def source(topic: str, given: Mapping[str, str]) -> KafkaSource[Any]:
    built = KafkaSource.builder().set_topics(topic).set_value_only_deserializer(SimpleStringSchema())
    return built.set_bounded(KafkaOffsetsInitializer.latest()).set_group_id("g").set_properties(given).build()


def sink(
    topic: str,
    given: Mapping[str, str],
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
) -> KafkaSink:
    record = KafkaRecordSerializationSchema.builder().set_topic(topic)
    record.set_value_serialization_schema(SimpleStringSchema())
    built = KafkaSink.builder().set_delivery_guarantee(guarantee).set_record_serializer(record.build())
    for key, value in given.items():
        built.set_property(key, value)
    return built.build()


@pytest.mark.parametrize("how", ["certificate", "PLAIN", "SCRAM-SHA-256", "JAAS"])
def test_a_job_reads_and_writes_exactly_once(kafka: KafkaBroker, how: str) -> None:
    given, origin, target = properties(kafka, how), kafka.topic("origin"), kafka.topic("target")
    kafka.produce(origin, ["a", "b"])
    env = simulated_environment(parallelism=1)
    stream = env.from_source(source(origin, given), WatermarkStrategy.no_watermarks(), "origin")
    stream.sink_to(sink(target, given, DeliveryGuarantee.EXACTLY_ONCE))
    env.execute()
    assert kafka.values(target) == [b"a", b"b"]


def refused(kafka: KafkaBroker, what: str, given: Mapping[str, str]) -> str:
    """What a job says that is not let in."""
    topic = kafka.topic(what)
    env = simulated_environment(parallelism=1)
    if what == "source":
        stream = env.from_source(source(topic, given), WatermarkStrategy.no_watermarks(), "topic")
        stream.print()
    else:
        env.from_collection(["a"]).sink_to(sink(topic, given))
    with pytest.raises(Exception, match=NO_WAY_IN) as failed:
        env.execute()
    causes = [failed.value, failed.value.__cause__, failed.value.__context__]
    assert not any(secret in f"{each} {each!r}" for each in causes for secret in (WRONG, PASSWORD))
    return str(failed.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("what", ["source", "sink"])
def test_a_wrong_password_is_told_and_nobodys_password_is_shown(
    kafka: KafkaBroker, what: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {**kafka.with_password(mechanism), "sasl.password": WRONG, "debug": "security,conf"}
    with caplog.at_level(logging.DEBUG):
        said = refused(kafka, what, wrong)
    assert "Authentication failed" in said
    assert "check security.protocol, sasl.mechanism, sasl.username, sasl.password" in said
    assert f"the Kafka {what} has trouble with" in caplog.text
    assert WRONG not in caplog.text


@pytest.mark.parametrize("what", ["source", "sink"])
def test_a_certificate_that_nobody_trusts_is_told(kafka: KafkaBroker, what: str) -> None:
    strange = {**kafka.with_password("PLAIN"), "ssl.ca.location": str(kafka.certificates.stranger)}
    assert "certificate verify failed" in refused(kafka, what, strange)
    without = {
        key: value
        for key, value in kafka.with_certificate().items()
        if key not in ("ssl.certificate.location", "ssl.key.location")
    }
    assert "alert bad certificate" in refused(kafka, what, without)


def test_a_user_who_is_not_known_is_told(kafka: KafkaBroker) -> None:
    assert "Authentication failed" in refused(
        kafka, "sink", {**kafka.with_password("PLAIN"), "sasl.username": f"not {USER}"}
    )
