"""MQTT: topics in and out, against a real broker that is killed and started again."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from firesteel.common import WatermarkStrategy
from firesteel.common.errors import DeserializationError, InvalidArgumentError, JobExecutionError
from firesteel.contracts.dead_letter import DeadLetter
from firesteel.contracts.source import SourceReaderContext
from firesteel.datastream import OutputTag
from firesteel.datastream.connectors import DeliveryGuarantee
from firesteel.datastream.connectors.base import Backoff
from firesteel.datastream.connectors.mqtt import MqttMessage, MqttSink, MqttSource
from firesteel.datastream.formats.json import JsonSchema
from firesteel.testing import CheckpointHarness, check_sink, check_source, simulated_environment
from firesteel_support.servers.mosquitto import Mosquitto

NAMES = itertools.count()
QUICK = Backoff(first=0.01, most=0.02, tries=3)
AT_LEAST_ONCE = DeliveryGuarantee.AT_LEAST_ONCE


class Onlooker:
    """The test's own client: publishes, and keeps what comes."""

    def __init__(self, broker: Mosquitto) -> None:
        self.came: list[tuple[str, bytes]] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.client.username_pw_set("me", "secret")
        self.client.on_message = lambda _c, _d, message: self.came.append((message.topic, message.payload))
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()

    def publish(self, topic: str, texts: list[str]) -> None:
        for text in texts:
            self.client.publish(topic, text, qos=1).wait_for_publish(60)


@pytest.fixture
def onlooker(mosquitto: Mosquitto) -> Iterator[Onlooker]:
    onlooker = Onlooker(mosquitto)
    yield onlooker
    onlooker.client.disconnect()
    onlooker.client.loop_stop()


def text_of(message: MqttMessage) -> str:
    return message.payload.decode("ascii")


def subscribed(broker: Mosquitto, *topics: str, **options: Any) -> MqttSource:
    """A source whose session the broker knows already."""
    source = MqttSource(broker.url, *topics, client_id=f"job-{next(NAMES)}", deserialize=text_of, **options)
    source.connect(SourceReaderContext(0, 1, lambda: 0.0, lambda: None)).close()
    return source


def first_of(harness: CheckpointHarness) -> list[Any]:
    for _ in range(10_000):
        harness.woken.clear()
        if values := list(harness[0].poll()):
            return values
        assert harness.woken.wait(60)
    raise AssertionError("it is woken, and gives nothing")


TEXTS = [f"text {number}" for number in range(30)]


def test_topics_pass_the_check_of_sources(mosquitto: Mosquitto, onlooker: Onlooker) -> None:
    def make() -> MqttSource:
        topic = f"in/{next(NAMES)}/a"
        source = subscribed(mosquitto, topic)
        onlooker.publish(topic, TEXTS)
        return source

    check_source(make, TEXTS, guarantee=AT_LEAST_ONCE, seeds=range(6))


def test_the_sink_passes_the_check(mosquitto: Mosquitto, onlooker: Onlooker) -> None:
    topics: list[str] = []
    ready: list[Any] = []
    onlooker.client.on_subscribe = lambda *details: ready.append(details)

    def make() -> MqttSink:
        topics.append(f"out/{next(NAMES)}")
        topic = topics[-1]
        onlooker.client.subscribe(topic, qos=1)
        until(lambda: len(ready) == len(topics))
        return MqttSink(mosquitto.url, lambda number: (topic, str(number)), batch_size=4)

    def read_back() -> list[int]:
        """All that was published before this: a mark comes behind it."""
        mark = f"mark {next(NAMES)}"
        onlooker.publish(topics[-1], [mark])
        until(lambda: (topics[-1], mark.encode()) in onlooker.came)
        return [int(body) for topic, body in list(onlooker.came) if topic == topics[-1] and body.isdigit()]

    check_sink(make, read_back, guarantee=AT_LEAST_ONCE, seeds=range(4))


