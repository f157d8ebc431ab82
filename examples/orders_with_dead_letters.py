"""Orders in JSON, with a dataclass that says what an order is: the good ones are summed up, the bad ones are set aside.

Messages that are no orders go to a side output, each with the reason and its bytes; nothing is lost, and the job goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from firesteel.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from firesteel.datastream.formats.json import JsonSchema

BAD = OutputTag("bad orders")
MESSAGES = [
    b'{"customer": "ada", "price": "12.50"}',
    b'{"customer": "alan", "price": "3.20"}',
    b'{"customer": "ada"}',
    b'{"customer": "ada", "price": "0.10"}',
    b"not an order",
    b'{"customer": "alan", "price": "much"}',
]


@dataclass(frozen=True)
class Order:
    """What a message has to have."""

    customer: str
    price: Decimal


def build(env: StreamExecutionEnvironment) -> tuple[DataStream[tuple[str, str]], DataStream[str]]:
    """The sums of each customer, and the messages that are no orders."""
    messages = env.from_collection(MESSAGES)
    orders = messages.map(JsonSchema(Order).deserialize).name("Parse").on_error(dead_letter=BAD)
    sums = orders.map(lambda order: (order.customer, order.price)).key_by(lambda pair: pair[0]).sum(1)
    bad = orders.get_side_output(BAD).map(lambda letter: letter.message)
    return sums.map(lambda pair: (pair[0], str(pair[1]))), bad


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sums, bad = build(env)
    sums.print()
    bad.print("bad")
    env.execute("Orders")


if __name__ == "__main__":
    main()
