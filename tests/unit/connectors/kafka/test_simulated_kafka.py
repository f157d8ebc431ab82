"""The simulated broker does what tests/integration/connectors/test_kafka_sink_contract.py shows that a real one does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firesteel_support.kafka_contract import CHECKS, Subject
from firesteel_support.simulated_kafka import SimulatedKafka


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_simulated_broker_keeps_the_contract(check: Callable[[Subject], None]) -> None:
    cluster = SimulatedKafka({"topic": 2})

    def read(topic: str) -> list[bytes]:
        return [record.value or b"" for record in cluster.read(topic)]

    check(Subject(cluster, "topic", read))
