"""The page about the Kafka sink is true: its programs run against a broker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from firesteel.testing import use_simulator
from firesteel_support.servers.kafka import KafkaBroker

PAGE = Path(__file__).parents[3] / "docs" / "kafka_sink.md"
BLOCK = re.compile(r"^```py kafka\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_programs_of_the_page_run(kafka: KafkaBroker) -> None:
    for topic in ("words", "large", "small", "purchases", "totals"):
        kafka.create_topic(topic, retention_ms="-1")  # times of long ago
    for customer, cents, at in [
        ("ann", 500, 1_000),
        ("bob", 70, 2_000),
        ("ann", 30, 59_999),
        ("ann", 9, 60_000),
    ]:
        kafka.produce("purchases", [json.dumps({"customer": customer, "cents": cents, "at": at}).encode()])
    names: dict[str, Any] = {"__name__": "page"}
    with use_simulator():
        for text in BLOCK.findall(PAGE.read_text()):
            exec(text.replace("localhost:9092", kafka.bootstrap_servers), names)
    assert sorted(kafka.values("words")) == [b"be", b"not", b"or", b"to"]
    totals = [json.loads(value) for value in kafka.values("totals")]
    assert sorted((each["customer"], each["cents"]) for each in totals) == [
        ("ann", 9),
        ("ann", 530),
        ("bob", 70),
    ]
    (large,), (small,) = kafka.consume("large"), kafka.consume("small")
    assert (large.key(), large.value(), large.timestamp()[1]) == (b"NL", b"250", 1_700_000_000_000)
    assert small.headers() == [("version", b"1"), ("country", b"IT")]
