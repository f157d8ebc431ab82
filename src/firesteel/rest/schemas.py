"""The shapes of what paths answer and take, in the words of OpenAPI; names and types of fields are Flink's.

A test holds every view against its shape, and another drives the running service from the document made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firesteel.logs.levels import LEVELS

__all__ = ["COMPONENTS", "Schema", "array", "reference"]

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
HEX: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
#: Java writes a number that is none as this text, and so do we.
NUMBER_OR_NAN: Schema = {"anyOf": [NUMBER, {"type": "string", "enum": ["NaN"]}]}

JOB_STATES = [
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
]
TASK_STATES = [
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
]


STATE_KIND: Schema = {"type": "string", "enum": ["value", "list", "map", "reducing", "aggregating"]}


def reference(name: str) -> Schema:
    """A shape by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """An object with any names."""
    return {"type": "object", "additionalProperties": values}


def choice(*values: str) -> Schema:
    """One of these texts."""
    return {"type": "string", "enum": list(values)}


def nullable(schema: Schema) -> Schema:
    """The same, or nothing."""
    return {"anyOf": [schema, {"type": "null"}]}


def record(fields: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with exactly these names."""
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
        "additionalProperties": False,
    }


def counted(names: list[str]) -> Schema:
    """An object with a whole number for each name."""
    return record(dict.fromkeys(names, WHOLE))


_TIMES = {"start-time": WHOLE, "end-time": WHOLE, "duration": WHOLE}
_IO = record(
    {
        "read-bytes": WHOLE,
        "read-bytes-complete": FLAG,
        "write-bytes": WHOLE,
        "write-bytes-complete": FLAG,
        "read-records": WHOLE,
        "read-records-complete": FLAG,
        "write-records": WHOLE,
        "write-records-complete": FLAG,
        "accumulated-backpressured-time": WHOLE,
        "accumulated-idle-time": WHOLE,
        "accumulated-busy-time": NUMBER_OR_NAN,
    }
)
_AGGREGATED = record(
    {"metrics": mapping(reference("Distribution")), "status-duration": mapping(reference("Distribution"))}
)
_PLAN = record(
    {
        "jid": HEX,
        "name": TEXT,
        "type": choice("STREAMING", "BATCH"),
        "nodes": array(reference("PlanNode")),
    }
)
_CHECKPOINT_FIGURES = {
    "id": WHOLE,
    "status": choice("IN_PROGRESS", "COMPLETED", "FAILED"),
    "latest_ack_timestamp": WHOLE,
    "checkpointed_size": WHOLE,
    "state_size": WHOLE,
    "end_to_end_duration": WHOLE,
    "alignment_buffered": WHOLE,
    "processed_data": WHOLE,
    "persisted_data": WHOLE,
    "num_subtasks": WHOLE,
    "num_acknowledged_subtasks": WHOLE,
}
_ALIGNMENT = ("buffered", "processed", "persisted", "duration")
_RESOURCE = record(
    {
        "cpuCores": NUMBER,
        "taskHeapMemory": WHOLE,
        "taskOffHeapMemory": WHOLE,
        "managedMemory": WHOLE,
        "networkMemory": WHOLE,
        "extendedResources": mapping(NUMBER),
    }
)
_HOST = {
    "id": TEXT,
    "path": TEXT,
    "dataPort": WHOLE,
    "jmxPort": WHOLE,
    "timeSinceLastHeartbeat": WHOLE,
    "slotsNumber": WHOLE,
    "freeSlots": WHOLE,
    "assignedTasks": WHOLE,
    "totalResource": _RESOURCE,
    "freeResource": _RESOURCE,
    "hardware": counted(["cpuCores", "physicalMemory", "freeMemory", "managedMemory"]),
    "memoryConfiguration": mapping(nullable(WHOLE)),
    "blocked": FLAG,
}
_EXCEPTION = {
    "exceptionName": TEXT,
    "stacktrace": TEXT,
    "timestamp": WHOLE,
    "taskName": nullable(TEXT),
    "endpoint": nullable(TEXT),
    "taskManagerId": nullable(TEXT),
    "failureLabels": mapping(TEXT),
}

_GENERAL: dict[str, Schema] = {
    "Errors": record({"errors": array(TEXT)}),
    "Nothing": record({}),
    "Trigger": record({"request-id": HEX}),
    "DashboardConfiguration": record(
        {
            "refresh-interval": WHOLE,
            "timezone-name": TEXT,
            "timezone-offset": WHOLE,
            "flink-version": TEXT,
            "flink-revision": TEXT,
            "features": record(
                {"web-submit": FLAG, "web-cancel": FLAG, "web-rescale": FLAG, "web-history": FLAG}
            ),
        }
    ),
    "ClusterOverview": record(
        {
            **dict.fromkeys(("taskmanagers", "taskmanagers-blocked", "slots-total"), WHOLE),
            **dict.fromkeys(("slots-available", "slots-free-and-blocked", "jobs-running"), WHOLE),
            **dict.fromkeys(("jobs-finished", "jobs-cancelled", "jobs-failed"), WHOLE),
            "flink-version": TEXT,
            "flink-commit": TEXT,
        }
    ),
    "ConfigurationEntry": record({"key": TEXT, "value": TEXT}),
    "Environment": record(
        {
            "jvm": record({"version": TEXT, "arch": TEXT, "options": array(TEXT)}),
            "classpath": array(TEXT),
        }
    ),
    "LogList": record({"logs": array(record({"name": TEXT, "size": WHOLE, "mtime": WHOLE}))}),
    "ThreadDump": record({"threadInfos": array(record({"threadName": TEXT, "stringifiedThreadInfo": TEXT}))}),
    "Metrics": array(record({"id": TEXT}, {"value": TEXT})),
    "AggregatedMetrics": array(
        record({"id": TEXT}, dict.fromkeys(("min", "max", "avg", "sum", "skew"), NUMBER))
    ),
    "Distribution": counted(["min", "max", "avg", "sum", "median", "p25", "p75", "p95"]),
    "TaskManagers": record(
        {
            "taskmanagers": array(record(_HOST)),
            "lost": array(record({"id": TEXT, "host": TEXT, "since": WHOLE, "lost": WHOLE, "reason": TEXT})),
        }
    ),
    "LogLevels": record({"loggers": array(record({"logger": TEXT, "level": TEXT}))}),
    "LogLevelChange": record({"logger": TEXT}, {"level": nullable(choice(*LEVELS))}),
    "FlameGraphNode": record({"name": TEXT, "value": WHOLE, "children": array(reference("FlameGraphNode"))}),
    "FlameGraph": record({"endTimestamp": WHOLE}, {"data": reference("FlameGraphNode")}),
    "TaskManager": record(
        {
            **_HOST,
            "allocatedSlots": array(record({"jobId": HEX, "resource": _RESOURCE, "assignedTasks": WHOLE})),
        }
    ),
}

_JOBS: dict[str, Schema] = {
    "JobIds": record({"jobs": array(record({"id": HEX, "status": choice(*JOB_STATES)}))}),
    "JobsOverview": record({"jobs": array(reference("JobLine"))}),
    "JobLine": record(
        {
            "jid": HEX,
            "name": TEXT,
            **_TIMES,
            "state": choice(*JOB_STATES),
            "last-modification": WHOLE,
            "tasks": counted(["total", *(state.lower() for state in TASK_STATES)]),
            "pending-operators": WHOLE,
            "jobType": choice("STREAMING", "BATCH"),
            "schedulerType": choice("Default", "Adaptive", "AdaptiveBatch"),
        }
    ),
    "JobDetails": record(
        {
            "jid": HEX,
            "application-id": HEX,
            "name": TEXT,
            "isStoppable": FLAG,
            "state": choice(*JOB_STATES),
            "job-type": choice("STREAMING", "BATCH"),
            **_TIMES,
            "maxParallelism": WHOLE,
            "now": WHOLE,
            "timestamps": counted(JOB_STATES),
            "vertices": array(reference("JobVertex")),
            "status-counts": counted(TASK_STATES),
            "plan": _PLAN,
            "stream-graph": record({}),
            "pending-operators": WHOLE,
            "schedulerType": choice("Default", "Adaptive", "AdaptiveBatch"),
            "slots": record({"wanted": WHOLE, "known": nullable(WHOLE), "used": WHOLE}),
        }
    ),
    "JobVertex": record(
        {
            "id": HEX,
            "slotSharingGroupId": HEX,
            "name": TEXT,
            "maxParallelism": WHOLE,
            "parallelism": WHOLE,
            "status": choice(*TASK_STATES),
            **_TIMES,
            "tasks": counted(TASK_STATES),
            "metrics": _IO,
        }
    ),
    "JobPlan": record({"plan": _PLAN}),
    "PlanNode": record(
        {
            "id": HEX,
            "parallelism": WHOLE,
            "operator": TEXT,
            "operator_strategy": TEXT,
            "description": TEXT,
            "optimizer_properties": record({}),
        },
        {"inputs": array(record({"num": WHOLE, "id": HEX, "ship_strategy": TEXT, "exchange": TEXT}))},
    ),
    "JobStatus": record({"status": choice(*JOB_STATES)}),
    "JobConfig": record(
        {
            "jid": HEX,
            "name": TEXT,
            "execution-config": record(
                {
                    "restart-strategy": TEXT,
                    "job-parallelism": WHOLE,
                    "object-reuse-mode": FLAG,
                    "user-config": mapping(TEXT),
                }
            ),
        }
    ),
    "ResourceRequirements": mapping(
        record({"parallelism": record({"lowerBound": WHOLE, "upperBound": WHOLE})})
    ),
    "FailureCause": record({"class": TEXT, "stack-trace": TEXT}),
    "ExecutionResult": record(
        {"status": reference("QueueStatus")},
        {
            "job-execution-result": record(
                {
                    "id": HEX,
                    "application-id": HEX,
                    "name": TEXT,
                    "start-time": WHOLE,
                    "end-time": WHOLE,
                    "application-status": choice("SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"),
                    "accumulator-results": mapping(TEXT),
                    "net-runtime": WHOLE,
                },
                {"failure-cause": reference("FailureCause")},
            )
        },
    ),
    "QueueStatus": record({"id": choice("IN_PROGRESS", "COMPLETED")}),
    "Exceptions": record(
        {
            "exceptionHistory": record(
                {
                    "entries": array(
                        record({**_EXCEPTION, "concurrentExceptions": array(record(_EXCEPTION))})
                    ),
                    "truncated": FLAG,
                }
            )
        }
    ),
    "JobHosts": record(
        {
            "now": WHOLE,
            "heartbeat": nullable(record({"interval": WHOLE, "timeout": WHOLE})),
            "waitingForSlots": nullable(record({"needed": WHOLE, "available": WHOLE, "since": WHOLE})),
            "hosts": array(
                record(
                    {
                        "host": TEXT,
                        "status": choice("RUNNING", "IDLE", "LOST"),
                        "tasks": WHOLE,
                        "processes": array(WHOLE),
                        "timeSinceLastHeartbeat": nullable(WHOLE),
                        "losses": WHOLE,
                        "lost": nullable(WHOLE),
                        "reason": nullable(TEXT),
                        "returned": nullable(WHOLE),
                    }
                )
            ),
        }
    ),
    "UserAccumulator": record({"name": TEXT, "type": TEXT, "value": TEXT}),
    "JobAccumulators": record(
        {
            "job-accumulators": array(record({})),
            "user-task-accumulators": array(reference("UserAccumulator")),
            "serialized-user-task-accumulators": mapping(TEXT),
        }
    ),
}

_VERTICES: dict[str, Schema] = {
    "Vertex": record(
        {
            "id": HEX,
            "name": TEXT,
            "parallelism": WHOLE,
            "maxParallelism": WHOLE,
            "now": WHOLE,
            "subtasks": array(reference("Subtask")),
            "aggregated": _AGGREGATED,
        }
    ),
    "Subtask": record(
        {
            "subtask": WHOLE,
            "status": choice(*TASK_STATES),
            "attempt": WHOLE,
            "endpoint": TEXT,
            **_TIMES,
            "start_time": WHOLE,
            "metrics": _IO,
            "taskmanager-id": TEXT,
            "status-duration": mapping(WHOLE),
        }
    ),
    "SubtaskTimes": record(
        {
            "id": HEX,
            "name": TEXT,
            "now": WHOLE,
            "subtasks": array(
                record(
                    {
                        "subtask": WHOLE,
                        "endpoint": TEXT,
                        "duration": WHOLE,
                        "timestamps": counted(TASK_STATES),
                    }
                )
            ),
        }
    ),
    "VertexTaskManagers": record(
        {
            "id": HEX,
            "name": TEXT,
            "now": WHOLE,
            "taskmanagers": array(
                record(
                    {
                        "endpoint": TEXT,
                        "taskmanager-id": TEXT,
                        "status": choice(*TASK_STATES),
                        **_TIMES,
                        "metrics": _IO,
                        "status-counts": counted(TASK_STATES),
                        "aggregated": _AGGREGATED,
                    }
                )
            ),
        }
    ),
    "BackPressure": record(
        {"status": choice("ok", "deprecated")},
        {
            "backpressureLevel": choice("ok", "low", "high"),
            "backpressure-level": choice("ok", "low", "high"),
            "end-timestamp": WHOLE,
            "subtasks": array(
                record(
                    {
                        "subtask": WHOLE,
                        "attempt-number": WHOLE,
                        "backpressureLevel": choice("ok", "low", "high"),
                        "backpressure-level": choice("ok", "low", "high"),
                        "ratio": NUMBER,
                        "idleRatio": NUMBER_OR_NAN,
                        "busyRatio": NUMBER_OR_NAN,
                    }
                )
            ),
        },
    ),
    "VertexAccumulators": record({"id": HEX, "user-accumulators": array(reference("UserAccumulator"))}),
    "SubtasksAccumulators": record(
        {
            "id": HEX,
            "parallelism": WHOLE,
            "subtasks": array(
                record(
                    {
                        "subtask": WHOLE,
                        "attempt": WHOLE,
                        "endpoint": TEXT,
                        "user-accumulators": array(reference("UserAccumulator")),
                    }
                )
            ),
        }
    ),
    "AttemptAccumulators": record(
        {
            "subtask": WHOLE,
            "attempt": WHOLE,
            "id": TEXT,
            "user-accumulators": array(reference("UserAccumulator")),
        }
    ),
}

_CHECKPOINTS: dict[str, Schema] = {
    "StatisticsSummary": record(
        {
            **dict.fromkeys(("min", "max", "avg"), WHOLE),
            **dict.fromkeys(("p50", "p90", "p95", "p99", "p999"), NUMBER_OR_NAN),
        }
    ),
    "Checkpoint": record(
        {
            "className": choice("in_progress", "completed", "failed"),
            **_CHECKPOINT_FIGURES,
            "is_savepoint": FLAG,
            "savepointFormat": nullable(TEXT),
            "trigger_timestamp": WHOLE,
            "checkpoint_type": choice("CHECKPOINT", "UNALIGNED_CHECKPOINT", "SAVEPOINT", "SYNC_SAVEPOINT"),
            "tasks": mapping(record(_CHECKPOINT_FIGURES)),
        },
        {
            "external_path": TEXT,
            "discarded": FLAG,
            "failure_timestamp": WHOLE,
            "failure_message": TEXT,
        },
    ),
    "Checkpoints": record(
        {
            "counts": counted(["restored", "total", "in_progress", "completed", "failed"]),
            "summary": record(
                dict.fromkeys(
                    (
                        "checkpointed_size",
                        "state_size",
                        "end_to_end_duration",
                        "alignment_buffered",
                        "processed_data",
                        "persisted_data",
                    ),
                    reference("StatisticsSummary"),
                )
            ),
            "latest": record(
                {
                    **dict.fromkeys(("completed", "savepoint", "failed"), nullable(reference("Checkpoint"))),
                    "restored": nullable(
                        record(
                            {
                                "id": WHOLE,
                                "restore_timestamp": WHOLE,
                                "is_savepoint": FLAG,
                                "external_path": TEXT,
                            }
                        )
                    ),
                }
            ),
            "history": array(reference("Checkpoint")),
        }
    ),
    "CheckpointSubtasks": record(
        {
            **_CHECKPOINT_FIGURES,
            "summary": record(
                {
                    **dict.fromkeys(
                        ("checkpointed_size", "state_size", "end_to_end_duration", "start_delay"),
                        reference("StatisticsSummary"),
                    ),
                    "checkpoint_duration": record(
                        dict.fromkeys(("sync", "async"), reference("StatisticsSummary"))
                    ),
                    "alignment": record(dict.fromkeys(_ALIGNMENT, reference("StatisticsSummary"))),
                }
            ),
            "subtasks": array(
                record(
                    {"className": choice("completed", "pending"), "index": WHOLE, "status": TEXT},
                    {
                        **dict.fromkeys(("ack_timestamp", "end_to_end_duration", "start_delay"), WHOLE),
                        **dict.fromkeys(("checkpointed_size", "state_size"), WHOLE),
                        "checkpoint": counted(["sync", "async"]),
                        "alignment": counted(list(_ALIGNMENT)),
                        "unaligned_checkpoint": FLAG,
                        "aborted": FLAG,
                    },
                )
            ),
        }
    ),
    "CheckpointConfig": record(
        {
            "mode": choice("exactly_once", "at_least_once"),
            **dict.fromkeys(("interval", "timeout", "min_pause", "max_concurrent"), WHOLE),
            "externalization": record({"enabled": FLAG, "delete_on_cancellation": FLAG}),
            "state_backend": TEXT,
            "checkpoint_storage": TEXT,
            "unaligned_checkpoints": FLAG,
            "tolerable_failed_checkpoints": WHOLE,
            "aligned_checkpoint_timeout": WHOLE,
            "checkpoints_after_tasks_finish": FLAG,
            "state_changelog_enabled": FLAG,
            "changelog_storage": TEXT,
            "changelog_periodic_materialization_interval": WHOLE,
        }
    ),
    "SavepointStatus": record(
        {
            "status": reference("QueueStatus"),
            "operation": nullable(record({}, {"location": TEXT, "failure-cause": reference("FailureCause")})),
        }
    ),
    "CheckpointTriggerStatus": record(
        {
            "status": reference("QueueStatus"),
            "operation": nullable(
                record({}, {"checkpointId": WHOLE, "failureCause": reference("FailureCause")})
            ),
        }
    ),
    "DisposalStatus": record(
        {
            "status": reference("QueueStatus"),
            "operation": nullable(record({}, {"failure-cause": reference("FailureCause")})),
        }
    ),
    "SavepointRequest": record(
        {},
        {
            "target-directory": nullable(TEXT),
            "cancel-job": FLAG,
            "formatType": choice("CANONICAL", "NATIVE"),
            "triggerId": nullable(HEX),
        },
    ),
    "StopRequest": record(
        {},
        {
            "targetDirectory": nullable(TEXT),
            "drain": FLAG,
            "formatType": choice("CANONICAL", "NATIVE"),
            "triggerId": nullable(HEX),
        },
    ),
    "CheckpointRequest": record(
        {},
        {
            "checkpointType": choice("CONFIGURED", "FULL", "INCREMENTAL"),
            "triggerId": nullable(HEX),
        },
    ),
    "DisposalRequest": record({"savepoint-path": TEXT}),
}

#: Firesteel's own: Flink's interface has nothing of this kind.
_QUERYABLE_STATES: dict[str, Schema] = {
    "QueryableStates": record(
        {
            "states": array(
                record(
                    {
                        "name": TEXT,
                        "kind": STATE_KIND,
                        "type": TEXT,
                        "key-type": TEXT,
                        "vertex": HEX,
                        "operator": TEXT,
                    }
                )
            )
        }
    ),
    "StateValue": record({"name": TEXT, "value": {}}),
}

#: Of a savepoint that a job starts from. The older name of the field is there, too, as in Flink.
_CLAIM_MODE = choice("NO_CLAIM", "CLAIM", "LEGACY")
_JAR_REQUEST = {
    "entryClass": nullable(TEXT),
    "programArgs": nullable(TEXT),
    "programArgsList": nullable(array(TEXT)),
    "parallelism": nullable(WHOLE),
    "jobId": nullable(HEX),
    "flinkConfiguration": nullable(mapping(TEXT)),
}

#: What only the cluster service has.
_PROGRAMS: dict[str, Schema] = {
    "Jars": record(
        {
            "address": TEXT,
            "files": array(
                record(
                    {
                        "id": TEXT,
                        "name": TEXT,
                        "uploaded": WHOLE,
                        "entry": array(record({"name": TEXT, "description": nullable(TEXT)})),
                    }
                )
            ),
        }
    ),
    "JarUpload": record({"filename": TEXT, "status": choice("success")}),
    "JarRun": record({"jobid": HEX, "applicationId": HEX}),
    "JarPlanRequest": record({}, _JAR_REQUEST),
    "JarRunRequest": record(
        {},
        {
            **_JAR_REQUEST,
            "savepointPath": nullable(TEXT),
            "allowNonRestoredState": nullable(FLAG),
            "claimMode": nullable(_CLAIM_MODE),
            "restoreMode": nullable(_CLAIM_MODE),
        },
    ),
    "Submitted": record({"jobUrl": TEXT}),
    "LogUrl": record({"url": TEXT}),
}

_COUNTS = counted(["ignored", "inProgress", "completed", "failed"])
_DURATIONS = record(
    {
        **dict.fromkeys(("min", "max", "avg"), WHOLE),
        **dict.fromkeys(("p50", "p90", "p95", "p99", "p999"), NUMBER),
    }
)
_GROUP = {"slotSharingGroupId": HEX, "slotSharingGroupName": TEXT}
_NO_PROFILE: Schema = {"type": "null"}  # Spark has resources of executors, not of slots

_RESCALES: dict[str, Schema] = {
    "RescalingStatus": record(
        {
            "status": reference("QueueStatus"),
            "operation": nullable(record({}, {"failure-cause": reference("FailureCause")})),
        }
    ),
    "RescaleConfig": record(
        {
            "rescaleHistoryMax": WHOLE,
            "schedulerExecutionMode": nullable(choice("REACTIVE")),
            "submissionResourceWaitTimeoutInMillis": WHOLE,
            "submissionResourceStabilizationTimeoutInMillis": WHOLE,
            "slotIdleTimeoutInMillis": WHOLE,
            "executingCooldownTimeoutInMillis": WHOLE,
            "executingResourceStabilizationTimeoutInMillis": WHOLE,
            "maximumDelayForTriggeringRescaleInMillis": WHOLE,
            "rescaleOnFailedCheckpointCount": WHOLE,
        }
    ),
    "RescaledVertex": record(
        {
            "jobVertexId": HEX,
            "jobVertexName": TEXT,
            **_GROUP,
            "desiredParallelism": WHOLE,
            "sufficientParallelism": WHOLE,
            "preRescaleParallelism": WHOLE,
            "postRescaleParallelism": WHOLE,
            "requiredParallelisms": counted(["minParallelism", "parallelism", "maxParallelism"]),
        }
    ),
    "RescaledSlots": record(
        {
            **_GROUP,
            "requestResourceProfile": _NO_PROFILE,
            "acquiredResourceProfile": _NO_PROFILE,
            "desiredSlots": WHOLE,
            "minimalRequiredSlots": WHOLE,
            "preRescaleSlots": WHOLE,
            "postRescaleSlots": WHOLE,
        }
    ),
    "Rescale": record(
        {
            "rescaleUuid": HEX,
            "resourceRequirementsUuid": HEX,
            "rescaleAttemptId": WHOLE,
            "vertices": mapping(reference("RescaledVertex")),
            "slots": mapping(reference("RescaledSlots")),
            "schedulerStates": array(
                record(
                    {
                        "state": TEXT,
                        "enterTimestampInMillis": WHOLE,
                        "leaveTimestampInMillis": nullable(WHOLE),
                        "durationInMillis": WHOLE,
                        "stringifiedException": nullable(TEXT),
                    }
                )
            ),
            "startTimestampInMillis": WHOLE,
            "endTimestampInMillis": nullable(WHOLE),
            "terminalState": nullable(choice("COMPLETED", "FAILED", "IGNORED")),
            "triggerCause": choice(
                "INITIAL_SCHEDULE", "UPDATE_REQUIREMENT", "NEW_RESOURCE_AVAILABLE", "RECOVERABLE_FAILOVER"
            ),
            "terminatedReason": nullable(choice("SUCCEEDED", "EXCEPTION_OCCURRED")),
        }
    ),
    "RescalesOverview": record(
        {
            "rescalesCounts": _COUNTS,
            "latest": record(
                {kind: nullable(reference("Rescale")) for kind in ("completed", "failed", "ignored")}
            ),
        }
    ),
    "RescalesSummary": record(
        {
            "rescalesCounts": _COUNTS,
            "rescalesDurationStatsInMillis": _DURATIONS,
            "completedRescalesDurationStatsInMillis": _DURATIONS,
            "failedRescalesDurationStatsInMillis": _DURATIONS,
            "ignoredRescalesDurationStatsInMillis": _DURATIONS,
        }
    ),
}

COMPONENTS: dict[str, Schema] = {
    **_GENERAL,
    **_JOBS,
    **_VERTICES,
    **_CHECKPOINTS,
    **_QUERYABLE_STATES,
    **_RESCALES,
    **_PROGRAMS,
}
