"""DataFrames of Spark as streams, streams as DataFrames, and a sink that writes through Spark."""
