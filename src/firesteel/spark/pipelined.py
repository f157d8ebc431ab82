"""DataFrame -> pipelined physical plan: the only use of Spark internals.

Every shuffle in the physical plan is copied with ``pipelined = true``; from that alone Spark runs all
stages of the job at the same time and streams rows between them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def physical_plan(frame: DataFrame) -> Any:
    """The JVM's physical plan of a DataFrame."""
    return frame._jdf.queryExecution().executedPlan()


def pipelined(session: SparkSession, plan: Any) -> Any:
    """The same plan with every exchange pipelined."""
    children = [pipelined(session, plan.children().apply(i)) for i in range(plan.children().size())]
    if plan.getClass().getSimpleName() == "ShuffleExchangeExec":
        return plan.copy(
            plan.outputPartitioning(), children[0], plan.shuffleOrigin(), plan.advisoryPartitionSize(), True
        )
    if not children:
        return plan
    jvm: Any = session._jvm
    items = jvm.java.util.ArrayList()
    for child in children:
        items.add(child)
    return plan.withNewChildren(jvm.scala.jdk.javaapi.CollectionConverters.asScala(items).toSeq())


def set_active(session: SparkSession) -> None:
    """Let the current thread's JVM twin know the session; plan nodes look it up there."""
    jvm: Any = session._jvm
    getattr(getattr(jvm.org.apache.spark.sql.classic, "SparkSession$"), "MODULE$").setActiveSession(
        session._jsparkSession
    )
