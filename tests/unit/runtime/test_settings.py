"""What the options of a plan mean to its tasks."""

from __future__ import annotations

from firesteel.plan.job_plan import JobPlan
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.settings import TaskSettings
from firesteel.runtime.subtask_snapshot import SnapshotForm


def settings(**options: str) -> TaskSettings:
    return TaskSettings.of(JobPlan("test", RuntimeMode.STREAMING, (), (), (), options))


def test_without_options_everything_is_as_documented() -> None:
    found = settings()
    assert (found.chunk_records, found.source_batch, found.watermark_interval_ms) == (1024, 1024, 200)
    assert (found.record_max_size, found.waiting_input_limit) == (256 * 2**20, 2**30)
    assert found.exactly_once
    assert not found.object_reuse
    assert not found.drops_unregistered_state
    assert found.snapshot_form == SnapshotForm()


def test_options_are_read_with_their_types() -> None:
    found = settings(
        **{
            "firesteel.chunk.records": "7",
            "pipeline.auto-watermark-interval": "1 s",
            "firesteel.input.waiting-limit": "2 kb",
            "execution.checkpointing.mode": "AT_LEAST_ONCE",
            "pipeline.object-reuse": "true",
            "execution.checkpointing.snapshot-compression": "true",
        }
    )
    assert (found.chunk_records, found.watermark_interval_ms, found.waiting_input_limit) == (7, 1000, 2048)
    assert not found.exactly_once
    assert found.object_reuse
    assert found.snapshot_form == SnapshotForm(compress=True)
