"""A real Kafka broker for tests: one process in KRaft mode on loopback, with what tests do to it.

Besides the plain listener it has one for clients with certificates and one for users with passwords, and it asks who may do
what: so one broker is enough for nearly all tests.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from firesteel_support.servers import Server, free_port, running
from firesteel_support.servers.certificates import Certificates
from firesteel_support.servers.maven import jars, java

__all__ = ["PASSWORD", "USER", "VERSION", "KafkaBroker", "kafka", "kafka_broker"]

VERSION = "4.1.1"

#: Whom the listener for passwords knows, for the mechanisms PLAIN and SCRAM.
USER = "ann"
PASSWORD = 'a secret; "quoted"'

#: For what will never happen: machines may be slow.
_PATIENCE = 120.0

_JVM = ["-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]

#: One broker has all replicas; groups and transactions begin at once; topics are made on purpose only.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "3000",  # a broker that was killed may come back after this
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.enable": "false",
    "controller.quorum.election.timeout.ms": "300",
}


class KafkaBroker:
    """A broker that runs, and the calls that tests make; each topic's name is made unique by `topic`."""

    def __init__(
        self, server: Server, bootstrap_servers: str, secured: Mapping[str, str], certificates: Certificates
    ) -> None:
        self.server = server
        self.bootstrap_servers = bootstrap_servers
        self._secured = secured
        self.certificates = certificates
        self._admin: Any = None

    def kill(self) -> None:
        """End the broker at once, as a crash does."""
        self.server.kill()

    def stop(self) -> None:
        """Shut the broker down."""
        self.server.stop()

    def start(self) -> None:
        """Start a broker that was killed or stopped: same ports, same logs."""
        self.server.start()

    def restart(self) -> None:
        """Kill the broker and start it again."""
        self.kill()
        self.start()

    def with_certificate(self) -> dict[str, str]:
        """Properties of a client that has a certificate."""
        client = str(self.certificates.client)
        return {
            "bootstrap.servers": self._secured["SSL"],
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "ssl.certificate.location": client,
            "ssl.key.location": client,
        }

    def with_password(self, mechanism: str) -> dict[str, str]:
        """Properties of a client that has a password."""
        if mechanism != "PLAIN":
            self._add_scram_user(mechanism)
        return {
            "bootstrap.servers": self._secured["SASL_SSL"],
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def _add_scram_user(self, mechanism: str) -> None:
        from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

        known = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], 4096)
        added = [UserScramCredentialUpsertion(USER, known, PASSWORD.encode())]
        for done in self.admin().alter_user_scram_credentials(added).values():
            done.result(_PATIENCE)

    def topic(self, name: str = "topic", partitions: int = 1, **config: str) -> str:
        """Make a new topic whose name begins with ``name``; settings are spelled with ``_`` for ``.``."""
        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        self.create_topic(unique, partitions, **config)
        return unique

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic of exactly this name."""
        from confluent_kafka.admin import NewTopic

        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        for done in self.admin().create_topics([new]).values():
            done.result(_PATIENCE)
        self._wait_for_partitions(name, partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have this many partitions."""
        from confluent_kafka.admin import NewPartitions

        for done in self.admin().create_partitions([NewPartitions(topic, total)]).values():
            done.result(_PATIENCE)
        self._wait_for_partitions(topic, total)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        for done in self.admin().delete_topics([topic]).values():
            done.result(_PATIENCE)

    def delete_records_before(self, topic: str, partition: int, offset: int) -> None:
        """Do what retention does: records before ``offset`` are gone."""
        from confluent_kafka import TopicPartition

        for done in self.admin().delete_records([TopicPartition(topic, partition, offset)]).values():
            done.result(_PATIENCE)

    def produce(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        timestamp: int = 0,
    ) -> None:
        """Write records, and return when the broker has them."""
        from confluent_kafka import Producer

        failed: list[Any] = []
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5})
        chosen: dict[str, Any] = {} if partition is None else {"partition": partition}
        if headers is not None:
            chosen["headers"] = list(headers)
        for value in values:
            while True:
                try:
                    producer.produce(
                        topic,
                        value,
                        key,
                        timestamp=timestamp,
                        on_delivery=lambda error, _: failed.extend([error] if error else []),
                        **chosen,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(_PATIENCE)
        assert (left, failed) == (0, []), f"{left} records were not delivered: {failed[:1]}"

    def consume(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """All messages that a topic has now, one partition after the other, each in order."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": f"tests-{uuid.uuid4().hex}",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            found: list[Any] = []
            for partition in sorted(consumer.list_topics(topic, _PATIENCE).topics[topic].partitions):
                consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
                found += self._read_to_end(consumer)
            return found
        finally:
            consumer.close()

    def has_records(self, topic: str) -> bool:
        """Whether something was written to a topic; unlike `consume` this comes to an end while somebody writes."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "tests"})
        try:
            partitions = consumer.list_topics(topic, _PATIENCE).topics[topic].partitions
            ends = [
                consumer.get_watermark_offsets(TopicPartition(topic, n), _PATIENCE)[1] for n in partitions
            ]
            return any(ends)
        finally:
            consumer.close()

    def values(self, topic: str, isolation: str = "read_committed") -> list[bytes]:
        """The values of all messages that a topic has now."""
        return [message.value() for message in self.consume(topic, isolation)]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a group has committed, by partition."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = self.admin().list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        offsets = next(iter(asked.values())).result(_PATIENCE).topic_partitions
        return {each.partition: each.offset for each in offsets if each.topic == topic}

    def admin(self) -> Any:
        """A client that administers the broker."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:  # kept: a client that nobody holds ends, and with it what was asked
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        return self._admin

    @staticmethod
    def _read_to_end(consumer: Any) -> Iterator[Any]:
        from confluent_kafka import KafkaError

        while True:
            message = consumer.poll(_PATIENCE)
            assert message is not None, "the broker does not answer"
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise AssertionError(f"consuming failed: {error}")

    def _wait_for_partitions(self, topic: str, count: int) -> None:
        """Brokers answer that a topic is made before every one of them knows it."""
        admin = self.admin()
        while True:
            found = admin.list_topics(timeout=_PATIENCE).topics.get(topic)
            if found is not None and not found.error and len(found.partitions) == count:
                return


def kafka_broker(
    directory: Path, settings: Mapping[str, str] | None = None, jvm: Sequence[str] = _JVM
) -> Iterator[KafkaBroker]:
    """A new broker in a directory of its own; ``settings`` go into its server.properties, ``jvm`` are options of Java."""
    place = jars("Kafka", f"kafka-{VERSION}", f"org.apache.kafka:kafka_2.13:{VERSION}")
    listeners = {name: f"127.0.0.1:{free_port()}" for name in ("PLAINTEXT", "CONTROLLER", "SSL", "SASL_SSL")}
    certificates = Certificates.made_in(directory)
    properties = directory / "server.properties"
    chosen = {
        **_SETTINGS,
        "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
        "controller.quorum.bootstrap.servers": listeners["CONTROLLER"],
        "log.dirs": str(directory / "logs"),
        **_security(certificates),
        **(settings or {}),
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
    command = [java("Kafka"), *jvm, "-cp", f"{place}/*"]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # One word, not two: a name that begins with "-", as one in 64 does, would be taken for another option.
    named = f"--cluster-id={cluster}"
    _run([*command, "kafka.tools.StorageTool", "format", "--standalone", named, "-c", str(properties)])
    address = listeners["PLAINTEXT"]
    with running("kafka", [*command, "kafka.Kafka", str(properties)], directory, _Answers(address)) as server:
        yield KafkaBroker(server, address, listeners, certificates)


def _security(certificates: Certificates) -> dict[str, str]:
    """Who may connect to the listeners that are not plain."""
    modules = "org.apache.kafka.common.security"
    password = PASSWORD.replace('"', r"\\\"")  # backslashes are escapes in such files, too
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required "
        f'user_{USER}="{password}";',
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
    }


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for all tests of a process."""
    yield from kafka_broker(tmp_path_factory.mktemp("kafka"))


class _Answers:
    """Whether the broker tells about itself."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(self) -> bool:
        from confluent_kafka.admin import AdminClient

        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        return bool(client.list_topics(timeout=2.0).brokers)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
