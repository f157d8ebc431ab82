"""Redis: streams in, commands out, against a real server that is killed and started again."""

from __future__ import annotations

import ast
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from firesteel.common import WatermarkStrategy
from firesteel.common.errors import (
    DeserializationError,
    InvalidArgumentError,
    JobExecutionError,
    WrongArgumentError,
)
from firesteel.contracts.dead_letter import DeadLetter
from firesteel.datastream import OutputTag
from firesteel.datastream.connectors import DeliveryGuarantee
from firesteel.datastream.connectors.base import Backoff
from firesteel.datastream.connectors.redis import RedisEntry, RedisSink, RedisStreamSource
from firesteel.datastream.formats.json import JsonSchema
from firesteel.testing import CheckpointHarness, check_sink, check_source, simulated_environment
from firesteel_support.servers.redis import RedisServer

NAMES = itertools.count()
QUICK = Backoff(first=0.01, most=0.02, tries=3)


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(redis_server.url, decode_responses=True)
    yield client
    client.close()


def new_stream(client: redis.Redis, count: int) -> str:
    name = f"stream {next(NAMES)}"
    for number in range(count):
        client.xadd(name, {"stream": name, "number": number})
    return name


def test_streams_pass_the_check_of_sources(redis_server: RedisServer, client: redis.Redis) -> None:
    streams = [new_stream(client, 20) for _ in range(3)]
    expected = [{"stream": stream, "number": str(number)} for stream in streams for number in range(20)]
    for bounded in (True, False):
        check_source(
            lambda bounded=bounded: RedisStreamSource(redis_server.url, *streams, bounded=bounded),  # type: ignore[misc]
            expected,
            split_of=lambda record: record["stream"],
            seeds=range(4),
        )


def test_commands_that_set_something_are_idempotent(redis_server: RedisServer, client: redis.Redis) -> None:
    key = f"hash {next(NAMES)}"

    def make() -> RedisSink:
        client.delete(key)
        return RedisSink.hash_set(
            redis_server.url, lambda number: key, lambda number: {str(number): number}, batch_size=4
        )

    def numbers() -> list[int]:
        return [int(value) for value in client.hgetall(key).values()]

    check_sink(make, numbers, guarantee=DeliveryGuarantee.AT_LEAST_ONCE, idempotent=True, seeds=range(8))


def test_adding_to_a_stream_is_exactly_once_in_transactions(
    redis_server: RedisServer, client: redis.Redis
) -> None:
    stream = f"out {next(NAMES)}"

    def make() -> RedisSink:
        client.delete(stream)
        return RedisSink.stream(
            redis_server.url, stream, lambda number: {"number": number}, exactly_once=True
        )

    def numbers() -> list[int]:
        return [int(fields["number"]) for _, fields in client.xrange(stream)]

    check_sink(make, numbers, guarantee=DeliveryGuarantee.EXACTLY_ONCE, seeds=range(10))


def test_a_job_reads_and_writes(redis_server: RedisServer, client: redis.Redis) -> None:
    stream, key = new_stream(client, 50), f"totals {next(NAMES)}"
    env = simulated_environment(parallelism=2)
    env.enable_checkpointing(1000)
    source = RedisStreamSource(redis_server.url, stream, bounded=True, deserialize=number_of)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.sink_to(RedisSink(redis_server.url, lambda n: [("INCRBY", key, n)], exactly_once=True))
    env.execute()
    assert client.get(key) == str(sum(range(50)))


def number_of(entry: RedisEntry) -> int:
    return int(entry.fields[b"number"])


def test_the_time_of_an_entry_is_its_event_time(redis_server: RedisServer, client: redis.Redis) -> None:
    name = f"stream {next(NAMES)}"
    client.xadd(name, {"a": 1}, id="1700000000000-5")
    harness = CheckpointHarness(RedisStreamSource(redis_server.url, name, bounded=True))
    harness[0].drain()
    harness.close()
    assert harness[0].output.timestamps == [1_700_000_000_000]


