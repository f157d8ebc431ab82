"""A PyFlink program: rows with JSON text, changed field by field."""

import json

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
people = env.from_collection(
    [
        (1, '{"tel": 134, "country": "de"}'),
        (2, '{"tel": 135, "country": "fr"}'),
        (3, '{"tel": 136, "country": "de"}'),
    ],
    type_info=Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()]),
)


def update_tel(row):
    info = json.loads(row.info)
    info["tel"] += 1
    return Row(row.id, json.dumps(info))


def to_text(row):
    return json.dumps({"id": row[0], **json.loads(row[1])})


people.map(update_tel).map(to_text, output_type=Types.STRING()).print()
env.execute()
