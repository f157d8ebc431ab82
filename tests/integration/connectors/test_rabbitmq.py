"""RabbitMQ: a queue in and a queue out, against a real server that is killed and started again."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

from firesteel.common import SimpleStringSchema
from firesteel.common.errors import DeserializationError, InvalidArgumentError, JobExecutionError
from firesteel.contracts.dead_letter import DeadLetter
from firesteel.datastream import OutputTag
from firesteel.datastream.connectors import DeliveryGuarantee, Source
from firesteel.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from firesteel.testing import CheckpointHarness, check_sink, check_source, simulated_environment
from firesteel_support.servers.rabbitmq import RabbitServer

NAMES = itertools.count()
DURABLE = 2


@pytest.fixture
def channel(rabbitmq_server: RabbitServer) -> Iterator[Any]:
    connection = rabbitmq_server.connect()
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.fixture
def config(rabbitmq_server: RabbitServer) -> RMQConnectionConfig:
    return builder(rabbitmq_server).build()


def builder(server: RabbitServer) -> RMQConnectionConfig.Builder:
    return (
        RMQConnectionConfig.Builder().set_host("127.0.0.1").set_port(server.port).set_virtual_host("/")
        .set_user_name("guest").set_password("guest")
    )  # fmt: skip


def new_queue(channel: Any, texts: list[str]) -> str:
    name = f"queue {next(NAMES)}"
    channel.queue_declare(name, durable=True)
    for text in texts:
        properties = pika.BasicProperties(correlation_id=text, delivery_mode=DURABLE)
        channel.basic_publish("", name, text.encode(), properties)
    return name


def source_of(config: RMQConnectionConfig, queue: str, ids: bool = False) -> Source[Any]:
    return RMQSource(config, queue, ids, SimpleStringSchema()).as_source()


def first_of(harness: CheckpointHarness) -> list[Any]:
    for _ in range(10_000):
        harness.woken.clear()
        if values := list(harness[0].poll()):
            return values
        assert harness.woken.wait(60)
    raise AssertionError("it is woken, and gives nothing")


TEXTS = [f"text {number}" for number in range(40)]


@pytest.mark.parametrize("ids", [False, True])
def test_a_queue_passes_the_check_of_sources(config: RMQConnectionConfig, channel: Any, ids: bool) -> None:
    check_source(
        lambda: source_of(config, new_queue(channel, TEXTS), ids),
        TEXTS,
        guarantee=DeliveryGuarantee.EXACTLY_ONCE if ids else DeliveryGuarantee.AT_LEAST_ONCE,
        seeds=range(8),
    )


def test_the_sink_passes_the_check(config: RMQConnectionConfig, channel: Any) -> None:
    seen: list[str] = []
    queues: list[str] = []

    def make() -> RMQSink:
        seen.clear()
        queues.append(new_queue(channel, []))
        return RMQSink(config, queues[-1], SimpleStringSchema())

    def read_back() -> list[str]:
        while (got := channel.basic_get(queues[-1], auto_ack=True))[0] is not None:
            seen.append(got[2].decode())
        return seen

    check_sink(
        make, read_back, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, record=lambda n: f"n{n}", seeds=range(6)
    )


class UntilEnd(SimpleStringSchema):
    def is_end_of_stream(self, next_element: Any) -> bool:
        return bool(next_element == "end")


def test_a_job_as_pyflink_has_it_runs(config: RMQConnectionConfig, channel: Any) -> None:
    into, out = new_queue(channel, [*TEXTS, "end", "never"]), new_queue(channel, [])
    env = simulated_environment(parallelism=2)
    env.enable_checkpointing(1000)
    stream = env.add_source(RMQSource(config, into, True, UntilEnd())).set_parallelism(1)
    stream.map(lambda text: text.upper()).add_sink(RMQSink(config, out, SimpleStringSchema()))
    env.execute()
    written = [channel.basic_get(out, auto_ack=True)[2].decode() for _ in TEXTS]
    assert sorted(written) == sorted(text.upper() for text in TEXTS)
    assert channel.basic_get(into, auto_ack=True)[2] == b"never"


def test_only_what_a_complete_checkpoint_has_is_acknowledged(
    config: RMQConnectionConfig, channel: Any
) -> None:
    queue = new_queue(channel, TEXTS)
    harness = CheckpointHarness(source_of(config, queue))
    harness[0].poll()
    read: list[Any] = []
    while len(read) < 5:
        harness.woken.clear()
        read += harness[0].poll(5 - len(read))
        if not read:
            harness.woken.wait(60)
    harness.checkpoint(1)
    harness[0].poll(1)
    harness.complete(1)
    harness.close()
    assert read == TEXTS[:5]
    assert channel.queue_declare(queue, passive=True).method.message_count == len(TEXTS) - 5


@pytest.mark.parametrize("ids", [False, True])
def test_a_job_that_is_too_slow_leaves_messages_in_the_queue(
    config: RMQConnectionConfig, channel: Any, ids: bool
) -> None:
    queue = new_queue(channel, [])
    source = source_of(config, queue, ids)
    source.capacity = 1
    harness = CheckpointHarness(source)
    harness[0].poll()
    thread = harness[0].source._reader._thread  # type: ignore[union-attr]
    publish_numbers(channel, queue, range(100))
    until(lambda: thread.hand_over._waiting > 0)
    publish_numbers(channel, queue, range(100, 300))
    until(lambda: consumers(channel, queue) == 0)
    values: list[Any] = []
    while len(values) < 300:
        values += first_of(harness)
        harness.checkpoint(len(values))
        harness.complete(len(values))
    harness.close()
    assert sorted(map(int, values)) == list(range(300))
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def publish_numbers(channel: Any, queue: str, numbers: range) -> None:
    for number in numbers:
        properties = pika.BasicProperties(correlation_id=str(number))
        channel.basic_publish("", queue, str(number).encode(), properties)


def consumers(channel: Any, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.consumer_count)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(60_000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never happened")


def test_a_queue_that_is_deleted_while_it_is_read_is_declared_again(
    config: RMQConnectionConfig, channel: Any
) -> None:
    queue = new_queue(channel, ["a"])
    harness = CheckpointHarness(source_of(config, queue))
    assert first_of(harness) == ["a"]
    channel.queue_delete(queue)
    until(lambda: is_there(channel, queue))
    channel.basic_publish("", queue, b"b")
    assert first_of(harness) == ["b"]
    harness.close()


def is_there(channel: Any, queue: str) -> bool:
    """Whether it has a consumer again; asking for a queue that is not there closes the channel, so another one asks."""
    asking = channel.connection.channel()
    try:
        return consumers(asking, queue) > 0
    except pika.exceptions.ChannelClosedByBroker:
        return False
    finally:
        if asking.is_open:
            asking.close()


# Trouble ------------------------------------------------------------------------------------------------------


def test_reading_and_writing_go_on_when_the_server_comes_back(rabbitmq_server: RabbitServer) -> None:
    config = builder(rabbitmq_server).set_network_recovery_interval(2000).build()
    connection = rabbitmq_server.connect()
    queue, out = new_queue(connection.channel(), ["a", "b"]), new_queue(connection.channel(), [])
    connection.close()
    source = CheckpointHarness(source_of(config, queue, ids=True))
    sink = CheckpointHarness(RMQSink(config, out, SimpleStringSchema()))
    values: list[Any] = []
    while len(values) < 2:
        values += first_of(source)
    rabbitmq_server.server.kill()
    rabbitmq_server.server.start()
    connection = rabbitmq_server.connect()
    channel = connection.channel()
    channel.basic_publish("", queue, b"c", pika.BasicProperties(correlation_id="c"))
    values += first_of(source)
    source.close()
    sink[0].process(values)
    sink.checkpoint(1)
    sink.close()
    assert values == ["a", "b", "c"]
    assert [channel.basic_get(out, auto_ack=True)[2] for _ in range(3)] == [b"a", b"b", b"c"]
    connection.close()


def test_a_server_that_is_not_there_fails_the_job_with_its_address() -> None:
    config = (
        RMQConnectionConfig.Builder()
        .set_uri("amqp://me:secret@127.0.0.1:1/shop")
        .set_automatic_recovery(False)
    )
    with pytest.raises(
        JobExecutionError, match=r"reading the queue 'orders' of amqp://127.0.0.1:1/shop failed: .*refused"
    ) as caught:
        first_of(CheckpointHarness(source_of(config.build(), "orders")))
    assert "secret" not in str(caught.value)
    with pytest.raises(JobExecutionError, match=r"writing to the queue 'orders' .*failed: .*refused"):
        CheckpointHarness(RMQSink(config.build(), "orders", SimpleStringSchema()))


def both(config: RMQConnectionConfig, queue: str) -> list[Callable[[], Any]]:
    return [
        lambda: first_of(CheckpointHarness(source_of(config, queue))),
        lambda: CheckpointHarness(RMQSink(config, queue, SimpleStringSchema())),
    ]


def test_a_wrong_password_and_a_wrong_virtual_host_are_told_at_once(rabbitmq_server: RabbitServer) -> None:
    for begin in both(builder(rabbitmq_server).set_password("wrong").build(), "orders"):
        with pytest.raises(
            JobExecutionError, match=r"refuses the queue 'orders': .*check user name and password"
        ):
            begin()
    for begin in both(builder(rabbitmq_server).set_virtual_host("nowhere").build(), "orders"):
        with pytest.raises(JobExecutionError, match="check the virtual host"):
            begin()


def test_a_queue_of_another_kind_is_refused_with_its_properties(
    config: RMQConnectionConfig, channel: Any
) -> None:
    name = f"queue {next(NAMES)}"
    channel.queue_declare(name, durable=False)
    for begin in both(config, name):
        with pytest.raises(JobExecutionError, match=r"406 PRECONDITION_FAILED.*declares queues as durable"):
            begin()


def test_a_missing_queue_is_declared(config: RMQConnectionConfig, channel: Any) -> None:
    name = f"queue {next(NAMES)}"
    harness = CheckpointHarness(RMQSink(config, name, SimpleStringSchema()))
    harness[0].process(["a"])
    harness.checkpoint(1)
    assert channel.basic_get(name, auto_ack=True)[2] == b"a"
    channel.queue_delete(name)
    harness[0].process(["b"])
    with pytest.raises(JobExecutionError, match=f"1 messages came back .* the queue '{name}' was deleted"):
        harness.checkpoint(2)
    harness.close()


def test_a_message_without_a_correlation_id_is_shown(config: RMQConnectionConfig, channel: Any) -> None:
    name = new_queue(channel, [])
    channel.basic_publish("", name, b"a")
    with pytest.raises(JobExecutionError, match="has no correlation id: b'a'; exactly-once needs one"):
        first_of(CheckpointHarness(source_of(config, name, ids=True)))


class Ascii(UntilEnd):
    def deserialize(self, message: bytes) -> str:
        return message.decode("ascii")


def test_a_message_that_does_not_fit_the_schema_is_shown(config: RMQConnectionConfig, channel: Any) -> None:
    name = new_queue(channel, [])
    channel.basic_publish("", name, b"\xff")
    source = RMQSource(config, name, False, Ascii()).as_source()
    with pytest.raises(
        DeserializationError, match=rf"the message is b'\\xff', of queue '{name}', delivery_tag 1"
    ):
        first_of(CheckpointHarness(source))


def test_a_message_that_does_not_fit_goes_to_a_side_output_and_is_acknowledged(
    config: RMQConnectionConfig, channel: Any
) -> None:
    name, bad = new_queue(channel, ["a"]), OutputTag("bad")
    channel.basic_publish("", name, b"\xff", pika.BasicProperties(correlation_id="7"))
    for text in (b"b", b"end"):
        channel.basic_publish("", name, text, pika.BasicProperties(correlation_id=text.decode()))
    env = simulated_environment(parallelism=1)
    env.enable_checkpointing(1000)
    texts = env.add_source(RMQSource(config, name, True, Ascii())).on_error(dead_letter=bad)
    with texts.union(texts.get_side_output(bad)).execute_and_collect() as results:
        found = list(results)
    assert [text for text in found if isinstance(text, str)] == ["a", "b"]
    (letter,) = [letter for letter in found if isinstance(letter, DeadLetter)]
    assert letter.value == b"\xff"
    assert letter.where == {"queue": name, "delivery_tag": 2, "correlation_id": "7"}
    assert channel.queue_declare(name, passive=True).method.message_count == 0


def test_settings_are_told_and_a_host_is_needed() -> None:
    config = (
        RMQConnectionConfig.Builder().set_host("h").set_port(1).set_requested_heartbeat(5)
        .set_topology_recovery_enabled(False).set_connection_timeout(7).build()
    )  # fmt: skip
    assert (config.get_host(), config.get_port(), config.get_virtual_host()) == ("h", 1, "/")
    assert (config.get_requested_heartbeat(), config.get_connection_timeout()) == (5, 7)
    assert not config.is_topology_recovery()
    assert config.is_automatic_recovery()
    with pytest.raises(InvalidArgumentError, match="needs a host or a URI"):
        RMQConnectionConfig.Builder().build()
