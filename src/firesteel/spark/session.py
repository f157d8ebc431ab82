"""The Spark session jobs run in: the program's when there is one, else an embedded one of ours.

An embedded Spark has as many slots as the job needs: in local mode a slot is only a thread. When a later
job needs more and nothing else runs, the session is restarted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from firesteel.common.configuration import Configuration
from firesteel.common.errors import JobCancelledError, SparkSettingsError
from firesteel.common.options import (
    JOBMANAGER_ADDRESS,
    JOBMANAGER_BIND_HOST,
    JOBMANAGER_PORT,
    SLOT_REQUEST_TIMEOUT,
    SPARK_MASTER,
    SPARK_SLOTS,
    SSL_INTERNAL,
)
from firesteel.control.protocol import outward_address
from firesteel.plan.executor import ON_LOOPBACK, Listening, SlotWait
from firesteel.spark import jvm_process, tls
from firesteel.spark.engine_process import kill_jvm
from firesteel.spark.jvm import ended_unless_wanted, ensure_jvm
from firesteel.spark.master_url import EMBEDDED, check_form, reach
from firesteel.spark.master_url import is_local as is_local_master
from firesteel.spark.settings import REQUIRED
from firesteel.spark.slots import Slots, await_slots
from firesteel.spark.startup import (
    GATEWAY_VARIABLE,
    check,
    fixed_slots,
    master_remedy,
    too_few_slots,
    wanted_settings,
)

_LOG = logging.getLogger(__name__)

_lock = threading.Lock()
#: For the number of running jobs only: who ends one must not wait for somebody who starts one.
_counting = threading.Lock()
_ours: SparkSession | None = None
_running = 0
#: Whether the program holds our session: then it is not restarted to have more slots.
_is_shared = False


def acquire(
    configuration: Configuration,
    needed: int,
    is_wanted: Callable[[], bool] = lambda: True,
    on_start: Callable[[str, str | None], None] = lambda where, version: None,
    awaits_slots: Callable[[SlotWait | None], None] = lambda wait: None,
) -> SparkSession:
    """A session with room for ``needed`` tasks; `release` it when the job is over.

    Slots of a cluster may take a while to come, or to come back; when the session is not wanted any more,
    `JobCancelledError` is raised. ``on_start`` is told when a Spark has to be started, and where, and again, with its
    version, when it is there, and ``awaits_slots`` while there are too few of them.
    """
    with _lock:
        if not is_wanted():
            raise JobCancelledError("the job was ended before Spark started")
        session = _ready_session(configuration, needed, is_wanted, on_start)
        _count(1)  # from now on it is not restarted
    try:
        timeout = configuration.get(SLOT_REQUEST_TIMEOUT).to_millis() / 1000
        # In local mode a slot is a thread: none will come.
        remedy = _remedy(session, configuration, needed)
        patience = 0.0 if is_local(session) else timeout
        slots = await_slots(
            lambda: Slots(_available(session), remedy), needed, patience, is_wanted, awaits_slots
        )
        if slots.available < needed:
            raise too_few_slots(needed, slots.available, slots.remedy)
        return session
    except BaseException:
        release()
        raise


def count_slots(
    configuration: Configuration,
    wanted: int,
    on_start: Callable[[str, str | None], None] = lambda where, version: None,
) -> int:
    """How many of ``wanted`` slots there are for a job, with those that it has; a cluster is asked, and joined before.

    An embedded Spark of ours is as large as its only job needs, unless somebody has said how large it is.
    """
    with _lock:
        session = _usable_active_session()
        fixed = fixed_slots(configuration)
        if fixed is None and _may_grow(session, configuration):
            return wanted
        if fixed is not None and session is None and GATEWAY_VARIABLE not in os.environ:
            return min(wanted, fixed)
        if session is None:
            session = _ready_session(configuration, wanted, lambda: True, on_start)
    return min(wanted, _available(session))


def _may_grow(session: SparkSession | None, configuration: Configuration) -> bool:
    """Whether a job that is alone in a Spark of ours gets one that is as large as it needs."""
    if configuration.get(SPARK_MASTER) != EMBEDDED or GATEWAY_VARIABLE in os.environ:
        return False
    return session is None or (session is _ours and is_local(session) and _running <= 1 and not _is_shared)


def for_program(configuration: Configuration, needed: int = 1, is_simulated: bool = False) -> SparkSession:
    """The session for a program that wants to use it itself; one of ours is started if there is none.

    From now on it stays, and is not restarted for more slots: the program may hold DataFrames of it. For a job that is only
    simulated nothing is started.
    """
    global _is_shared
    with _lock:
        if is_simulated:
            session = _usable_active_session()
            if session is None:
                raise SparkSettingsError(
                    "this needs a SparkSession, and the simulator starts none: make one first with "
                    "SparkSession.builder.getOrCreate(), or run the program on Spark"
                )
            return session
        session = _ready_session(configuration, needed, lambda: True, lambda where, version: None)
        _is_shared = session is _ours
        return session


def current() -> SparkSession | None:
    """The session that is there now, if it answers; none is started."""
    return _usable_active_session()


def slots_of(session: SparkSession) -> int:
    """How many tasks the session runs at once."""
    return _available(session)


def release() -> None:
    """A job is over, and counts no longer among `running_jobs`."""
    _count(-1)


def _count(change: int) -> None:
    global _running
    with _counting:
        _running += change


def keep_if_started_with(settings: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """End a session of ours, and its JVM, unless the settings it was started with are those that are wanted.

    How many slots it has is a matter of `acquire`.
    """
    global _ours
    without_slots = [
        {key: value for key, value in each.items() if key != "spark.master"} for each in (settings, wanted)
    ]
    if without_slots[0] == without_slots[1] and is_local_master(wanted["spark.master"]):
        return
    with _lock:
        if _ours is not None:
            _ours.stop()
            kill_jvm(logging.DEBUG)
            _forget_dead_jvm()
            _ours = None


def running_jobs() -> int:
    """How many jobs use the session now."""
    return _running


def owns_jvm() -> bool:
    """Whether Spark's driver process belongs to Firesteel, and not to a session of the program's."""
    session = SparkSession._instantiatedSession
    return session is None or session is _ours


def is_local(session: SparkSession) -> bool:
    """Whether the tasks run on this machine, in processes of this one's Spark."""
    return is_local_master(str(session.sparkContext.master))


