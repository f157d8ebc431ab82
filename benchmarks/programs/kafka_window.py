"""Kafka -> parse JSON -> key_by -> tumbling window -> Kafka; runs unchanged on PyFlink and on Firesteel.

    python kafka_window.py SERVERS GUARANTEE INPUT:OUTPUT[,INPUT:OUTPUT ...] [KEY=VALUE ...]

Each pair of topics is a job, which ends where its input ended when it began. The input has texts such as
{"user": 17, "amount": 3, "at": 1700000000123}, and "at" as their timestamp; for every user and second the job writes the sum of the amounts.
"""

import json
import sys
import time

from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

ORDER = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])


def parse(text):
    order = json.loads(text)
    return order["user"], order["amount"], order["at"]


class Text(ProcessWindowFunction):
    """The sum of a window as JSON."""

    def process(self, key, context, elements):
        """Called once for each user and second."""
        for user, amount, _ in elements:
            yield json.dumps({"user": user, "second": context.window().start, "amount": amount})


def run(servers, guarantee, read, write, options):
    configuration = Configuration()
    for key, value in options:
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(1000)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(read)
        .set_group_id(f"benchmark-{write}")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    record = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(write)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(record)
        .set_delivery_guarantee(DeliveryGuarantee[guarantee])
        .set_transactional_id_prefix(f"benchmark-{write}")
        .build()
    )
    # Timestamps are those of Kafka's records, and watermarks are those of each partition.
    (
        env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "kafka")
        .map(parse, output_type=ORDER)
        .key_by(lambda order: order[0], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .reduce(lambda a, b: (a[0], a[1] + b[1], b[2]), window_function=Text(), output_type=Types.STRING())
        .sink_to(sink)
    )
    started = time.perf_counter()
    env.execute("kafka window")
    print(f"seconds {time.perf_counter() - started:.3f}", flush=True)


if __name__ == "__main__":
    for pair in sys.argv[3].split(","):
        run(sys.argv[1], sys.argv[2], *pair.split(":"), [text.split("=", 1) for text in sys.argv[4:]])
