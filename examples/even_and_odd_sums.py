"""Even and odd sums (J33): two sources of numbers -> running sums of the even ones and of the odd ones.

The smallest job with everything that a checkpoint needs: sources with positions, an exchange that mixes them, and
state behind it. When both sources have come to 5, the sums are twice 2 + 4 = 6 and twice 1 + 3 + 5 = 9. A checkpoint taken there
holds the positions 5 and 5 and the sums 12 and 18: whatever fails later, the job resumes from exactly these.
"""

from __future__ import annotations

from failing_mapper import FailingMapper
from firesteel.common import Types, WatermarkStrategy
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.connectors import DataGeneratorSource, RateLimiterStrategy, Source


def numbers_per_second(count: int, rate: float) -> Source:
    """1, 2, 3 ... at a rate that leaves time for checkpoints."""
    return DataGeneratorSource(lambda index: index + 1, count, RateLimiterStrategy.per_second(rate))


def build(
    env: StreamExecutionEnvironment, first: Source, second: Source, records_until_failure: int
) -> DataStream[tuple[str, int]]:
    streams = [
        env.from_source(source, WatermarkStrategy.no_watermarks(), name, Types.LONG()).set_parallelism(1)
        for source, name in ((first, "first numbers"), (second, "second numbers"))
    ]
    failing = FailingMapper(records_until_failure, failures=1)
    numbers = streams[0].union(streams[1]).map(failing, Types.LONG()).set_parallelism(1)
    parities = numbers.map(lambda number: ("odd" if number % 2 else "even", number))
    return parities.key_by(lambda pair: pair[0]).sum(1)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(200)
    sources = numbers_per_second(50, 20.0), numbers_per_second(50, 20.0)
    build(env, *sources, records_until_failure=40).print()
    env.execute("Even and odd sums")


if __name__ == "__main__":
    main()
