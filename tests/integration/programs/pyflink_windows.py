"""A PyFlink program: every kind of window over rents of boats, each with a function of its own kind."""

from typing import Iterable  # noqa: UP035 - as PyFlink programs are written

from pyflink.common import Encoder, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy
from pyflink.datastream.window import (
    CountWindow,
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

RENTS = [("red", 1), ("blue", 2), ("red", 3), ("red", 9), ("blue", 12), ("red", 14)]
NOT_USED_HERE = (Encoder, FileSink, OutputFileConfig, RollingPolicy)


class RentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[1])


class UntilReturned(SessionWindowTimeGapExtractor):
    def extract(self, element: tuple) -> int:
        return 2 * element[1]


class CountRents(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]
    ) -> Iterable[tuple]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class LastOfTwo(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs: Iterable[tuple]):
        return [(key, max(time for _, time in inputs))]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rents = env.from_collection(RENTS, type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(RentTime())
    boats = rents.assign_timestamps_and_watermarks(strategy).key_by(lambda x: x[0], key_type=Types.STRING())
    counted = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()])
    kinds = {
        "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(10)),
        "sliding": SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
        "session": EventTimeSessionWindows.with_gap(Time.milliseconds(5)),
        "dynamic": EventTimeSessionWindows.with_dynamic_gap(UntilReturned()),
    }
    for name, windows in kinds.items():
        boats.window(windows).process(CountRents(), counted).print(name)
    pairs = rents.key_by(lambda x: x[0], key_type=Types.STRING()).count_window(2)
    pairs.apply(LastOfTwo(), Types.TUPLE([Types.STRING(), Types.INT()])).print("count")
    env.execute()


if __name__ == "__main__":
    main()