def listening(session: SparkSession, configuration: Configuration) -> Listening:
    """Where the job master listens for the tasks of this session."""
    identity = tls.control_identity(configuration)
    if is_local(session):
        return replace(ON_LOOPBACK, tls=identity)
    conf = session.sparkContext.getConf()
    beside = listening_beside(
        conf.get("spark.driver.host"), conf.get("spark.driver.bindAddress"), configuration
    )
    return replace(beside, tls=identity)


def listening_beside(
    driver_host: str | None, driver_bind: str | None, configuration: Configuration
) -> Listening:
    """Where the job master listens if Spark's driver does so there; unless told otherwise, at the same addresses.

    Executors reach Spark's driver, or nothing would work; so they reach the job master too.
    """
    host = (configuration.get(JOBMANAGER_ADDRESS) or driver_host or outward_address()).strip("[]")
    bind = configuration.get(JOBMANAGER_BIND_HOST) or driver_bind
    ports = configuration.get(JOBMANAGER_PORT)
    return Listening(host, None if bind is None or bind == host else bind.strip("[]"), ports or (0,))


def _ready_session(
    configuration: Configuration,
    needed: int,
    is_wanted: Callable[[], bool],
    on_start: Callable[[str, str | None], None],
) -> SparkSession:
    global _ours, _is_shared
    active = _usable_active_session()
    if active is not None and active is not _ours:
        jvm_process.discard()
        _check_settings(active)
        _check_encryption(active, configuration)
        return active
    if active is not None:
        _check_encryption(active, configuration)
    if active is not None and not _must_grow(active, configuration, needed):
        return active
    if active is not None:
        active.stop()
    _is_shared = False
    _ours = _start(configuration, needed, is_wanted, on_start)
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
    # Nor must one that the program uses.
    if not is_local(session) or _running or _is_shared:
        return False
    asked = configuration.get(SPARK_SLOTS)
    available = _available(session)
    return available != asked if asked else available < needed


