"""Rolling sum (J04): for every record, the sum of a field over the records of its key so far.

The fields that are neither key nor sum keep the values of the key's first record; do not rely on them.
State is kept for every key for as long as the job runs, so use rolling aggregates where the number of
keys has a bound.
"""

from __future__ import annotations

from firesteel.datastream import DataStream, StreamExecutionEnvironment

RECORDS = [(1, 2, 2), (2, 3, 1), (2, 2, 4), (1, 5, 3)]


def build(
    env: StreamExecutionEnvironment, records: list[tuple[int, int, int]]
) -> DataStream[tuple[int, int, int]]:
    return env.from_collection(records).key_by(0).sum(1)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, RECORDS).print()
    env.execute("Rolling sum")


if __name__ == "__main__":
    main()
