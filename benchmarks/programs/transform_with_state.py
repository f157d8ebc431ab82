"""A count per key with Spark's transformWithState, the peer of ``value_state.py``.

    python transform_with_state.py row|pandas KEYS ROWS_PER_BATCH BATCHES

Prints rows and milliseconds of every micro batch. Written as one would for speed: two partitions for two cores, one
read and one write of the state per key and batch, the generator of rows inside Spark, a sink that drops all.
"""

import sys
import tempfile
import time

import pandas as pd
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

Counted = Row("key", "count")
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class CountRows(StatefulProcessor):
    """A result for every row."""

    def init(self, handle):
        """Declare the state."""
        self.count = handle.getValueState("count", "count long")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
        """All rows of a key in a micro batch."""
        found = self.count.get()
        count = 0 if found is None else found[0]
        for row in rows:
            count += 1
            yield Counted(row.key, count)
        self.count.update((count,))


class CountFrames(CountRows):
    """The same over data frames of a key's rows."""

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
        """All rows of a key in a micro batch."""
        found = self.count.get()
        count = 0 if found is None else found[0]
        for frame in rows:
            counts = range(count + 1, count + 1 + len(frame))
            yield pd.DataFrame({"key": frame["key"], "count": counts})
            count += len(frame)
        self.count.update((count,))


def run(kind, keys, rows_per_batch, batches):
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch).load()
    grouped = rows.selectExpr(f"value % {keys} as key", "value").groupBy("key")
    if kind == "row":
        counted = grouped.transformWithState(CountRows(), "key long, count long", "Append", "None")
    else:
        counted = grouped.transformWithStateInPandas(CountFrames(), "key long, count long", "Append", "None")
    with tempfile.TemporaryDirectory() as checkpoints:
        writer = counted.writeStream.format("noop").outputMode("append")
        query = writer.option("checkpointLocation", checkpoints).start()
        while len(done := [p for p in query.recentProgress if p.numInputRows]) < batches:
            if not query.isActive:
                raise RuntimeError(f"the query has ended: {query.exception()}")
            time.sleep(0.2)
        query.stop()
    for progress in done[:batches]:
        print(f"batch {progress.numInputRows} {progress.batchDuration}")
    spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:]))