def test_latest_begins_behind_what_is_there(redis_server: RedisServer, client: redis.Redis) -> None:
    stream = new_stream(client, 5)
    harness = CheckpointHarness(RedisStreamSource(redis_server.url, stream, start="latest"))
    client.xadd(stream, {"number": "new"})
    assert first_of(harness) == [{"number": "new"}]
    harness.close()


def first_of(harness: CheckpointHarness) -> list[Any]:
    for _ in range(10_000):
        harness.woken.clear()
        if values := harness[0].poll():
            return values
        assert harness.woken.wait(60)
    raise AssertionError("it is woken, and gives nothing")


# Trouble ------------------------------------------------------------------------------------------------------


def test_reading_goes_on_when_the_server_comes_back(redis_server: RedisServer, client: redis.Redis) -> None:
    stream = new_stream(client, 3)
    source = RedisStreamSource(
        redis_server.url, stream, deserialize=number_of, backoff=Backoff(0.05, 0.5, tries=1000)
    )
    harness = CheckpointHarness(source)
    values = first_of(harness)
    redis_server.server.kill()
    back = threading.Thread(target=redis_server.server.start)
    back.start()
    back.join()
    client.xadd(stream, {"number": 3})
    while len(values) < 4:
        values += first_of(harness)
    harness.close()
    assert values == [0, 1, 2, 3]


def test_writing_goes_on_when_the_server_comes_back(redis_server: RedisServer, client: redis.Redis) -> None:
    key = f"list {next(NAMES)}"
    harness = CheckpointHarness(
        RedisSink(redis_server.url, lambda number: [("RPUSH", key, number)], exactly_once=True)
    )
    harness[0].process([1, 2])
    harness.checkpoint(1)
    redis_server.server.kill()
    harness.complete(1)
    redis_server.server.start()
    harness[0].advance(5.0)
    harness.close()
    assert client.lrange(key, 0, -1) == ["1", "2"]


def test_a_server_that_is_not_there_fails_the_job_with_its_address() -> None:
    source = RedisStreamSource("redis://:secret@127.0.0.1:1/0", "orders", backoff=QUICK)
    with pytest.raises(
        JobExecutionError,
        match=r"reading the streams orders of redis://127.0.0.1:1/0 failed in 4 tries: .*refused",
    ) as caught:
        first_of(CheckpointHarness(source))
    assert "secret" not in str(caught.value)
    bounded = RedisStreamSource("redis://127.0.0.1:1/0", "orders", bounded=True, backoff=QUICK)
    with pytest.raises(JobExecutionError, match=r"reading the streams orders .*failed in 4 tries"):
        CheckpointHarness(bounded)
    for exactly_once in (False, True):
        sink = RedisSink(
            "redis://127.0.0.1:1/0", lambda n: [("SET", "a", n)], backoff=QUICK, exactly_once=exactly_once
        )
        with pytest.raises(JobExecutionError, match=r"writing to redis://127.0.0.1:1/0.* failed in 4 tries"):
            CheckpointHarness(sink)


def test_a_wrong_password_is_told_at_once(redis_server: RedisServer) -> None:
    url = redis_server.url_with("wrong")
    with pytest.raises(JobExecutionError, match=r"connecting: redis://.* check user and password"):
        first_of(CheckpointHarness(RedisStreamSource(url, "orders")))
    with pytest.raises(JobExecutionError, match="check user and password"):
        CheckpointHarness(RedisSink(url, lambda number: [("SET", "a", number)]))


