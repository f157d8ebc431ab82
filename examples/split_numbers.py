"""Split and select (J08): one stream becomes one of large numbers, one of small numbers, and one of both.

A function names the outputs of each record - none, one or several - and ``select`` picks outputs by
name. Underneath these are side outputs (``OutputTag``), which can also carry records of another type.
"""

from __future__ import annotations

from firesteel.datastream import DataStream, StreamExecutionEnvironment

RECORDS = [(5, "five"), (1001, "a thousand and one"), (1000, "a thousand"), (70_000, "many")]


def size(record: tuple[int, str]) -> list[str]:
    """The name of the output that the record goes to."""
    return ["large"] if record[0] > 1000 else ["small"]


def build(
    env: StreamExecutionEnvironment, records: list[tuple[int, str]]
) -> tuple[DataStream[tuple[int, str]], DataStream[tuple[int, str]], DataStream[tuple[int, str]]]:
    split = env.from_collection(records).split(size)
    return split.select("large"), split.select("small"), split.select("small", "large")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    large, small, both = build(env, RECORDS)
    large.print("large")
    small.print("small")
    both.print("both")
    env.execute("Split numbers")


if __name__ == "__main__":
    main()
