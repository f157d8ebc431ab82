"""The process from which the embedded Spark forks its Python workers, with all that tasks need already imported.

PySpark's own daemon forks workers that have imported nothing: each pays half a second of processor time
for pyarrow and PySpark before it does anything. Here they are imported once and the forks share them, so
that every task of every job gets a new process for a few milliseconds.

PySpark forks first because libraries may start threads, which a fork does not copy. The only thread here is
the one in which pyarrow's jemalloc returns memory; jemalloc starts it again in the child.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import socket
import sys
from typing import Any

_ARCHIVES = ("pyspark.zip", "py4j-", "spark-core_")
_BUFFER_BYTES = 64 * 1024

#: The umask of the program. Spark itself and this process write for their user only, the user's functions as he likes.
UMASK_VARIABLE = "FIRESTEEL_UMASK"


def _prefer_installed_pyspark() -> None:
    """Forget the archives that Spark puts first on the path when PySpark is installed beside them.

    Every task makes Python read the tables of contents of all archives on the path again, which takes a
    quarter of a second, and modules in archives are compiled again in every process.
    """
    archives = [path for path in sys.path if os.path.basename(path).startswith(_ARCHIVES)]
    before = sys.path[:]
    sys.path[:] = [path for path in sys.path if path not in archives]
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("py4j") is None:
        sys.path[:] = before
        return
    for path in archives:
        sys.path_importer_cache.pop(path, None)


def _use_large_buffers() -> None:
    """Read and write whole messages at once.

    Spark gives Python the buffer size of its own side, which is tiny so that every row leaves the JVM at once.
    PySpark flushes what it writes by itself and reads what is there, so with a large buffer nothing waits longer,
    and a message of a few hundred bytes takes one system call instead of a dozen. After each of them the reading
    thread has to wait until the task's thread lets go of the interpreter.
    """
    os.environ["SPARK_BUFFER_SIZE"] = str(_BUFFER_BYTES)


def _read_in_the_task() -> None:
    """Have the task itself read what Spark sends, instead of a thread of PySpark's that hands every batch on to it.

    A task reads the socket (worker_socket.py), and nobody else may do it meanwhile. PySpark flushes every batch only together
    with its thread, so that is asked for here, for functions that are not ours.
    """
    if os.environ.pop("SPARK_PIPELINED_UDF", None) != "1":
        return
    serializers: Any = importlib.import_module("pyspark.sql.pandas.serializers")
    prepare = serializers.ArrowStreamSerializer.__init__

    def flush_every_batch(self: Any, *arguments: Any, **options: Any) -> None:
        prepare(self, *arguments, **options)
        self._flush_per_batch = True

    serializers.ArrowStreamSerializer.__init__ = flush_every_batch


def _run() -> None:
    _prefer_installed_pyspark()
    _use_large_buffers()
    _read_in_the_task()
    daemon: Any = importlib.import_module("pyspark.daemon")
    importlib.import_module("firesteel.spark.task_shell")
    worker: Any = importlib.import_module("pyspark.worker")
    worker.main = importlib.import_module("firesteel.spark.worker_socket").hand_over_to(worker.main)
    daemon.worker = _quiet(daemon.worker)
    gc.collect()
    gc.freeze()  # what is here stays: looking at it in every collection would copy the pages it lives on
    daemon.manager()


def _quiet(worker: Any) -> Any:
    mask = os.environ.get(UMASK_VARIABLE)

    def quiet_worker(sock: socket.socket, authenticated: bool) -> int:
        if mask is not None:
            os.umask(int(mask, 8))
        try:
            return int(worker(sock, authenticated))
        except ConnectionError:
            # Spark hung up: the job was cancelled or Spark is exiting. PySpark would print a traceback.
            return 1

    return quiet_worker


if __name__ == "__main__":
    _run()
