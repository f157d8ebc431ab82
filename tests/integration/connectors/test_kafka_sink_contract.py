"""A real broker does what the simulated one does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firesteel.connectors.kafka.sink_confluent import ConfluentCluster
from firesteel.connectors.kafka.sink_properties import SinkProperties
from firesteel_support.kafka_contract import CHECKS, Subject
from firesteel_support.servers.kafka import KafkaBroker


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_real_broker_keeps_the_contract(check: Callable[[Subject], None], kafka: KafkaBroker) -> None:
    properties = SinkProperties.of({"bootstrap.servers": kafka.bootstrap_servers})
    cluster = ConfluentCluster(properties)
    check(Subject(cluster, kafka.topic("contract", partitions=2), kafka.values))
    cluster.close()
