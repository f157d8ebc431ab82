"""Scheduling and metrics (J32): which operators share a task and a slot, and what a function can tell about itself.

    firesteel run examples/scheduling_and_metrics.py                 # positive numbers, metrics, log lines
    firesteel info examples/scheduling_and_metrics.py new_chain      # the tasks of a program, without running it

`build_chains`: filter, map, map, filter are one task. If the second map says ``disable_chaining()``, there are three tasks:
it is alone, and both neighbours lose it. With ``start_new_chain()`` there are two, and the last filter stays with it.

`build_groups`: operators of different slot sharing groups never share a task, and inherit the group of their inputs when
these agree. In Flink a slot holds one task of every operator of a group, so this program takes four slots for green, two for
yellow and four for blue: ten. Here a slot holds one task, so it takes what its tasks are: twelve, the sink's two among
them.

`build_metrics`: a filter with a counter, a distribution, a gauge and a counter in a scope of its own. Metrics belong to a
task and are reported while it runs; what is wanted at the end of the job as one number is an accumulator. Log lines
of functions go where those of the program go.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from event_times import watermark_after_each
from firesteel.common import Types
from firesteel.datastream import (
    BroadcastProcessFunction,
    DataStream,
    DataStreamSink,
    FilterFunction,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.functions import DiscardingSink, IntCounter
from firesteel.datastream.state import MapStateDescriptor
from firesteel.metrics import MetricGroup

LOG = logging.getLogger(__name__)

# Scheduling -------------------------------------------------------------------------------------------


def build_chains(
    env: StreamExecutionEnvironment,
    change: Callable[[DataStream], DataStream] = lambda second_map: second_map,
) -> DataStreamSink:
    """Four operators between a source and a sink; ``change`` says how the second map is chained."""
    numbers = env.from_sequence(1, 100)
    first = numbers.filter(lambda n: n % 2 == 0).name("Filter1").map(lambda n: n * n).name("Map1")
    second = change(first.map(lambda n: n + 1).name("Map2"))
    return second.filter(lambda n: n % 3 == 0).name("Filter2").add_sink(DiscardingSink()).name("Out")


def build_groups(env: StreamExecutionEnvironment) -> DataStreamSink:
    """Two sources, three groups; what is not said is inherited."""
    a = env.from_sequence(1, 100).name("A").set_parallelism(4).slot_sharing_group("green")
    b = a.map(lambda n: n * n).name("B").set_parallelism(4)  # green, too
    c = env.from_sequence(1, 3).name("C").set_parallelism(2).slot_sharing_group("yellow")
    offsets = c.broadcast(MapStateDescriptor("offsets", Types.STRING(), Types.LONG()))
    d = b.connect(offsets).process(AddOffset()).name("D").set_parallelism(4).slot_sharing_group("blue")
    return d.add_sink(DiscardingSink()).name("E").set_parallelism(2)  # blue, too


class AddOffset(BroadcastProcessFunction):
    """Adds the newest number of the second input to those of the first."""

    STATE = MapStateDescriptor("offsets", Types.STRING(), Types.LONG())

    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[int]:
        """A number."""
        yield value + (ctx.get_broadcast_state(self.STATE).get("newest") or 0)

    def process_broadcast_element(self, value: int, ctx: BroadcastProcessFunction.Context) -> None:
        """An offset, for all tasks."""
        ctx.get_broadcast_state(self.STATE).put("newest", value)


# Metrics ----------------------------------------------------------------------------------------------


class PositiveFilter(FilterFunction):
    """Keeps positive numbers, and counts what it drops."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Register the metrics; each task has its own."""
        group: MetricGroup = runtime_context.get_metrics_group()
        self.dropped = group.counter("droppedElements")
        self.sizes = group.distribution("sizes")
        self.zeros = group.add_group("MyMetrics").counter("zeros")
        self.all_dropped = IntCounter()  # an accumulator: one number for the whole job, when it has ended
        runtime_context.add_accumulator("dropped", self.all_dropped)

    def filter(self, value: int) -> bool:
        """Look at one number."""
        self.sizes.update(value)
        if value > 0:
            return True
        self.dropped.inc()
        self.all_dropped.add(1)
        if value == 0:
            self.zeros.inc()
        LOG.warning("dropped %d, the %d. of this task", value, self.dropped.get_count())
        return False


class WatermarkGauge(ProcessFunction):
    """Hands every number on, and shows the watermark it has seen last."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Register a function that is called when somebody wants to know."""
        self.watermark = -(2**63)
        runtime_context.get_metrics_group().gauge("currentWatermark", lambda: self.watermark)

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[int]:
        """One number."""
        self.watermark = ctx.timer_service().current_watermark()
        yield value


NUMBERS = [3, -1, 4, 0, -5, 9, 2, 0, 6]


def build_metrics(env: StreamExecutionEnvironment, numbers: Iterable[int]) -> DataStream:
    timed = watermark_after_each(env.from_collection(list(enumerate(numbers))), lambda pair: pair[0] * 1000)
    values = timed.map(lambda pair: pair[1]).set_parallelism(1)
    return values.process(WatermarkGauge()).filter(PositiveFilter()).name("Positive")


# Main -------------------------------------------------------------------------------------------------

CHAINS: dict[str, Callable[[DataStream], DataStream]] = {
    "chained": lambda second_map: second_map,
    "no_chain": lambda second_map: second_map.disable_chaining(),
    "new_chain": lambda second_map: second_map.start_new_chain(),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", default="metrics", choices=["metrics", "groups", *CHAINS])
    what = parser.parse_args(arguments).what
    env = StreamExecutionEnvironment.get_execution_environment()
    if what == "metrics":
        build_metrics(env, NUMBERS).print()
    elif what == "groups":
        build_groups(env)
    else:
        build_chains(env, CHAINS[what])
    result = env.execute(f"Scheduling and metrics: {what}")
    if what == "metrics":
        print(f"dropped in all: {result.get_accumulator_result('dropped')}")


if __name__ == "__main__":
    main()