def test_a_missing_stream_is_waited_for_or_refused(
    redis_server: RedisServer, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"stream {next(NAMES)}"
    with pytest.raises(JobExecutionError, match=f"there is no stream '{name}' at redis://127"):
        CheckpointHarness(RedisStreamSource(redis_server.url, name, bounded=True))[0].drain()
    harness = CheckpointHarness(RedisStreamSource(redis_server.url, name))
    harness[0].poll()
    client.xadd(name, {"a": 1})
    assert first_of(harness) == [{"a": "1"}]
    harness.close()


def test_a_key_that_is_no_stream_is_named(redis_server: RedisServer, client: redis.Redis) -> None:
    client.set("text", "a")
    with pytest.raises(JobExecutionError, match=r"looking at the stream 'text': .*WRONGTYPE|wrong kind"):
        first_of(CheckpointHarness(RedisStreamSource(redis_server.url, "text")))


def test_entries_that_were_trimmed_while_the_job_was_down_are_no_secret(
    redis_server: RedisServer, client: redis.Redis
) -> None:
    stream = new_stream(client, 10)
    source = RedisStreamSource(redis_server.url, stream, deserialize=number_of)
    harness = CheckpointHarness(source)
    assert first_of(harness)[0] == 0
    checkpoint = harness.checkpoint(1)
    harness.close()
    for number in range(10, 14):
        client.xadd(stream, {"number": number})
    client.xtrim(stream, maxlen=2, approximate=False)
    with pytest.raises(JobExecutionError, match="may have been trimmed or deleted without having been read"):
        first_of(CheckpointHarness(source, restore=checkpoint))
    source.allow_trimmed = True
    harness = CheckpointHarness(source, restore=checkpoint)
    assert first_of(harness) == [12, 13]
    harness.close()


def test_a_command_that_is_refused_is_named_and_is_not_taken_for_written_later(
    redis_server: RedisServer, client: redis.Redis
) -> None:
    key, text = f"counter {next(NAMES)}", f"text {next(NAMES)}"
    client.set(text, "a")
    commands = lambda number: [("INCR", key), ("INCR", text)]  # noqa: E731
    with pytest.raises(JobExecutionError, match=r"the command \('INCR', 'text \d+'\): .* not an integer"):
        CheckpointHarness(RedisSink(redis_server.url, commands, batch_size=1))[0].process([1])
    client.delete(key)
    harness = CheckpointHarness(RedisSink(redis_server.url, commands, exactly_once=True))
    harness[0].process([1])
    checkpoint = harness.checkpoint(1)
    with pytest.raises(JobExecutionError, match="not an integer"):
        harness.complete(1)
    with pytest.raises(JobExecutionError, match=r"was written .* in part, some time ago"):
        CheckpointHarness(RedisSink(redis_server.url, commands, exactly_once=True), restore=checkpoint)
    assert client.get(key) == "1"


def test_bytes_that_are_no_text_are_shown(redis_server: RedisServer, client: redis.Redis) -> None:
    name = f"stream {next(NAMES)}"
    client.xadd(name, {"a": b"\xff"})
    with pytest.raises(
        DeserializationError, match=rf"no valid UTF-8 text: .*xff.*of stream '{name}', id '\d+-0'"
    ):
        first_of(CheckpointHarness(RedisStreamSource(redis_server.url, name)))


def test_entries_that_do_not_fit_go_to_a_side_output(redis_server: RedisServer, client: redis.Redis) -> None:
    name, bad = f"stream {next(NAMES)}", OutputTag("bad")
    ids = [client.xadd(name, {"number": text}) for text in ("1", "many", "3")]
    env = simulated_environment(parallelism=1)
    source = RedisStreamSource(redis_server.url, name, bounded=True, deserialize=number_of)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers = stream.on_error(dead_letter=bad)
    with numbers.union(numbers.get_side_output(bad)).execute_and_collect() as results:
        found = list(results)
    assert [number for number in found if isinstance(number, int)] == [1, 3]
    (letter,) = [letter for letter in found if isinstance(letter, DeadLetter)]
    assert letter.where == {"stream": name, "id": ids[1]}
    assert ast.literal_eval(letter.value.decode()) == {b"number": b"many"}


def test_arguments_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"begins with redis://, .* got a scheme of 'http'"):
        RedisStreamSource("http://localhost", "a")
    with pytest.raises(InvalidArgumentError, match="at least one stream"):
        RedisStreamSource("redis://localhost")
    with pytest.raises(InvalidArgumentError, match="'earliest', 'latest' or an id"):
        RedisStreamSource("redis://localhost", "a", start="yesterday")
    with pytest.raises(WrongArgumentError, match=r"a function that takes a RedisEntry, got JsonSchema"):
        RedisStreamSource("redis://localhost", "a", deserialize=JsonSchema())  # type: ignore[arg-type]
