"""Orders of a database, summed up in a table of it, exactly once (J29).

    firesteel run examples/orders_to_totals.py

The orders are read in parts, side by side; the total of each item is an upsert, and so is there once for each item. With another URL
(``jdbc:postgresql://...``) nothing else changes.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing

from firesteel.common import Row, Types, WatermarkStrategy
from firesteel.datastream import DataStream, StreamExecutionEnvironment
from firesteel.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcNumericBetweenParametersProvider,
    JdbcSink,
    JdbcSource,
)

TOTAL = Types.ROW_NAMED(["item", "total"], [Types.STRING(), Types.LONG()])


def prepare(path: str, orders: int) -> None:
    """Tables, and some orders."""
    items = ["tea", "milk", "bread"]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, price INTEGER)")
        database.execute("CREATE TABLE totals (item TEXT PRIMARY KEY, total INTEGER)")
        rows = [(number, items[number % 3], number) for number in range(1, orders + 1)]
        database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)


def build(env: StreamExecutionEnvironment, url: str, orders: int) -> DataStream:
    """From orders to totals."""
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()
    source = (
        JdbcSource.builder()
        .set_connection_options(options)
        .set_sql("SELECT item, price FROM orders WHERE id BETWEEN ? AND ? ORDER BY id")
        .set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, orders).of_batch_num(4))
        .build()
    )
    totals = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        .key_by(lambda order: order.item)
        .reduce(lambda total, order: Row(item=total.item, price=total.price + order.price))
        .map(lambda total: Row(item=total.item, total=total.price), TOTAL)
    )
    upsert = JdbcSink.upsert_sql("totals", ["item", "total"], ["item"])
    totals.sink_to(JdbcSink.exactly_once_sink(upsert, TOTAL, options)).name("totals")
    return totals


def main() -> None:
    """Sum up a thousand orders."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/shop.db"
        prepare(path, 1000)
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        env.enable_checkpointing(500)
        build(env, f"jdbc:sqlite:{path}", 1000)
        env.execute("totals of orders")
        with closing(sqlite3.connect(path)) as database:
            print(database.execute("SELECT * FROM totals ORDER BY item").fetchall())


if __name__ == "__main__":
    main()