def until(condition: Callable[[], bool]) -> None:
    for _ in range(60_000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never happened")


def test_records_know_their_topic(mosquitto: Mosquitto, onlooker: Onlooker) -> None:
    source = subscribed(mosquitto, "sensors/+/celsius")
    source.deserialize = None
    onlooker.publish("sensors/north/celsius", ["21.5"])
    harness = CheckpointHarness(source)
    assert first_of(harness) == [MqttMessage("sensors/north/celsius", b"21.5")]
    harness.close()


def test_reading_and_writing_go_on_when_the_broker_comes_back(mosquitto: Mosquitto) -> None:
    long = Backoff(0.05, 0.5, tries=1000)
    source = CheckpointHarness(subscribed(mosquitto, "back", backoff=long))
    sink = CheckpointHarness(MqttSink(mosquitto.url, lambda text: ("back", text), backoff=long))
    sink[0].process(["a"])
    sink.checkpoint(1)
    values = first_of(source)
    source.checkpoint(1)
    source.complete(1)
    mosquitto.server.stop()
    mosquitto.server.start()
    sink[0].process(["b"])
    sink.checkpoint(2)
    while "b" not in values:
        values += first_of(source)
    source.close()
    sink.close()
    assert values == ["a", "b"]


def both(url: str, topic: str = "orders") -> list[Callable[[], Any]]:
    return [
        lambda: first_of(CheckpointHarness(MqttSource(url, topic, client_id="x", backoff=QUICK))),
        lambda: CheckpointHarness(MqttSink(url, lambda n: (topic, n), backoff=QUICK)),
    ]


def test_a_broker_that_is_not_there_fails_the_job_with_its_address() -> None:
    for begin in both("mqtt://me:hidden@127.0.0.1:1"):
        with pytest.raises(
            JobExecutionError, match=r"mqtt://127.0.0.1:1 .*failed in 4 tries: .*refused"
        ) as caught:
            begin()
        assert "hidden" not in str(caught.value)


def test_a_wrong_password_is_told_at_once(mosquitto: Mosquitto) -> None:
    for begin in both(f"mqtt://me:wrong@127.0.0.1:{mosquitto.port}"):
        with pytest.raises(
            JobExecutionError, match=r"refuses the connection: .*check user name and password"
        ):
            begin()


def test_a_message_that_cannot_be_deserialized_is_shown(mosquitto: Mosquitto, onlooker: Onlooker) -> None:
    source = subscribed(mosquitto, "bad")
    onlooker.client.publish("bad", b"\xff", qos=1).wait_for_publish(60)
    with pytest.raises(DeserializationError, match=r"the message is b'\\xff', of topic 'bad'"):
        first_of(CheckpointHarness(source))


def test_a_message_that_does_not_fit_goes_to_a_side_output(mosquitto: Mosquitto, onlooker: Onlooker) -> None:
    source, bad = subscribed(mosquitto, "mixed"), OutputTag("bad")
    source.deserialize = JsonSchema(int)
    onlooker.publish("mixed", ["1", "many", "3"])
    env = simulated_environment(parallelism=1)
    env.enable_checkpointing(1000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "mixed").on_error(dead_letter=bad)
    found = numbers.union(numbers.get_side_output(bad)).execute_and_collect(limit=3)
    assert [number for number in found if isinstance(number, int)] == [1, 3]
    (letter,) = [letter for letter in found if isinstance(letter, DeadLetter)]
    assert (letter.value, letter.where) == (b"many", {"topic": "mixed"})


def test_arguments_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="got one with the scheme 'http' and the host 'a'"):
        MqttSource("http://a", "t", client_id="x")
    with pytest.raises(InvalidArgumentError, match="at least one topic"):
        MqttSource("mqtt://a", client_id="x")
    with pytest.raises(InvalidArgumentError, match="needs a client_id"):
        MqttSource("mqtt://a", "t", client_id="")
