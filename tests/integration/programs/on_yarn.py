"""A job in YARN's containers: numbers by key, with state and checkpoints, and a module that travels with the program.

usage: on_yarn.py OUTPUT CHECKPOINTS; every line of the output also says in which container and with which interpreter it was made,
and the file CHECKPOINTS/driver where the driver was
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from travelling import squared  # beside no program: it is sent

from firesteel.common import Configuration, Encoder, Types
from firesteel.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from firesteel.datastream.connectors.file_system import FileSink
from firesteel.datastream.state import ValueStateDescriptor

NUMBERS, KEYS = 60, 3


class Numbered(KeyedProcessFunction):
    """Number -> number, its square, how many of its key so far, and where."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        where = os.environ["CONTAINER_ID"], os.environ.get("FIRESTEEL_TEST_INTERPRETER", "another")
        yield " ".join((str(value), str(squared(value)), str(count), *where))


if __name__ == "__main__":
    options = {"execution.checkpointing.interval": "200 ms", "execution.checkpointing.dir": sys.argv[2]}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    numbered = env.from_sequence(1, NUMBERS).key_by(lambda n: n % KEYS).process(Numbered())
    encoder = Encoder.simple_string_encoder()
    numbered.sink_to(FileSink.for_row_format(sys.argv[1], encoder).build())
    Path(sys.argv[2]).mkdir()
    Path(sys.argv[2], "driver").write_text(os.environ.get("CONTAINER_ID", "no container"))
    env.execute("on YARN")
