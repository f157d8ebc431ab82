"""Fire alert (J07): alerts from two streams, temperature and smoke, in three forms.

`build` keys both streams by area: readings of one area meet in one task and share its state. An alert
is given once, when the second of the two becomes high.

`build_with_broadcast` has one smoke detector for the whole forest, whose level every task must know,
so its stream is broadcast and the temperatures stay where they are. Which input is read first is
not defined; hot readings that come before the smoke therefore wait in the function.

`build_hot_then_smoke` wants smoke at most ten minutes after the heat, by the times in the records.
It keeps both kinds of times in state, so that it does not matter which one arrives first. State of
old times is never removed here; an interval join (joining_streams.py) does the same and removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firesteel.common import Types
from firesteel.datastream import (
    CoFlatMapFunction,
    DataStream,
    KeyedCoProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from firesteel.datastream.state import ListStateDescriptor, ValueStateDescriptor

HOT = 100.0
SMOKY = 50.0
TEN_MINUTES = 10 * 60 * 1000

TEMPERATURES = [("north", 72.0), ("south", 104.0), ("east", 99.0), ("north", 120.0), ("west", 101.0)]
SMOKE = [("south", 20.0), ("east", 80.0), ("north", 60.0), ("south", 75.0)]


class FireAlert(CoFlatMapFunction[tuple[str, float], tuple[str, float], str]):
    """Per area: alerts once when it is hot and smoky."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for the two flags of an area."""
        self.hot = runtime_context.get_state(ValueStateDescriptor("hot", Types.BOOLEAN()))
        self.smoky = runtime_context.get_state(ValueStateDescriptor("smoky", Types.BOOLEAN()))

    def flat_map1(self, value: tuple[str, float]) -> Iterator[str]:
        """A temperature."""
        if value[1] > HOT and not self.hot.value():
            self.hot.update(True)
            yield from self._alert(value[0])

    def flat_map2(self, value: tuple[str, float]) -> Iterator[str]:
        """A smoke level."""
        if value[1] > SMOKY and not self.smoky.value():
            self.smoky.update(True)
            yield from self._alert(value[0])

    def _alert(self, area: str) -> Iterator[str]:
        if self.hot.value() and self.smoky.value():
            yield f"fire alert: {area}"


def build(
    env: StreamExecutionEnvironment,
    temperatures: Sequence[tuple[str, float]],
    smoke: Sequence[tuple[str, float]],
) -> DataStream[str]:
    both = env.from_collection(temperatures).connect(env.from_collection(smoke))
    return both.key_by(lambda t: t[0], lambda s: s[0]).flat_map(FireAlert())


class ForestAlert(CoFlatMapFunction[tuple[str, float], float, str]):
    """Alerts for every hot reading once there is smoke anywhere."""

    def __init__(self) -> None:
        self.smoky = False
        self.waiting: list[tuple[str, float]] = []

    def flat_map1(self, value: tuple[str, float]) -> Iterator[str]:
        """A temperature of one area."""
        if value[1] > HOT:
            self.waiting.append(value)
        yield from self._alerts()

    def flat_map2(self, value: float) -> Iterator[str]:
        """The smoke level of the forest."""
        self.smoky = self.smoky or value > SMOKY
        yield from self._alerts()

    def _alerts(self) -> Iterator[str]:
        if self.smoky:
            yield from (f"fire alert: {area} has {temperature} degrees" for area, temperature in self.waiting)
            self.waiting.clear()


def build_with_broadcast(
    env: StreamExecutionEnvironment, temperatures: Sequence[tuple[str, float]], smoke: Sequence[float]
) -> DataStream[str]:
    levels = env.from_collection(smoke)
    return env.from_collection(temperatures).rebalance().connect(levels.broadcast()).flat_map(ForestAlert())


class HotThenSmoke(KeyedCoProcessFunction[str, tuple[str, int], tuple[str, int], tuple[str, int, int]]):
    """Per area: the pairs of a hot reading and smoke that follows it in time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Ask for both lists of times."""
        self.heat = runtime_context.get_list_state(ListStateDescriptor("heat", Types.LONG()))
        self.smoke = runtime_context.get_list_state(ListStateDescriptor("smoke", Types.LONG()))

    def process_element1(
        self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[str, int, int]]:
        """It was hot at that time."""
        area, hot_at = value
        self.heat.add(hot_at)
        yield from ((area, hot_at, at) for at in self.smoke if 0 <= at - hot_at <= TEN_MINUTES)

    def process_element2(
        self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context
    ) -> Iterator[tuple[str, int, int]]:
        """There was smoke at that time."""
        area, smoke_at = value
        self.smoke.add(smoke_at)
        yield from ((area, at, smoke_at) for at in self.heat if 0 <= smoke_at - at <= TEN_MINUTES)


def build_hot_then_smoke(
    env: StreamExecutionEnvironment, heat: Sequence[tuple[str, int]], smoke: Sequence[tuple[str, int]]
) -> DataStream[tuple[str, int, int]]:
    by_area = env.from_collection(heat).connect(env.from_collection(smoke)).key_by(0, 0)
    return by_area.process(HotThenSmoke())


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, TEMPERATURES, SMOKE).print("by area")
    build_with_broadcast(env, TEMPERATURES, [10.0, 80.0]).print("whole forest")
    build_hot_then_smoke(env, [("north", 0)], [("north", 90_000), ("north", 700_000)]).print("in time")
    env.execute("Fire alert")


if __name__ == "__main__":
    main()
