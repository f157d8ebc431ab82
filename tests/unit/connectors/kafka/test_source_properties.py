"""Properties of the Kafka source: what goes to the client, what the source takes for itself, what is refused."""

from __future__ import annotations

import pytest

from firesteel.common.errors import InvalidArgumentError, WrongArgumentError
from firesteel.common.serialization import SimpleStringSchema
from firesteel.connectors.kafka.source_offsets import KafkaOffsetResetStrategy
from firesteel.connectors.kafka.source_properties import SourceProperties
from firesteel.contracts.source import Boundedness
from firesteel.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
)

SERVERS = {"bootstrap.servers": "a:1,b:2"}


def of(bounded: bool = False, **given: str) -> SourceProperties:
    return SourceProperties.of(
        {**SERVERS, **{key.replace("_", "."): value for key, value in given.items()}}, bounded
    )


def test_defaults_are_those_of_flink() -> None:
    properties = of()
    assert properties.discovery_seconds == 300
    assert not properties.commits  # there is no group
    assert of(group_id="g").commits
    assert properties.reset is None
    assert properties.client["isolation.level"] == "read_uncommitted"
    assert properties.client["enable.auto.commit"] == "false"


def test_a_bounded_source_looks_for_partitions_once() -> None:
    assert of(bounded=True).discovery_seconds is None
    assert of(partition_discovery_interval_ms="-1").discovery_seconds is None
    assert of(partition_discovery_interval_ms="1500").discovery_seconds == 1.5


def test_properties_of_flink_and_of_javas_client_do_not_reach_the_client() -> None:
    client = of(
        key_deserializer="x", max_poll_records="5", client_id_prefix="job", auto_offset_reset="latest"
    ).client
    assert not {"key.deserializer", "max.poll.records", "client.id.prefix"} & client.keys()
    assert client["auto.offset.reset"] == "error"


def test_names_of_javas_client_are_translated_and_those_of_librdkafka_pass() -> None:
    client = of(
        fetch_max_wait_ms="7", request_timeout_ms="900", receive_buffer_bytes="-1", debug="fetch"
    ).client
    assert client["fetch.wait.max.ms"] == "7"
    assert client["socket.timeout.ms"] == "900"
    assert client["socket.receive.buffer.bytes"] == "0"
    assert client["debug"] == "fetch"


def test_user_and_password_are_taken_from_javas_login_module() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    client = of(sasl_jaas_config=f"""{module} required username="ann" password='p"w';""").client
    assert (client["sasl.username"], client["sasl.password"]) == ("ann", 'p"w')
    with pytest.raises(InvalidArgumentError, match=r"sasl\.username and sasl\.password"):
        of(sasl_jaas_config="com.sun.security.auth.module.Krb5LoginModule required;")


def test_javas_key_stores_are_refused_unless_others_can_read_them() -> None:
    with pytest.raises(InvalidArgumentError, match=r"a JKS store of Java, .* set ssl\.ca\.location"):
        of(ssl_truststore_location="/x.jks")
    assert (
        of(ssl_truststore_location="/x.pem", ssl_truststore_type="PEM").client["ssl.ca.location"] == "/x.pem"
    )
    client = of(ssl_keystore_location="/k.p12", ssl_keystore_password="s", ssl_keystore_type="PKCS12").client
    assert client["ssl.keystore.location"] == "/k.p12"
    assert "ssl.keystore.type" not in client
    assert (
        of(ssl_endpoint_identification_algorithm="").client["ssl.endpoint.identification.algorithm"] == "none"
    )


def test_a_chosen_reset_is_known_and_a_wrong_one_refused() -> None:
    assert of(auto_offset_reset="earliest").reset is KafkaOffsetResetStrategy.EARLIEST
    assert of(auto_offset_reset="none").reset is None
    with pytest.raises(InvalidArgumentError, match="earliest, latest or none, got 'newest'"):
        of(auto_offset_reset="newest")


@pytest.mark.parametrize(
    ("key", "value"),
    [("partition.discovery.interval.ms", "soon"), ("commit.offsets.on.checkpoint", "maybe")],
)
def test_values_that_cannot_be_are_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"the property {key} is .*, got '{value}'"):
        SourceProperties.of({**SERVERS, key: value}, False)


def test_each_client_has_a_name_and_the_group_of_the_user() -> None:
    client = of(group_id="g", client_id_prefix="job").for_client("3")
    assert (client["client.id"], client["group.id"]) == ("job-3", "g")
    assert of().for_client("3")["group.id"]  # librdkafka cannot do without


def builder() -> KafkaSourceBuilder[str]:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:1")
        .set_value_only_deserializer(SimpleStringSchema())
    )


def test_what_is_missing_is_told_when_the_source_is_built() -> None:
    with pytest.raises(InvalidArgumentError, match="needs something to read"):
        builder().build()
    with pytest.raises(InvalidArgumentError, match="needs brokers"):
        KafkaSource.builder().set_topics("t").set_value_only_deserializer(SimpleStringSchema()).build()
    with pytest.raises(InvalidArgumentError, match="needs a deserializer"):
        KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("t").build()
    committed = KafkaOffsetsInitializer.committed_offsets()
    with pytest.raises(InvalidArgumentError, match=r"set_group_id\(\)"):
        builder().set_topics("t").set_starting_offsets(committed).build()


def test_what_is_wrong_is_told_when_the_source_is_built() -> None:
    with pytest.raises(InvalidArgumentError, match=r"already chosen"):
        builder().set_topics("t").set_topic_pattern("t.*")
    with pytest.raises(InvalidArgumentError, match="regular expression"):
        builder().set_topic_pattern("(")
    with pytest.raises(WrongArgumentError, match="KafkaOffsetsInitializer"):
        builder().set_starting_offsets("earliest")  # type: ignore[arg-type]
    with pytest.raises(WrongArgumentError, match=r"set_value_only_deserializer\(\)"):
        builder().set_deserializer(SimpleStringSchema())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"no\.such\.property"):
        builder().set_topics("t").set_property("no.such.property", "1").build()


def test_bounded_and_unbounded() -> None:
    latest = KafkaOffsetsInitializer.latest()
    built = builder().set_topics("t")
    assert built.build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert built.set_unbounded(latest).build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert built.set_bounded(latest).build().boundedness is Boundedness.BOUNDED


def test_the_old_consumer_begins_at_the_offsets_of_its_group_and_looks_for_partitions_when_told() -> None:
    consumer = FlinkKafkaConsumer(
        "t", SimpleStringSchema(), {"bootstrap.servers": "localhost:1", "group.id": "g"}
    )
    source = consumer.as_source()
    assert source.starting == KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST)
    assert source.properties.discovery_seconds is None
    properties = {**SERVERS, "group.id": "g", "flink.partition-discovery.interval-millis": "2000"}
    again = FlinkKafkaConsumer(["t", "u"], SimpleStringSchema(), properties).set_start_from_earliest()
    assert again.as_source().properties.discovery_seconds == 2
    assert again.as_source().starting == KafkaOffsetsInitializer.earliest()
