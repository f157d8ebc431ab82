"""Connects PySpark with the JVM of this process, and ends a JVM that is still starting when nobody wants it any more."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway

from firesteel.common.errors import JobCancelledError
from firesteel.spark import class_archive, engine_process, jvm_process
from firesteel.spark.startup import GATEWAY_VARIABLE

__all__ = ["a_job_has_run", "ended_unless_wanted", "ensure_jvm"]

_LOOK_SECONDS = 0.1

#: Of the JVM that runs now, if it notes its classes for one.
_archive: class_archive.ClassArchive | None = None


def ensure_jvm(settings: Mapping[str, str], is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Start a JVM with these settings of Spark, unless this process has one.

    Raises `JobCancelledError` when it is not wanted any more before it is there.
    """
    global _archive
    if SparkContext._gateway is not None:
        return
    if GATEWAY_VARIABLE in os.environ:  # of spark-submit, which has started one for this program
        SparkContext._ensure_initialized(gateway=launch_gateway())
        return
    process = jvm_process.take(settings)
    port, secret = process.await_connection(is_wanted)
    # That is how PySpark learns of a JVM that it has not started.
    with _environment({GATEWAY_VARIABLE: str(port), "PYSPARK_GATEWAY_SECRET": secret}):
        gateway = launch_gateway()
    gateway.proc = process.popen  # so that it counts as started by this program, as it was
    SparkContext._ensure_initialized(gateway=gateway)
    _archive = process.archive
    if process.archive is not None:
        atexit.register(process.archive.make_after, process.popen.pid)


def a_job_has_run() -> None:
    """The classes that the JVM has loaded by now are those that the next one will need."""
    if _archive is not None:
        _archive.a_job_has_run()


@contextlib.contextmanager
def ended_unless_wanted(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """End the JVM as soon as nobody wants what is done inside: calls to it cannot be interrupted otherwise.

    Raises `JobCancelledError` then. Only for a JVM in which nothing else runs.
    """
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.wait(_LOOK_SECONDS):
            if not is_wanted():
                engine_process.kill_jvm(logging.DEBUG)  # as was wanted: no reason to worry
                return

    watcher = threading.Thread(target=watch, name="firesteel-start-watch", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if is_wanted():
            raise
        raise JobCancelledError("the job was ended while Spark started") from error
    finally:
        is_done.set()
        watcher.join()


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables for a moment: what the user's program starts by itself must not see them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
