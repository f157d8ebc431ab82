"""The Spark session jobs run in: the user's own when there is one, else an embedded one of ours.

An embedded Spark has as many slots as the job needs: in local mode a slot is only a thread. When a later
job needs more and nothing else runs, the session is started anew.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from dataclasses import dataclass
from importlib import resources
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from firesteel._java import find_java
from firesteel.common.configuration import Configuration
from firesteel.common.errors import NotEnoughSlotsError, SparkSettingsError
from firesteel.common.options import SPARK_MASTER, SPARK_SLOTS
from firesteel.spark.settings import REQUIRED, session_settings

_EMBEDDED = "embedded"
_GENEROUS_SLOTS = 64

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
        slots = _slots(session)
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
    return str(session.sparkContext.master).startswith("local")


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


def _usable_active_session() -> SparkSession | None:
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is None or session.sparkContext._jsc is None or SparkContext._active_spark_context is None:
        return None
    return session


def _must_grow(session: SparkSession, configuration: Configuration, needed: int) -> bool:
    # A session on a cluster cannot grow by being restarted, and one with running jobs must not be.
    if not is_local(session) or _running:
        return False
    return _slots(session).available < max(needed, configuration.get(SPARK_SLOTS) or 0)


def _start(configuration: Configuration, needed: int) -> SparkSession:
    # At INFO py4j tells of every connection it closes; that is not what a user who logs at INFO wants to read.
    if logging.getLogger("py4j").level == logging.NOTSET:
        logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(_master(configuration, needed)).appName("firesteel")
    for key, value in session_settings(configuration).items():
        builder = builder.config(key, value)
    log_settings = resources.files("firesteel.spark") / "log4j2.properties"
    builder = builder.config(
        "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{log_settings}"
    )
    return builder.getOrCreate()


def _master(configuration: Configuration, needed: int) -> str:
    master = configuration.get(SPARK_MASTER)
    if master != _EMBEDDED:
        return master
    asked = configuration.get(SPARK_SLOTS)
    slots = asked if asked else max(needed, _GENEROUS_SLOTS)
    return f"local[{slots}]"


def _slots(session: SparkSession) -> Slots:
    context: Any = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    available = int(context.maxNumConcurrentTasks(profile))
    local = re.fullmatch(r"local(\[.*\])?", str(session.sparkContext.master))
    if local:
        return Slots(available, "raise the option firesteel.spark.slots")
    return Slots(available, "give the Spark cluster more executor cores")


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
