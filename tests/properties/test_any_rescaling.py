"""However often a job is rescaled, and to what: its results are those of a job that kept its parallelism."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common import Configuration, Time, Types, WatermarkStrategy
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.functions import KeyedProcessFunction, RuntimeContext
from firesteel.datastream.state import ListStateDescriptor
from firesteel.datastream.window import TumblingEventTimeWindows
from firesteel.testing import simulated_environment
from firesteel_support.crash_programs import PacedSource

KEYS = 5
PER_SPLIT = 60
#: One is refused while another one is under way, and when the job ends first.
REFUSALS = ("is being changed", "not all tasks", "is ending", "is over", "has processed everything")


class Traced(KeyedProcessFunction):
    """(key, number) -> (key, all numbers of the key so far): a record that is lost, repeated or late shows in all that follow."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self._seen.add(value[1])
        yield value[0], tuple(self._seen.get())


def results_of(env: StreamExecutionEnvironment, splits: int, windowed: bool) -> Any:
    source = PacedSource(0, splits=splits, per_split=PER_SPLIT, pause=0.005)
    numbers = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "Numbers")
    keyed = numbers.map(lambda n: (n % KEYS, n)).key_by(lambda pair: pair[0])
    if windowed:
        window = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(7)))
        return window.reduce(lambda a, b: (a[0], a[1] + b[1]))
    return keyed.process(Traced(), output_type=Types.PICKLED_BYTE_ARRAY())


def final(found: list[Any], windowed: bool) -> Any:
    """What has to be the same: the sums of all windows, or the last trace of each key, whose order splits do not decide."""
    if windowed:
        return Counter(found)
    lengths = {key: sorted(len(trace) for k, trace in found if k == key) for key in range(KEYS)}
    last = {key: max((trace for k, trace in found if k == key), key=len, default=()) for key in range(KEYS)}
    return lengths, {key: sorted(trace) for key, trace in last.items()}


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    first=st.integers(1, 4),
    rescales=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 4)), max_size=3),
    splits=st.integers(1, 4),
    windowed=st.booleans(),
    checkpoints=st.booleans(),
)
def test_results_do_not_depend_on_rescales(
    seed: int, first: int, rescales: list[tuple[int, int]], splits: int, windowed: bool, checkpoints: bool
) -> None:
    options = {"execution.checkpointing.interval": "20 ms"} if checkpoints else {}
    env = simulated_environment(seed, first, Configuration.from_dict(options))
    found: list[Any] = []
    asked: list[Any] = []
    with results_of(env, splits, windowed).execute_and_collect() as results:
        client: Any = results._job
        for result in results:
            found.append(result)
            if rescales and len(found) >= rescales[0][0]:
                asked.append(client.rescale(rescales.pop(0)[1]))
    refusals = [str(error) for each in asked if (error := each.exception()) is not None]
    assert [text for text in refusals if not any(reason in text for reason in REFUSALS)] == []
    plain = simulated_environment(seed, first, Configuration.from_dict({}))
    expected = list(results_of(plain, splits, windowed).execute_and_collect())
    assert final(found, windowed) == final(expected, windowed)
