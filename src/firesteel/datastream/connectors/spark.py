"""A sink that writes through Spark; DataFrames as sources are `StreamExecutionEnvironment.from_spark`. Not in PyFlink."""

from firesteel.spark.frames.spark_sink import SparkSink

__all__ = ["SparkSink"]
