"""What a process of the engine that tasks run in is called: Flink's id of a task manager."""

from __future__ import annotations

__all__ = ["executor_name", "tell_executors_apart"]

#: Spark's name for the executor of an embedded Spark, which is the driver itself.
_EMBEDDED = ("", "driver")

_of_this_driver = ""


def executor_name(host: str, executor: str) -> str:
    """Spark's number of it on a cluster; the machine, where there is one process on one machine.

    >>> executor_name("worker-1", "0"), executor_name("laptop", "driver")
    ('executor-0', 'laptop')
    """
    name = host if executor in _EMBEDDED else f"executor-{executor}"
    return f"{name}{_of_this_driver}" if name else ""


def tell_executors_apart(driver: str) -> None:
    """Name executors so that those of several drivers can be seen side by side: ``laptop@66272c43``.

    A matter of the process, which is one driver; to be called before its first job.
    """
    global _of_this_driver
    _of_this_driver = f"@{driver}"
