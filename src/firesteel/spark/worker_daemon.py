"""The process from which the embedded Spark forks its Python workers, with all that tasks need already imported.

PySpark's own daemon forks workers that have imported nothing: each pays half a second of processor time
for pyarrow and PySpark before it does anything, at the start of the first job and again after every job that
was cancelled or failed. Here they are imported once and the forks share them.

PySpark forks first because libraries may start threads, which a fork does not copy. The only thread here is
the one in which pyarrow's jemalloc returns memory; jemalloc starts it again in the child.
"""

from __future__ import annotations

import gc
import socket
from typing import Any

import pyarrow  # noqa: F401 - imported for the forks
import pyspark.daemon
import pyspark.worker

import firesteel.spark.task_shell  # noqa: F401

_worker: Any = pyspark.daemon.worker


def _quiet_worker(sock: socket.socket, authenticated: bool) -> int:
    try:
        return int(_worker(sock, authenticated))
    except ConnectionError:
        # Spark hung up: the job was cancelled or Spark is exiting. PySpark would print a traceback.
        return 1


if __name__ == "__main__":
    pyspark.daemon.worker = _quiet_worker
    gc.collect()
    gc.freeze()  # what is here stays: looking at it in every collection would copy the pages it lives on
    pyspark.daemon.manager()
