"""What people call things who come from Spark or from Flink's Java API, and what they are called here.

The same in another spelling (``keyBy``) needs no entry: `firesteel.common._did_you_mean` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["OF_CONNECTED", "OF_ENVIRONMENTS", "OF_SINKS", "OF_STREAMS", "OF_WINDOWS"]

_PER_KEY = "it works per key, so call key_by() first"
_KEY_BY = "did you mean key_by()?"
_MAP = "records are whole values here, and map() makes new ones of them"
_COUNT = "map() every record to (key, 1) and sum(1) it after key_by(0)"
_RUN = "env.execute() runs the program, when all streams and sinks are there"
_SINK = "sink_to() and add_sink() write a stream, print() shows it"
_FIRST_SEEN = "key_by() what makes them equal, then filter_with_state(lambda record, seen: (not seen, True)) keeps the first"
_SORTED = "an endless stream has no order to sort into; window() it and sort the elements in process()"
_COLLECT = "execute_and_collect() runs the program and brings the records back"

#: What a stream has after key_by() only.
_OF_KEYED_STREAMS = (
    *("sum", "min", "max", "min_by", "max_by", "reduce", "window", "count_window", "time_window"),
    *("interval_join", "map_with_state", "flat_map_with_state", "filter_with_state"),
)

OF_STREAMS: Mapping[str, str] = {
    **dict.fromkeys(_OF_KEYED_STREAMS, _PER_KEY),
    **dict.fromkeys(("group_by", "group_by_key", "partition_by"), _KEY_BY),
    **dict.fromkeys(("with_column", "with_columns", "with_column_renamed", "select", "select_expr", "drop"), _MAP),
    "where": "did you mean filter()?",
    "agg": "key_by() and sum(), reduce(), or window() and aggregate()",
    "aggregate": "key_by() and window() come first, or window_all()",
    "apply": "key_by() and window() come first, or window_all()",
    "count": _COUNT,
    "reduce_by_key": "did you mean key_by() and reduce()?",
    "with_watermark": "did you mean assign_timestamps_and_watermarks()?",
    **dict.fromkeys(("drop_duplicates", "drop_duplicates_within_watermark", "distinct"), _FIRST_SEEN),
    **dict.fromkeys(("write_stream", "write", "write_to", "save", "save_as_text_file"), _SINK),
    **dict.fromkeys(("foreach", "foreach_batch", "for_each", "for_each_batch"), "add_sink() hands every record to a SinkFunction, sink_to() to a Sink, which sees batches"),
    "show": "did you mean print()?",
    **dict.fromkeys(("collect", "take", "first", "head", "to_list", "to_pandas"), _COLLECT),
    **dict.fromkeys(("execute", "start", "await_termination", "run"), _RUN),
    **dict.fromkeys(("order_by", "sort", "sort_by"), _SORTED),
    "limit": "execute_and_collect(limit=n) brings back the first records",
    **dict.fromkeys(("repartition", "coalesce"), "rebalance() deals records out, set_parallelism() says to how many subtasks"),
    **dict.fromkeys(("map_partitions", "map_in_pandas", "apply_in_pandas", "map_in_arrow"), "map(), flat_map() and process() see one record at a time, and batches are made behind them"),
    "explain": "env.get_execution_plan() shows the plan",
    "print_schema": "get_type() says what is declared",
    "with_timestamp_assigner": "did you mean assign_timestamps_and_watermarks()?",
    "cross_join": "did you mean join() or connect()?",
    "union_all": "did you mean union()?",
    "to_df": "the DataFrame API is Spark's; map() makes tuples and Rows",
}  # fmt: skip

OF_ENVIRONMENTS: Mapping[str, str] = {
    **dict.fromkeys(("from_data", "parallelize", "create_data_frame", "create_dataframe", "of"), "did you mean from_collection()?"),
    "range": "did you mean from_sequence()?",
    **dict.fromkeys(("read", "read_stream", "load"), "from_source() reads from a source, read_text_file() lines of files"),
    **dict.fromkeys(("sql", "sql_query", "execute_sql", "table"), "there is no SQL in this version yet; streams have map(), key_by(), window()"),
    **dict.fromkeys(("start", "run", "submit", "await_termination"), "did you mean execute()?"),
    **dict.fromkeys(("stop", "shutdown"), "execute() returns when the job is over, and execute_async() gives a handle with cancel()"),
    **dict.fromkeys(("map", "filter", "flat_map", "key_by", "print"), "an environment gives streams, such as from_collection(), and they have it"),
    "udf": "plain functions do: map(function)",
}  # fmt: skip

_WINDOW_FUNCTIONS = (
    "windows need a function first: reduce(), aggregate(), apply() or process() give a stream again"
)

OF_WINDOWS: Mapping[str, str] = {
    **dict.fromkeys(("map", "flat_map", "filter", "key_by", "print", "sink_to", "add_sink", "execute_and_collect"), _WINDOW_FUNCTIONS),
    **dict.fromkeys(("count", "agg", "collect", "fold"), "did you mean reduce() or aggregate()?"),
    **dict.fromkeys(("late", "side_output"), "did you mean side_output_late_data()?"),
}  # fmt: skip

OF_CONNECTED: Mapping[str, str] = {
    **dict.fromkeys(("filter", "reduce", "window", "print", "sink_to", "add_sink", "execute_and_collect"), "two connected streams need a function first: map(), flat_map() or process() give a stream again"),
    "where": "did you mean join() instead of connect()?",
}  # fmt: skip

OF_SINKS: Mapping[str, str] = {
    **dict.fromkeys(("execute", "start", "await_termination", "run"), _RUN),
    **dict.fromkeys(("map", "flat_map", "filter", "key_by", "process", "print"), "a sink is the end of a stream; call it on the stream that the sink reads"),
}  # fmt: skip
