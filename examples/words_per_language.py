"""Words per language (J05): a list of words for each language that grows with every record.

A reduce on a keyed stream combines what a key has so far with what comes, and emits the result each
time. It makes a new list instead of extending the old one: the old result may still be on its way.
"""

from __future__ import annotations

from firesteel.datastream import DataStream, StreamExecutionEnvironment

Words = tuple[str, list[str]]

RECORDS: list[Words] = [("en", ["tea"]), ("fr", ["vin"]), ("en", ["cake"])]


def joined(so_far: Words, new: Words) -> Words:
    """The words of both, in order."""
    return so_far[0], so_far[1] + new[1]


def build(env: StreamExecutionEnvironment, records: list[Words]) -> DataStream[tuple[str, list[str]]]:
    return env.from_collection(records).key_by(0).reduce(joined)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, RECORDS).print()
    env.execute("Words per language")


if __name__ == "__main__":
    main()
