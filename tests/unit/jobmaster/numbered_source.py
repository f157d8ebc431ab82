"""A source whose enumerator hands out numbers, and a plan that reads it; for tests of the job master."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firesteel.contracts.source import (
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from firesteel.plan.exchange import Rebalance
from firesteel.plan.job_plan import EdgePlan, JobPlan, OperatorPlan, StagePlan, VertexPlan
from firesteel.plan.operator_specs import PrintSpec, RuntimeMode, SourceSpec
from firesteel.plan.shipped import Shipped

SOURCE_ID, SINK_ID = "source-id", "sink-id"


class Numbers(SplitEnumerator):
    """Gives one number to each reader that asks; what goes wrong is named in ``fault``."""

    def __init__(self, context: SplitEnumeratorContext, left: list[int], fault: str) -> None:
        self.context = context
        self.left = left
        self.fault = fault
        self.heard: list[Any] = []

    def start(self) -> None:
        self._maybe("start")
        if self.fault == "calls":
            self.context.call_async(lambda: 7, self._found, initial_delay=1.5, interval=3.0)

    def _found(self, result: Any, error: Exception | None) -> None:
        self._maybe("handler")
        self.heard.append((result, error))
        self.left.append(result)

    def handle_split_request(self, subtask: int) -> None:
        self._maybe("request")
        if self.left:
            self.context.assign_split(self.left.pop(0), subtask)
        else:
            self.context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        self.left = [*splits, *self.left]

    def add_reader(self, subtask: int) -> None:
        self.heard.append(("reader", subtask))

    def snapshot_state(self, checkpoint_id: int) -> Any:
        self._maybe("snapshot")
        return list(self.left)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.heard.append(("aborted", checkpoint_id))

    def handle_source_event(self, subtask: int, event: Any) -> None:
        self.context.send_event_to_source_reader(subtask, (event, self.context.now()))

    def close(self) -> None:
        self.heard.append("closed")
        self._maybe("close")

    def _maybe(self, step: str) -> None:
        if self.fault == step:
            raise ValueError(f"boom in {step}")


class NumberSource(Source):
    """Three numbers; ``made`` remembers the enumerators of this process."""

    made: list[Numbers] = []

    def __init__(self, fault: str = "") -> None:
        self._fault = fault

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        raise NotImplementedError("these tests have no readers")

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return self._made(Numbers(context, [1, 2, 3], self._fault))

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return self._made(Numbers(context, list(state), self._fault))

    def _made(self, enumerator: Numbers) -> Numbers:
        NumberSource.made.append(enumerator)
        return enumerator


def enumerated_plan(fault: str = "", mode: RuntimeMode = RuntimeMode.STREAMING) -> JobPlan:
    """Two readers, in tasks 0 and 1 of the first stage, and one sink."""
    spec = SourceSpec(Shipped.of(NumberSource(fault), "test"), bounded=False, enumerated=True)
    vertices = (
        VertexPlan(0, "Numbers", 0, 0, 2, 128, (OperatorPlan(SOURCE_ID, "Numbers", spec),)),
        VertexPlan(1, "Print", 1, 0, 1, 128, (OperatorPlan(SINK_ID, "Print", PrintSpec()),)),
    )
    edge = EdgePlan(0, 0, 0, None, 1, 0, Rebalance())
    return JobPlan("job", mode, (StagePlan(0, 2, (0,)), StagePlan(1, 1, (1,))), vertices, (edge,))
