"""A PyFlink program: state with a time to live, timers of event time, and a job in BATCH mode behind the first one."""

from pyflink.common import Duration, Time, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor

LOADS = [(1000, "north", 1.5), (3000, "south", 0.25), (2000, "north", 2.0), (6000, "south", 4.0)]


class Total(KeyedProcessFunction):
    def __init__(self):
        self.total = None

    def open(self, runtime_context: RuntimeContext):
        ttl = (
            StateTtlConfig.new_builder(Time.minutes(10))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .disable_cleanup_in_background()
            .build()
        )
        descriptor = ValueStateDescriptor("total", Types.FLOAT())
        descriptor.enable_time_to_live(ttl)
        self.total = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.total.update((self.total.value() or 0.0) + value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield f"{ctx.get_current_key()} has {self.total.value()} at {timestamp}"


class LoadTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return int(value[0])


def show(stream, env):
    stream.print().set_parallelism(1)
    env.execute()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    loads = env.from_collection(
        collection=LOADS, type_info=Types.TUPLE([Types.LONG(), Types.STRING(), Types.FLOAT()])
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    timed = loads.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(LoadTime()))
    totals = timed.key_by(lambda value: value[1]).process(Total())
    show(totals.map(lambda text: text, output_type=Types.STRING()).set_parallelism(1), env)

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    places = env.from_collection(LOADS).map(lambda load: (load[1], 1))
    show(places.key_by(lambda pair: pair[0]).sum(1), env)


if __name__ == "__main__":
    main()
