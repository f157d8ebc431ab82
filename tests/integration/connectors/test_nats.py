"""NATS: streams of JetStream in and out, against a real server that is killed and started again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from firesteel.common import WatermarkStrategy
from firesteel.common.errors import DeserializationError, InvalidArgumentError, JobExecutionError
from firesteel.contracts.dead_letter import DeadLetter
from firesteel.datastream import OutputTag
from firesteel.datastream.connectors import DeliveryGuarantee
from firesteel.datastream.connectors.base import Backoff
from firesteel.datastream.connectors.nats import NatsMessage, NatsSink, NatsSource
from firesteel.datastream.formats.json import JsonSchema
from firesteel.testing import CheckpointHarness, check_sink, check_source, simulated_environment
from firesteel_support.servers.nats import NatsServer

NAMES = itertools.count()
QUICK = Backoff(first=0.01, most=0.02, tries=3)
LONG = Backoff(0.05, 0.5, tries=1000)


def new_stream(server: NatsServer, texts: list[str], subject: str = "a") -> str:
    name = f"stream{next(NAMES)}"

    async def fill(jetstream: Any) -> None:
        await jetstream.add_stream(name=name, subjects=[f"{name}.>"])
        for text in texts:
            await jetstream.publish(f"{name}.{subject}", text.encode())

    server.do(fill)
    return name


def publish(server: NatsServer, subject: str, *texts: str) -> None:
    async def send(jetstream: Any) -> None:
        for text in texts:
            await jetstream.publish(subject, text.encode())

    server.do(send)


def messages_of(server: NatsServer, stream: str) -> list[bytes]:
    async def read(jetstream: Any) -> list[bytes]:
        last = (await jetstream.stream_info(stream)).state.last_seq
        return [(await jetstream.get_msg(stream, seq=number)).data for number in range(1, last + 1)]

    found: list[bytes] = server.do(read)
    return found


def text_of(message: NatsMessage) -> str:
    return message.data.decode("ascii")


def first_of(harness: CheckpointHarness) -> list[Any]:
    for _ in range(10_000):
        harness.woken.clear()
        if values := list(harness[0].poll()):
            return values
        assert harness.woken.wait(60)
    raise AssertionError("it is woken, and gives nothing")


TEXTS = [f"text {number}" for number in range(40)]


@pytest.mark.parametrize("bounded", [True, False])
def test_a_stream_passes_the_check_of_sources(nats_server: NatsServer, bounded: bool) -> None:
    stream = new_stream(nats_server, TEXTS)
    check_source(
        lambda: NatsSource(nats_server.url, stream, bounded=bounded, deserialize=text_of),
        TEXTS,
        split_of=lambda _: 0,
        seeds=range(4),
    )


def test_the_sink_passes_the_check_and_ids_leave_out_what_comes_again(nats_server: NatsServer) -> None:
    streams: list[str] = []

    def make() -> NatsSink:
        streams.append(new_stream(nats_server, []))
        subject = f"{streams[-1]}.out"
        return NatsSink(nats_server.url, lambda n: (subject, str(n)), id_of=lambda n: n, batch_size=4)

    check_sink(
        make,
        lambda: [int(data) for data in messages_of(nats_server, streams[-1])],
        guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
        idempotent=True,
        seeds=range(4),
    )


def test_records_know_their_subject_and_sequence(nats_server: NatsServer) -> None:
    stream = new_stream(nats_server, ["x"], "other")
    publish(nats_server, f"{stream}.wanted", "1", "2")
    source = NatsSource(nats_server.url, stream, subject=f"{stream}.wanted", bounded=True)
    publish(nats_server, f"{stream}.other", "y")
    harness = CheckpointHarness(source)
    harness[0].drain()
    harness.close()
    found = harness[0].output.values
    assert [(each.subject, each.sequence, each.data) for each in found] == [
        (f"{stream}.wanted", 2, b"1"),
        (f"{stream}.wanted", 3, b"2"),
    ]
    assert harness[0].output.timestamps == [each.timestamp for each in found]


def test_a_start_is_the_latest_or_a_sequence(nats_server: NatsServer) -> None:
    stream = new_stream(nats_server, ["a", "b", "c"])
    harness = CheckpointHarness(NatsSource(nats_server.url, stream, start=3, deserialize=text_of))
    assert first_of(harness) == ["c"]
    harness.close()
    harness = CheckpointHarness(NatsSource(nats_server.url, stream, start="latest", deserialize=text_of))
    publish(nats_server, f"{stream}.a", "d")
    assert first_of(harness) == ["d"]
    harness.close()


def test_a_message_that_does_not_fit_goes_to_a_side_output(nats_server: NatsServer) -> None:
    stream, bad = new_stream(nats_server, ["1", "many", "3"]), OutputTag("bad")
    env = simulated_environment(parallelism=1)
    source = NatsSource(nats_server.url, stream, bounded=True, deserialize=JsonSchema(int))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").on_error(dead_letter=bad)
    with numbers.union(numbers.get_side_output(bad)).execute_and_collect() as results:
        found = list(results)
    assert [number for number in found if isinstance(number, int)] == [1, 3]
    (letter,) = [letter for letter in found if isinstance(letter, DeadLetter)]
    assert letter.value == b"many"
    assert letter.where == {"stream": stream, "sequence": 2, "subject": f"{stream}.a"}
    with pytest.raises(DeserializationError, match=f"b'many', of stream '{stream}', sequence 2"):
        CheckpointHarness(source)[0].drain()


# Trouble ------------------------------------------------------------------------------------------------------


def test_reading_and_writing_go_on_when_the_server_comes_back(nats_server: NatsServer) -> None:
    stream = new_stream(nats_server, ["a"])
    source = CheckpointHarness(NatsSource(nats_server.url, stream, deserialize=text_of, backoff=LONG))
    sink = CheckpointHarness(NatsSink(nats_server.url, lambda text: (f"{stream}.a", text), backoff=LONG))
    values = first_of(source)
    nats_server.server.kill()
    nats_server.server.start()
    sink[0].process(["b"])
    sink.checkpoint(1)
    while "b" not in values:
        values += first_of(source)
    source.close()
    sink.close()
    assert values == ["a", "b"]


def test_messages_that_were_removed_while_the_job_was_down_are_no_secret(nats_server: NatsServer) -> None:
    stream = new_stream(nats_server, TEXTS[:6])
    harness = CheckpointHarness(NatsSource(nats_server.url, stream, deserialize=text_of))
    harness[0].poll()
    read: list[Any] = []
    while len(read) < 2:
        harness.woken.clear()
        read += harness[0].poll(2 - len(read))
        if len(read) < 2:
            assert harness.woken.wait(60)
    saved = harness.checkpoint(1)
    harness.close()
    nats_server.do(lambda jetstream: jetstream.purge_stream(stream, seq=5))
    with pytest.raises(
        JobExecutionError, match="read up to message 2, and now begins with 5: messages were removed"
    ):
        first_of(CheckpointHarness(NatsSource(nats_server.url, stream, deserialize=text_of), restore=saved))
    tolerant = NatsSource(nats_server.url, stream, deserialize=text_of, allow_removed=True)
    again = CheckpointHarness(tolerant, restore=saved)
    assert first_of(again) == TEXTS[4:6]
    again.close()


def both(url: str, stream: str = "orders") -> list[Callable[[], Any]]:
    return [
        lambda: first_of(CheckpointHarness(NatsSource(url, stream, backoff=QUICK))),
        lambda: CheckpointHarness(NatsSink(url, lambda n: (f"{stream}.a", n), backoff=QUICK)),
    ]


def test_a_server_that_is_not_there_fails_the_job_with_its_address() -> None:
    for begin in both("nats://me:hidden@127.0.0.1:1"):
        with pytest.raises(JobExecutionError, match=r"nats://127.0.0.1:1 .*failed in 4 tries: ") as caught:
            begin()
        assert "hidden" not in str(caught.value)


def test_a_wrong_password_is_told_at_once(nats_server: NatsServer) -> None:
    for begin in both(f"nats://me:wrong@127.0.0.1:{nats_server.port}"):
        with pytest.raises(JobExecutionError, match=r"refuses the connection: .*check user and password"):
            begin()


def test_a_stream_that_is_not_there_is_named(nats_server: NatsServer) -> None:
    with pytest.raises(JobExecutionError, match="there is no stream 'nowhere' at nats://127"):
        first_of(CheckpointHarness(NatsSource(nats_server.url, "nowhere")))
    sink = CheckpointHarness(NatsSink(nats_server.url, lambda n: ("nowhere.a", n), backoff=QUICK))
    sink[0].process(["a"])
    with pytest.raises(JobExecutionError, match="no stream takes"):
        sink.checkpoint(1)
    sink.close()


def test_arguments_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="got one with the scheme 'http' and the host 'a'"):
        NatsSource("http://a", "s")
    with pytest.raises(InvalidArgumentError, match="a sequence from 1 on, got 0"):
        NatsSource("nats://a", "s", start=0)
