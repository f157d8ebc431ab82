"""Apache Flink's model in Python, executed by Apache Spark."""

__version__ = "0.1.0"
