"""Relative parallelism (J10): the source runs with p tasks, the map with 2p, the sink always with two.

p is the default parallelism: what ``firesteel run -p`` asks for, or the number of processors. With
``-p 16`` the operators have 16, 32 and 2 tasks, with ``-p 8`` they have 8, 16 and 2;
``firesteel info -p 16 examples/operator_parallelism.py`` shows it without running anything.
"""

from __future__ import annotations

from firesteel.datastream import DataStreamSink, StreamExecutionEnvironment


def build(env: StreamExecutionEnvironment, last: int = 20) -> DataStreamSink:
    p = env.get_parallelism()
    numbers = env.from_sequence(1, last)
    squares = numbers.map(lambda n: n * n).set_parallelism(2 * p)
    return squares.print().set_parallelism(2)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env)
    env.execute("Operator parallelism")


if __name__ == "__main__":
    main()
