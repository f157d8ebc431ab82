"""The Spark session jobs run in: the user's own when there is one, else an embedded one of ours.

An embedded Spark has as many slots as the job needs: in local mode a slot is only a thread. When a later
job needs more and nothing else runs, the session is started anew.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from firesteel._java import find_java, quiet_home
from firesteel.common.configuration import Configuration
from firesteel.common.errors import NotEnoughSlotsError, SparkSettingsError
from firesteel.common.options import SPARK_MASTER, SPARK_SLOTS
from firesteel.spark.settings import REQUIRED, session_settings

_EMBEDDED = "embedded"
_GENEROUS_SLOTS = 64
#: How long the executors of a cluster may take to report for work.
_REGISTRATION_SECONDS = 30.0

_lock = threading.Lock()
_ours: SparkSession | None = None
_running = 0


@dataclass(frozen=True, slots=True)
class Slots:
    """How many tasks Spark can run at once, and how to get more."""

    available: int
    remedy: str


def acquire(configuration: Configuration, needed: int) -> SparkSession:
    """A session with room for ``needed`` tasks; `release` it when the job is over."""
    global _running
    with _lock:
        session = _ready_session(configuration, needed)
        slots = _awaited_slots(session, needed)
        if slots.available < needed:
            raise NotEnoughSlotsError(
                f"the job needs {needed} slots, one for every task of every stage at the same time, and Spark "
                f"has {slots.available}; lower the parallelism (env.set_parallelism) or {slots.remedy}",
                needed=needed,
                available=slots.available,
            )
        _running += 1
        return session


def release() -> None:
    """A job is over."""
    global _running
    with _lock:
        _running -= 1


def is_local(session: SparkSession) -> bool:
    """Whether the tasks run on this machine, in processes of this one's Spark."""
    return _is_local_master(str(session.sparkContext.master))


def _is_local_master(master: str) -> bool:
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _ready_session(configuration: Configuration, needed: int) -> SparkSession:
    global _ours
    active = _usable_active_session()
    if active is not None and active is not _ours:
        _check_settings(active)
        return active
    if active is not None and not _must_grow(active, configuration, needed):
        return active
    if active is not None:
        active.stop()
    _ours = _start(configuration, needed)
    return _ours


# Sessions that are there ------------------------------------------------------------------------------


def _usable_active_session() -> SparkSession | None:
    session = SparkSession._instantiatedSession
    with contextlib.suppress(Py4JError, OSError):
        session = SparkSession.getActiveSession() or session
    context = None if session is None else session.sparkContext
    if (
        session is None
        or context is None
        or context._jsc is None
        or context is not SparkContext._active_spark_context
    ):
        return None
    if _is_alive(context):
        return session
    _forget_dead_jvm()
    return None


def _is_alive(context: SparkContext) -> bool:
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


def _forget_dead_jvm() -> None:
    # PySpark never lets go of a JVM that crashed, and would talk to it for ever.
    with contextlib.suppress(Exception):
        SparkContext._gateway.shutdown()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _must_grow(session: SparkSession, configuration: Configuration, needed: int) -> bool:
    # A session on a cluster cannot grow by being restarted, and one with running jobs must not be.
    if not is_local(session) or _running:
        return False
    asked = configuration.get(SPARK_SLOTS)
    available = _slots(session).available
    return available != asked if asked else available < needed


def _check_settings(session: SparkSession) -> None:
    conf = session.sparkContext.getConf()
    runtime = session.conf
    wrong = []
    for key, value in REQUIRED.items():
        found = runtime.get(key, None) if key.startswith("spark.sql.") else conf.get(key, None)
        if found != value:
            wrong.append((key, value, found))
    if wrong:
        lines = "\n".join(f"  {key}={value}   (is {found})" for key, value, found in wrong)
        raise SparkSettingsError(
            "the active SparkSession lacks settings that streaming needs; start it with\n"
            f"{lines}\nor stop it and let Firesteel start its own"
        )


# A session of ours ------------------------------------------------------------------------------------


def _start(configuration: Configuration, needed: int) -> SparkSession:
    # At INFO py4j tells of every connection it closes; that is not what a user who logs at INFO wants to read.
    if logging.getLogger("py4j").level == logging.NOTSET:
        logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = _master(configuration, needed)
    builder = SparkSession.builder.master(master).appName("firesteel")
    for key, value in session_settings(configuration, local=_is_local_master(master)).items():
        builder = builder.config(key, value)
    java = {"JAVA_HOME": str(quiet_home(find_java())), "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS}
    with _environment(java):
        return builder.getOrCreate()


#: For the small JVM that only works out how the real one is started.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables for the JVM only: what the user's program starts by itself must not see them."""
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


def _master(configuration: Configuration, needed: int) -> str:
    master = configuration.get(SPARK_MASTER)
    if master != _EMBEDDED:
        return master
    asked = configuration.get(SPARK_SLOTS)
    slots = asked if asked else max(needed, _GENEROUS_SLOTS)
    return f"local[{slots}]"


# Slots ------------------------------------------------------------------------------------------------


def _awaited_slots(session: SparkSession, needed: int) -> Slots:
    """The slots; those of a cluster are there only when its executors have started."""
    slots = _slots(session)
    deadline = time.monotonic() + (0.0 if is_local(session) else _REGISTRATION_SECONDS)
    while slots.available < needed and time.monotonic() < deadline:
        time.sleep(0.05)
        slots = _slots(session)
    return slots


def _slots(session: SparkSession) -> Slots:
    context: Any = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    available = int(context.maxNumConcurrentTasks(profile))
    if is_local(session):
        return Slots(available, "raise the option firesteel.spark.slots")
    return Slots(available, "give the Spark cluster more executor cores")