def _check_settings(session: SparkSession) -> None:
    conf = session.sparkContext.getConf()
    runtime = session.conf
    wrong = []
    for key, value in REQUIRED.items():
        actual = runtime.get(key, None) if key.startswith("spark.sql.") else conf.get(key, None)
        if actual != value:
            wrong.append((key, value, actual))
    if wrong:
        lines = "\n".join(f"  {key}={value}   (is {actual})" for key, value, actual in wrong)
        raise SparkSettingsError(
            "the active SparkSession lacks settings that streaming needs; start it with\n"
            f"{lines}\nor stop it and let Firesteel start its own"
        )


def _check_encryption(session: SparkSession, configuration: Configuration) -> None:
    """A session that is there keeps its settings, and nobody shall believe that he is protected who is not."""
    if not configuration.get(SSL_INTERNAL):
        return
    conf = session.sparkContext.getConf()
    place = "driver" if is_local(session) else "executor"
    java_options = conf.get(f"spark.{place}.extraJavaOptions", "")
    lacking = [] if conf.get(tls.ENABLED, "false") == "true" else [f"{tls.ENABLED}=true"]
    lacking += [
        f"spark.{place}.extraJavaOptions={option}"
        for option in tls.GUARD_OPTIONS
        if option not in java_options.split()
    ]
    if lacking:
        raise SparkSettingsError(
            f"option '{SSL_INTERNAL.key}' is true, and the active SparkSession was started without {' and '.join(lacking)}; start it "
            "with all settings that encrypt what it sends (docs/security.md), or stop it and let Firesteel start its own"
        )


# A session of ours ------------------------------------------------------------------------------------


def _start(
    configuration: Configuration,
    needed: int,
    is_wanted: Callable[[], bool],
    on_start: Callable[[str, str | None], None],
) -> SparkSession:
    check(configuration, needed)
    settings = wanted_settings(configuration, needed, _submitted())
    master = settings["spark.master"]
    if addresses := check_form(master):
        reach(master, addresses, is_wanted)
    where = "" if is_local_master(master) else f"at {master}"
    on_start(where, None)
    # At INFO py4j tells of every connection it closes; that is not what a user who logs at INFO wants to read.
    if logging.getLogger("py4j").level == logging.NOTSET:
        logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    ensure_jvm(settings, is_wanted)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with ended_unless_wanted(is_wanted):
            session = builder.getOrCreate()
    except JobCancelledError:
        _forget_dead_jvm()
        raise
    on_start(where, session.version)
    # Only who has switched it on gets it, and on a free port nobody else knows where it is.
    if address := session.sparkContext.uiWebUrl:
        _LOG.warning("Spark's own user interface is at %s while this program runs", address)
    return session


def _submitted() -> dict[str, str]:
    """The settings that spark-submit has started this program with, if it has; its JVM is there already."""
    if GATEWAY_VARIABLE not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


# Slots ------------------------------------------------------------------------------------------------


def _available(session: SparkSession) -> int:
    context: Any = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    return int(context.maxNumConcurrentTasks(profile))


def _remedy(session: SparkSession, configuration: Configuration, needed: int) -> str:
    """How to get more slots: it depends on who has said how many there are."""
    if not is_local(session):
        return "give the Spark cluster more executor cores"
    if session is not _ours:
        return f"start the program's SparkSession with master('local[{needed}]')"
    return master_remedy(configuration.get(SPARK_MASTER), needed)
