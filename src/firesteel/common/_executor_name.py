"""What a process of the engine that tasks run in is called: Flink's id of a task manager."""

from __future__ import annotations

__all__ = ["executor_name"]

#: Spark's name for the executor of an embedded Spark, which is the driver itself.
_EMBEDDED = ("", "driver")


def executor_name(host: str, executor: str) -> str:
    """Spark's number of it on a cluster; the machine, where there is one process on one machine.

    >>> executor_name("worker-1", "0"), executor_name("laptop", "driver")
    ('executor-0', 'laptop')
    """
    return host if executor in _EMBEDDED else f"executor-{executor}"
