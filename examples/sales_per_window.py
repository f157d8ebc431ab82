"""Sales per window (J46): lines of sales, summed up per month by the clock of the machine, and by count.

A line is ``day,month,category,product,profit``. `per_two_seconds` sums profits of a month in windows of two seconds of
processing time and writes them to a file; what is in a window depends on when lines arrive, and windows that are open
when the input ends are never emitted. `per_five_sales` puts all
sales of a month into one global window that emits whenever five more have come, with the sum of all so far.

The program reads lines from a server (``firesteel run examples/sales_per_window.py localhost 9999``), or without
arguments a few that it brings along.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from firesteel.common import Time
from firesteel.datastream import DataStream, RuntimeContext, SinkFunction, StreamExecutionEnvironment
from firesteel.datastream.connectors import RateLimiterStrategy
from firesteel.datastream.window import CountTrigger, GlobalWindows, TumblingProcessingTimeWindows


class Sale(NamedTuple):
    """Sales of a month: one, or several together; product and category are those of the last."""

    month: str
    product: str
    category: str
    profit: int
    sales: int


LINES = [
    f"{day:02}-06-2024,{'June' if day % 3 else 'May'},{category},{product},{profit}"
    for day, (category, product, profit) in enumerate(
        [("Bikes", "Road", 20), ("Bikes", "City", 12), ("Parts", "Bell", 3), ("Parts", "Lamp", 9)] * 5,
        start=1,
    )
]


def parsed(line: str) -> Sale:
    """One sale."""
    _, month, category, product, profit = line.split(",")
    return Sale(month, product, category, int(profit), 1)


def together(a: Sale, b: Sale) -> Sale:
    """Both sales: profits and numbers of sales added."""
    return b._replace(profit=a.profit + b.profit, sales=a.sales + b.sales)


class ToFile(SinkFunction[Sale]):
    """Appends a line per record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the file."""
        self.file = self.path.open("a", encoding="utf-8")

    def invoke(self, value: Sale, context: SinkFunction.Context) -> None:
        """Write a record."""
        self.file.write(",".join(map(str, value)) + "\n")

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def per_two_seconds(lines: DataStream[str]) -> DataStream[Sale]:
    by_month = lines.map(parsed).set_parallelism(1).key_by(lambda sale: sale.month)
    return by_month.window(TumblingProcessingTimeWindows.of(Time.seconds(2))).reduce(together)


def per_five_sales(lines: DataStream[str]) -> DataStream[Sale]:
    by_month = lines.map(parsed).set_parallelism(1).key_by(lambda sale: sale.month)
    return by_month.window(GlobalWindows.create()).trigger(CountTrigger.of(5)).reduce(together)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    if len(sys.argv) == 3 and sys.argv[2].isdigit():
        lines = env.socket_text_stream(sys.argv[1], int(sys.argv[2]))
    else:
        lines = env.from_data_gen(LINES.__getitem__, len(LINES), RateLimiterStrategy.per_second(5))
    lines.set_parallelism(1)
    path = Path(tempfile.mkdtemp()) / "sales.csv"
    per_two_seconds(lines).add_sink(ToFile(path)).set_parallelism(1)
    per_five_sales(lines).print("after five more")
    env.execute("Sales per window")
    print(f"per two seconds: {path.read_text(encoding='utf-8')!r}")


if __name__ == "__main__":
    main()
