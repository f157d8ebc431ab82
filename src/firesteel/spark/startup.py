"""What a Spark session of ours is started with, decided, checked and begun before PySpark is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from firesteel.common.configuration import Configuration
from firesteel.common.errors import NotEnoughSlotsError
from firesteel.common.options import SCHEDULER, SPARK_MASTER, SPARK_SLOTS
from firesteel.spark import jvm_process
from firesteel.spark.master_url import EMBEDDED, check_environment, check_form, is_local, threads_of
from firesteel.spark.settings import session_settings

__all__ = [
    "GATEWAY_VARIABLE",
    "begin",
    "check",
    "fixed_slots",
    "master_remedy",
    "too_few_slots",
    "wanted_settings",
]

#: Set by spark-submit, which has started a JVM already.
GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"

_GENEROUS_SLOTS = 64
#: Containers have a temporary directory of their own, whose path is longer than that of a socket may be.
_ON_YARN = {"spark.python.unix.domain.socket.dir": "/tmp"}


def begin(configuration: Configuration, needed: int, *, early: bool) -> bool:
    """Refuse what cannot succeed; start the JVM of an embedded Spark that the job will want (``early``).

    Returns whether a JVM starts now. What is decided here holds for a session that has to be started: a program that has
    one keeps it.
    """
    if _has_session():
        return False
    if configuration.get(SCHEDULER) == "Adaptive":  # it makes do with what there is
        needed = min(needed, fixed_slots(configuration) or needed)
    check(configuration, needed)
    settings = wanted_settings(configuration, needed)
    if not early or not is_local(settings["spark.master"]) or GATEWAY_VARIABLE in os.environ:
        return False
    jvm_process.start_early(settings)
    return True


def check(configuration: Configuration, needed: int) -> None:
    """Raise what is wrong with the master that the job is to run on, as far as that shows before anything is started."""
    master = configuration.get(SPARK_MASTER)
    check_form(master)
    check_environment(master, configuration, os.environ)
    threads = fixed_slots(configuration)
    if threads and threads < needed:
        raise too_few_slots(needed, threads, master_remedy(master, needed))


def fixed_slots(configuration: Configuration) -> int | None:
    """How many slots a local Spark is to have; None when nobody has said it, and for clusters."""
    master = configuration.get(SPARK_MASTER)
    return configuration.get(SPARK_SLOTS) if master == EMBEDDED else threads_of(master)


def master_remedy(master: str, needed: int) -> str:
    """How somebody who has asked for this local Spark gets enough slots."""
    if master == EMBEDDED:
        return f"raise the option {SPARK_SLOTS.key}"
    return (
        f"give the local Spark more threads than {master} has (-m 'local[{needed}]'), or none at all (no -m: as many slots "
        "as the job needs)"
    )


def too_few_slots(needed: int, available: int, remedy: str) -> NotEnoughSlotsError:
    """The error of a job that does not fit."""
    return NotEnoughSlotsError(
        f"the job needs {needed} slots, one for every task of every stage at the same time, and Spark "
        f"has {available}; lower the parallelism (env.set_parallelism) or {remedy}",
        needed=needed,
        available=available,
    )


def wanted_settings(
    configuration: Configuration, needed: int, submitted: Mapping[str, str] | None = None
) -> dict[str, str]:
    """All settings of a session for a job that needs that many slots; ``submitted``: those that spark-submit was given."""
    others = dict(submitted or {})
    master = _master(configuration, needed, others.pop("spark.master", None))
    makes_secrets = master.startswith(("yarn", "k8s://"))
    return {
        "spark.master": master,
        "spark.app.name": "firesteel",
        **(_ON_YARN if master.startswith("yarn") else {}),
        **session_settings(
            configuration, local=is_local(master), makes_secrets=makes_secrets, submitted=others
        ),
    }


def _master(configuration: Configuration, needed: int, submitted: str | None = None) -> str:
    master = configuration.get(SPARK_MASTER)
    if master != EMBEDDED:
        return master
    if submitted is not None and not is_local(submitted):
        return submitted  # without --master spark-submit says local[*], and there a slot is only a thread
    asked = configuration.get(SPARK_SLOTS)
    slots = asked if asked else max(needed, _GENEROUS_SLOTS)
    return f"local[{slots}]"


def _has_session() -> bool:
    """Whether PySpark has a JVM in this process already."""
    pyspark = sys.modules.get("pyspark")
    context = getattr(pyspark, "SparkContext", None)
    return getattr(context, "_gateway", None) is not None
