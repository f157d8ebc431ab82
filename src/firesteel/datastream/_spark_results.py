"""DataStream.to_spark: runs a program whose stream ends in files, and gives these to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firesteel.common.errors import UnsupportedOperationError
from firesteel.plan.operator_specs import SourceSpec

if TYPE_CHECKING:
    from firesteel.datastream._stream import DataStream

__all__ = ["run_to_frame"]


def run_to_frame(stream: DataStream[Any], schema: Any, directory: str | None, job_name: str | None) -> Any:
    """Run the program, and return the stream's records as a DataFrame."""
    from firesteel.connectors.files.arrow_writers import ParquetWriterFactory
    from firesteel.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig
    from firesteel.spark.frames import results
    from firesteel.spark.frames.declared_rows import declared_rows
    from firesteel.spark.frames.places import new_place

    env = stream.get_execution_environment()
    rows = declared_rows(stream._type, schema)
    _refuse_unbounded(stream)
    session = env.spark_session()
    place = new_place(session, directory, "to_spark()")
    factory = results.PickledRecords() if rows is None else ParquetWriterFactory(rows.row_type)
    sink = (
        FileSink.for_bulk_format(str(place), factory)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig("records", ""))
        .build()
    )
    as_rows: DataStream[Any] = stream.map(_in_a_tuple) if rows is not None and rows.single else stream
    as_rows.sink_to(sink).name("to Spark")
    env.execute(job_name)
    files = sorted(str(path) for path in place.glob("records-*"))
    return (
        results.inferred_frame(session, files)
        if rows is None
        else results.declared_frame(session, files, rows)
    )


def _in_a_tuple(value: Any) -> tuple[Any]:
    return (value,)


def _refuse_unbounded(stream: DataStream[Any]) -> None:
    graph = stream.get_execution_environment()._graph
    above = [edge.source for edge in stream._edges()]
    running = {
        node.id: node for node in graph.build()
    }  # all that was built and not executed runs in the same job
    while above:
        node = graph[above.pop()]
        running[node.id] = node
        above += [edge.source for edge in node.inputs]
    for node in running.values():
        if isinstance(node.spec, SourceSpec) and not node.spec.bounded:
            raise UnsupportedOperationError(
                f"to_spark() returns when the job has ended, and the source '{node.name}' has no end; write what comes with "
                "sink_to(SparkSink(...)), checkpoint by checkpoint"
            )
