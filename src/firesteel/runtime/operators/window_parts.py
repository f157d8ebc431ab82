"""The parts of a window operation, unpacked from its spec: what every window operator is built of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firesteel.common.time import MAX_TIMESTAMP
from firesteel.contracts.evictors import Evictor
from firesteel.contracts.functions import AggregateFunction
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.contracts.windows import MergingWindowAssigner, Trigger, WindowAssigner
from firesteel.plan.operator_specs import WindowSpec
from firesteel.runtime.operators.window_contents import (
    AggregatedContents,
    Contents,
    KeyOf,
    ListedContents,
    ReducedContents,
)
from firesteel.runtime.user_function import UserFunction
from firesteel.state.hashmap_backend import HashMapBackend


@dataclass(frozen=True, slots=True)
class WindowParts:
    """Everything a window operator needs to know."""

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    evictor: Evictor[Any, Any] | None
    contents: Contents
    aggregator: UserFunction | None
    function: UserFunction | None
    allowed_lateness: int
    late_tag: str | None
    key_of: KeyOf
    state: HashMapBackend

    @classmethod
    def of(cls, spec: WindowSpec, key_of: KeyOf, state: HashMapBackend) -> WindowParts:
        """Unpack a spec for one subtask."""
        aggregator = None if spec.aggregator is None else UserFunction(spec.aggregator)
        assigner = spec.assigner.load()
        return cls(
            assigner=assigner,
            trigger=spec.trigger.load(),
            evictor=None if spec.evictor is None else spec.evictor.load(),
            contents=_contents(aggregator),
            aggregator=aggregator,
            function=None if spec.window_function is None else UserFunction(spec.window_function),
            # Processing time knows no late records.
            allowed_lateness=spec.allowed_lateness if assigner.is_event_time() else 0,
            late_tag=spec.late_tag,
            key_of=key_of,
            state=state,
        )

    @property
    def is_merging(self) -> bool:
        """Whether windows may merge."""
        return isinstance(self.assigner, MergingWindowAssigner)

    def cleanup_time(self, window: Any) -> int:
        """When the window goes: its last timestamp plus the allowed lateness."""
        time: int = window.max_timestamp() + self.allowed_lateness
        return time if time < MAX_TIMESTAMP else MAX_TIMESTAMP

    def open(self, runtime: RuntimeContext) -> None:
        """Open the user's functions, and expect them and triggers to ask for states at any time."""
        self.state.asks_late = True
        for function in (self.aggregator, self.function):
            if function is not None:
                function.open(runtime)

    def close(self) -> None:
        """Close the user's functions, the second one also when the first one fails."""
        try:
            if self.aggregator is not None:
                self.aggregator.close()
        finally:
            if self.function is not None:
                self.function.close()


def _contents(aggregator: UserFunction | None) -> Contents:
    if aggregator is None:
        return ListedContents()
    if isinstance(aggregator.instance, AggregateFunction):
        return AggregatedContents(aggregator.instance)
    return ReducedContents(aggregator.method("reduce"))
