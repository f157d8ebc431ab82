"""What the options of a job mean to its tasks. Read here and nowhere else in a task.

Components with options of their own - state backends, local copies, the memory limit - are given the configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.metrics._scopes import ScopeFormats
from firesteel.plan.job_plan import JobPlan
from firesteel.runtime.subtask_snapshot import SnapshotForm

__all__ = ["TaskSettings"]


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The same for all tasks of a job."""

    configuration: Configuration
    #: Records per chunk between stages, at most, and bytes per record.
    chunk_records: int
    record_max_size: int
    #: Records that a source gives at once.
    source_batch: int
    #: Bytes of input that may wait in a subtask.
    waiting_input_limit: int
    #: How often periodic watermarks are made; 0 for never.
    watermark_interval_ms: int
    #: How long records may come without the watermark moving before somebody says so; 0 or less for ever.
    stall_warning_seconds: float
    #: Whether objects are handed from operator to operator as they are.
    object_reuse: bool
    #: Whether barriers are aligned.
    exactly_once: bool
    #: Whether restored state that nobody asks for is dropped.
    drops_unregistered_state: bool
    #: Whether others may ask for states that functions make queryable.
    queryable_state: bool
    snapshot_form: SnapshotForm
    #: How often sources send latency markers, 0 for never; what histograms are kept for, of how many of the newest ones.
    latency_interval_seconds: float
    latency_granularity: str
    latency_history: int
    scope_formats: ScopeFormats

    @classmethod
    def of(cls, plan: JobPlan) -> TaskSettings:
        """What the options of a plan say."""
        configuration = Configuration.from_dict(dict(plan.options))
        get = configuration.get
        return cls(
            configuration,
            chunk_records=get(options.CHUNK_RECORDS),
            record_max_size=get(options.RECORD_MAX_SIZE),
            source_batch=get(options.SOURCE_BATCH),
            waiting_input_limit=get(options.WAITING_INPUT_LIMIT),
            watermark_interval_ms=get(options.AUTO_WATERMARK_INTERVAL).to_millis(),
            stall_warning_seconds=get(options.WATERMARK_STALL_WARNING).to_millis() / 1000,
            object_reuse=get(options.OBJECT_REUSE),
            exactly_once=get(options.CHECKPOINTING_MODE) == "EXACTLY_ONCE",
            drops_unregistered_state=get(options.SAVEPOINT_IGNORE_UNCLAIMED),
            queryable_state=get(options.QUERYABLE_STATE),
            snapshot_form=SnapshotForm(
                compress=get(options.CHECKPOINTING_SNAPSHOT_COMPRESSION),
                inline_limit=get(options.CHECKPOINTING_MEMORY_LIMIT),
            ),
            latency_interval_seconds=get(options.LATENCY_INTERVAL).to_millis() / 1000,
            latency_granularity=get(options.LATENCY_GRANULARITY),
            latency_history=get(options.LATENCY_HISTORY),
            scope_formats=ScopeFormats.of(configuration),
        )
