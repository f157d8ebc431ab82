"""Kafka -> parse JSON -> key_by -> tumbling window -> Kafka: records per second, and the time from producing to consuming.

Throughput is the difference between two sizes of input, so that starting up does not count: the same program on Firesteel with
AT_LEAST_ONCE and with EXACTLY_ONCE, on PyFlink, and a bare loop of confluent-kafka that does the same work in one process. All
results are read back and must agree. Latency is from the call that produces a record to the one that consumes its result, at
1,000 records per second, through Kafka -> parse -> key_by -> map -> Kafka with AT_LEAST_ONCE; and through a bare loop in turns with
it, which says what Kafka and this machine take.

A broker is started for the run, unless ``--servers`` names one. PyFlink needs the jar of Flink's Kafka connector
(flink-sql-connector-kafka): ``--flink-jar FILE``; without it PyFlink is not measured, and the output says so.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from _contest import firesteel_command, pyflink_command, run_jobs
from _harness import (
    ROOT,
    at_least,
    at_most,
    environment,
    median,
    note,
    parser,
    percentile,
    rate_text,
    ratio_text,
)
from _results import Results, begin

USERS = 1000
PARTITIONS = 4
FIRST = 1_700_000_000_000
#: As in the program: one window has so many records.
RECORDS_PER_SECOND = 10_000
#: With as many records as the others it would take most of an hour.
PYFLINK_SIZES = (20_000, 120_000)

#: How long producers gather records where latency is measured, in milliseconds. A request for every record costs broker and clients
#: more than that at this rate; librdkafka's default is 5.
LINGER_MS = "2"

Sums = dict[tuple[int, int], int]
Passing = Callable[[str, str, str], contextlib.AbstractContextManager[None]]


# The broker and its topics ---------------------------------------------------------------------------


@contextlib.contextmanager
def broker(servers: str | None) -> Iterator[str]:
    """The address of a broker, which is started if none is named."""
    if servers is not None:
        yield servers
        return
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from firesteel_support.servers.kafka import kafka_broker

    with tempfile.TemporaryDirectory(prefix="firesteel-kafka-") as directory:
        # Not the broker that tests start, which is made for a quick start: it would be the slowest of all.
        for started in kafka_broker(Path(directory), jvm=["-Xms1g", "-Xmx1g"]):
            yield started.bootstrap_servers


def new_topic(servers: str, name: str, partitions: int = PARTITIONS) -> str:
    """A topic that nobody else uses; the times of its records are of long ago, and it keeps them nevertheless."""
    from confluent_kafka.admin import AdminClient, NewTopic

    unique = f"benchmark-{name}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(unique, partitions, 1, config={"retention.ms": "-1"})])[unique].result(60)
    return unique


def order_at(number: int) -> dict[str, int]:
    """The record of a number; event time advances evenly."""
    return {
        "user": number * 7919 % USERS,
        "amount": number % 10,
        "at": FIRST + number * 1000 // RECORDS_PER_SECOND,
    }


def fill(servers: str, count: int) -> str:
    """A topic with so many records; those of a user are in one partition, in order."""
    from confluent_kafka import Producer

    topic = new_topic(servers, "in")
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "compression.type": "lz4"})
    for number in range(count):
        order = order_at(number)
        while True:
            try:
                partition = order["user"] % PARTITIONS
                producer.produce(topic, json.dumps(order), partition=partition, timestamp=order["at"])
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return topic


def expected(count: int) -> Sums:
    """What the windows of so many records have."""
    sums: Counter[tuple[int, int]] = Counter()
    for number in range(count):
        order = order_at(number)
        sums[order["user"], order["at"] // 1000 * 1000] += order["amount"]
    return dict(sums)


def read_all(servers: str, topic: str) -> Iterator[str]:
    """Everything that a topic has, as readers with read_committed see it."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, **settings})
    left = set(consumer.list_topics(topic, 60).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    while left:
        message = consumer.poll(60)
        assert message is not None, f"{topic} cannot be read"
        if message.error() is None:
            yield message.value().decode()
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            left.discard(message.partition())
    consumer.close()


def check(servers: str, topic: str, count: int) -> None:
    """Every window is there, with the sum that it should have."""
    found = [json.loads(text) for text in read_all(servers, topic)]
    sums = {(result["user"], result["second"]): result["amount"] for result in found}
    assert len(found) == len(sums), f"{len(found) - len(sums)} results are there twice"
    assert sums == expected(count), "results are missing or wrong"


# Throughput ------------------------------------------------------------------------------------------


def bare(servers: str, read: str, write: str, count: int) -> float:
    """The same work as a loop in one process; the seconds it takes."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    started = time.perf_counter()
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": write, **settings})
    consumer.assign([TopicPartition(read, partition, 0) for partition in range(PARTITIONS)])
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    sums: Counter[tuple[int, int]] = Counter()
    left = count
    while left:
        messages = consumer.consume(min(left, 1000), 1.0)
        left -= len(messages)
        for message in messages:
            order = json.loads(message.value())
            sums[order["user"], order["at"] // 1000 * 1000] += order["amount"]
    for (user, second), amount in sums.items():
        while True:
            try:
                producer.produce(write, json.dumps({"user": user, "second": second, "amount": amount}))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    consumer.close()
    return time.perf_counter() - started


def engine(command: list[str], servers: str, guarantee: str, pairs: list[str], *options: str) -> list[float]:
    """The seconds of each job, which run one after the other in one process; one that fails is not tried again."""
    options = ("restart-strategy.type=none", *options)
    return run_jobs([*command, servers, guarantee], pairs, options, timeout=1200).seconds


def throughput(
    results: Results, servers: str, sizes: tuple[int, int], repetitions: int, jar: str | None
) -> None:
    """One row for each engine."""
    topics = {size: fill(servers, size) for size in {*sizes, *PYFLINK_SIZES}}
    rates: dict[str, list[float]] = {}

    def measure(name: str, sizes: tuple[int, int], run: Callable[[dict[int, str]], list[float]]) -> None:
        """Run it with both sizes; the results of the larger one are read back."""
        outputs = {size: new_topic(servers, "out") for size in sizes}
        seconds = run(outputs)
        longer = seconds[1] - seconds[0]
        if longer <= 0:
            results.problem(
                f"{name}: the larger input took no longer than the smaller one; the sizes are too small"
            )
        rates.setdefault(name, []).append((sizes[1] - sizes[0]) / longer if longer > 0 else math.nan)
        note(f"{name}: {rate_text(rates[name][-1])}")
        check(servers, outputs[sizes[1]], sizes[1])

    def firesteel(guarantee: str, outputs: dict[int, str]) -> list[float]:
        # The first job warms up.
        pairs = [f"{topics[sizes[0]]}:{new_topic(servers, 'out')}", *pairs_of(outputs)]
        return engine(firesteel_command("kafka_window"), servers, guarantee, pairs)[1:]

    def pyflink(jar: str, outputs: dict[int, str]) -> list[float]:
        option = f"pipeline.jars=file://{Path(jar).resolve()}"
        return engine(pyflink_command("kafka_window"), servers, "AT_LEAST_ONCE", pairs_of(outputs), option)

    def pairs_of(outputs: dict[int, str]) -> list[str]:
        return [f"{topics[size]}:{topic}" for size, topic in outputs.items()]

    for _ in range(repetitions):
        measure(
            "bare loop",
            sizes,
            lambda outputs: [bare(servers, topics[size], topic, size) for size, topic in outputs.items()],
        )
        for guarantee in ("AT_LEAST_ONCE", "EXACTLY_ONCE"):
            measure(f"Firesteel, {guarantee}", sizes, partial(firesteel, guarantee))
        if jar is not None:
            measure("PyFlink, AT_LEAST_ONCE", PYFLINK_SIZES, partial(pyflink, jar))
    if jar is None:
        results.problem("PyFlink: it needs the jar of Flink's Kafka connector; give it with --flink-jar")
    report(results, {name: median(found) for name, found in rates.items()})


def report(results: Results, rates: dict[str, float]) -> None:
    """The table, with targets."""
    at_least_once, exactly_once = rates["Firesteel, AT_LEAST_ONCE"], rates["Firesteel, EXACTLY_ONCE"]
    rows = [[name, rate_text(rate), ratio_text(rate / rates["bare loop"])] for name, rate in rates.items()]
    results.table(["engine", "records", "of the bare loop"], rows)
    # Two subtasks on two cores, one process in the loop: per core it is half.
    per_core = at_least_once / rates["bare loop"] / 2
    targets = [
        ["AT_LEAST_ONCE per core / bare loop", ratio_text(per_core), at_least(per_core, 0.5)],
        [
            "EXACTLY_ONCE / AT_LEAST_ONCE",
            ratio_text(exactly_once / at_least_once),
            at_least(exactly_once / at_least_once, 0.8),
        ],
    ]
    if "PyFlink, AT_LEAST_ONCE" in rates:
        times = at_least_once / rates["PyFlink, AT_LEAST_ONCE"]
        targets.append(["Firesteel / PyFlink", ratio_text(times), at_least(times, 10)])
    results.table(["what", "ratio", "target"], targets)


# Latency ---------------------------------------------------------------------------------------------


def latency(results: Results, servers: str, seconds: float, repetitions: int) -> None:
    """From producing to consuming, in milliseconds, while records come evenly; a bare loop is what Kafka and the machine take."""
    measured: dict[str, list[tuple[float, float]]] = {"bare loop": [], "Firesteel, AT_LEAST_ONCE": []}
    for _ in range(repetitions):
        for name, passing in zip(measured, (passing_loop, passing_job), strict=True):
            found = pass_records(servers, passing, seconds)
            if not found:
                results.problem(f"latency, {name}: no results arrived")
                return
            p50, p99 = (1000 * percentile(found, fraction) for fraction in (0.5, 0.99))
            note(f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
            measured[name].append((p50, p99))
    rows = []
    for name, each in measured.items():
        p50, p99 = median([p50 for p50, _ in each]), median([p99 for _, p99 in each])
        target = at_most(p99, 25, " ms") if name != "bare loop" else ""
        rows.append([name, f"{p50:.1f} ms", f"{p99:.1f} ms", target])
    results.table(["produce to consume at 1,000/s", "p50", "p99", "target for p99"], rows)


def pass_records(servers: str, passing: Passing, seconds: float) -> list[float]:
    """How long records took, in order; those of the first seconds, in which everything warms up, are left out."""
    from confluent_kafka import Producer

    read, write = new_topic(servers, "in", 2), new_topic(servers, "out", 2)
    with passing(servers, read, write):
        stop, found = threading.Event(), list[float]()
        reader = threading.Thread(target=consume_times, args=(servers, write, found, stop))
        reader.start()
        producer = Producer({"bootstrap.servers": servers, "linger.ms": LINGER_MS})
        begun = time.monotonic()
        warm = seconds / 2
        number = 0
        while time.monotonic() - begun < seconds + warm:
            due = begun + number / 1000
            time.sleep(max(due - time.monotonic(), 0))
            producer.produce(read, json.dumps({"user": number % USERS, "sent": time.time()}))
            producer.poll(0)
            number += 1
        producer.flush()
        time.sleep(2)
        stop.set()
        reader.join()
    return sorted(found[len(found) // 3 :])


@contextlib.contextmanager
def passing_loop(servers: str, read: str, write: str) -> Iterator[None]:
    """The least that can be done: a thread that passes each record on."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    stop = threading.Event()

    def pass_on() -> None:
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": servers, "group.id": write, **settings})
        consumer.assign([TopicPartition(read, partition, 0) for partition in range(2)])
        producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": LINGER_MS, "enable.idempotence": True}
        )
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                producer.produce(write, json.dumps(json.loads(message.value())))
            producer.poll(0)
        producer.flush()
        consumer.close()

    thread = threading.Thread(target=pass_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def passing_job(servers: str, read: str, write: str) -> Iterator[None]:
    """A job that passes records on by key."""
    from firesteel.common import SimpleStringSchema, WatermarkStrategy
    from firesteel.datastream.connectors.kafka import (
        KafkaOffsetsInitializer,
        KafkaRecordSerializationSchema,
        KafkaSink,
        KafkaSource,
    )

    env = environment(2)
    env.enable_checkpointing(1000)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(read)
        .set_group_id(write)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    record = KafkaRecordSerializationSchema.builder().set_topic(write)
    record.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(record.build())
    sink.set_property("linger.ms", LINGER_MS)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").map(json.loads)
    stream.key_by(lambda order: order["user"]).map(json.dumps).sink_to(sink.build())
    job = env.execute_async("latency")
    try:
        yield
    finally:
        job.cancel().result()


def consume_times(servers: str, topic: str, found: list[float], stop: threading.Event) -> None:
    """How long records took that arrive."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(time.time() - json.loads(message.value())["sent"])
    consumer.close()


def main() -> None:
    """Both."""
    arguments = parser(__doc__)
    arguments.add_argument("--servers", help="a cluster that runs; without it a broker is started")
    arguments.add_argument("--flink-jar", metavar="FILE", help="Flink's Kafka connector, to measure PyFlink")
    arguments.add_argument("--part", choices=["throughput", "latency"], help="only this; without it both")
    given = arguments.parse_args()
    results = begin("kafka", "What does Kafka to Kafka cost, and how long does a record take?", given)
    sizes, repetitions, seconds = (
        ((20_000, 100_000), 1, 5.0) if given.quick else ((200_000, 2_000_000), 3, 30.0)
    )
    with broker(given.servers) as servers:
        note(f"Kafka at {servers}")
        if given.part != "latency":
            throughput(results, servers, sizes, repetitions, given.flink_jar)
        if given.part != "throughput":
            latency(results, servers, seconds, repetitions)


if __name__ == "__main__":
    main()
