"""Broadcast process functions: a stream, keyed or not, meets a stream of which every subtask gets all.

Input 0 is the stream, input 1 the broadcast one. Each side has a context of its own: the broadcast side may write
broadcast state and has no key, the other side may only read it and has - when keyed - state and timers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from firesteel.common._override import override
from firesteel.common.errors import UnsupportedOperationError
from firesteel.contracts.state import (
    BroadcastState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    StateDescriptor,
)
from firesteel.contracts.timers import TimerService
from firesteel.plan.keys import KeyOf
from firesteel.plan.value_key import shown
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.emission import Emission
from firesteel.runtime.operators.process import ElementContext, ProcessOperator
from firesteel.runtime.operators.tolerance import Tolerance
from firesteel.runtime.user_function import UserFunction
from firesteel.state.key_context import NoKey
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.operator_state import OperatorStateBackend

ON_BROADCAST_SIDE = NoKey(
    "a broadcast record belongs to no key, so process_broadcast_element() cannot touch keyed state; "
    "ctx.apply_to_keyed_state(descriptor, function) visits the state of every key"
)


class _SideContext(ElementContext):
    """What both sides may ask."""

    def __init__(
        self,
        timers: TimerService,
        keyed: KeyedBackend | None,
        emission: Emission,
        broadcast: OperatorStateBackend,
    ) -> None:
        super().__init__(timers, keyed, emission)
        self._broadcast = broadcast
        self.current_processing_time = timers.current_processing_time
        self.current_watermark = timers.current_watermark


class StreamSideContext(_SideContext):
    """``ctx`` of ``process_element`` and ``on_timer``."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Broadcast state, read only."""
        return self._broadcast.get_read_only_state(state_descriptor)


class BroadcastSideContext(_SideContext):
    """``ctx`` of ``process_broadcast_element``."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Broadcast state, writable."""
        return self._broadcast.get_declared_state(state_descriptor)

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], Any]
    ) -> None:
        """Call ``function(key, state)`` for every key of this subtask that has the state."""
        if self._state is None:
            raise UnsupportedOperationError("this stream has no keys: call key_by() before connect()")
        state = self._state.get_keyed_state(state_descriptor)
        try:
            for key in self._state.keys_of(state_descriptor.get_name()):
                self._state.turn_to_announced(key)  # by `keys_of`
                function(shown(key), state)
        finally:
            self._state.turn_to_no_key(ON_BROADCAST_SIDE)

    @override
    def timer_service(self) -> NoReturn:
        """Timers belong to keys, which this side has not."""
        raise UnsupportedOperationError(
            "process_broadcast_element() has no timers, because they belong to keys: register them in "
            "process_element(); ctx.current_processing_time() and ctx.current_watermark() tell the time"
        )

    @override
    def get_current_key(self) -> NoReturn:
        """Refuse: a broadcast record belongs to no key."""
        ON_BROADCAST_SIDE.refuse()


class BroadcastProcessOperator(ProcessOperator):
    """``process_element`` over the first input, ``process_broadcast_element`` over the second."""

    def __init__(
        self,
        function: UserFunction,
        keys: tuple[KeyOf | None, ...],
        state: KeyedBackend,
        operator_state: OperatorStateBackend,
        descriptors: tuple[MapStateDescriptor, ...],
        tolerance: Tolerance | None = None,
    ) -> None:
        methods = ("process_element", "process_broadcast_element")
        super().__init__(function, methods, keys or (None,), state, tolerance)
        self.operator_state = operator_state
        self._descriptors = descriptors

    @override
    def open(self, context: OperatorContext) -> None:
        """Ask for the broadcast states first: what was restored has to fit at the start, not when it is used."""
        for descriptor in self._descriptors:
            self.operator_state.get_declared_state(descriptor)
        super().open(context)

    @override
    def _make_contexts(self, timers: TimerService, state: KeyedBackend | None) -> list[ElementContext]:
        return [
            StreamSideContext(timers, state, self._emission, self.operator_state),
            BroadcastSideContext(timers, state, self._emission, self.operator_state),
        ]

    @override
    def process_second(self, values: list[Any], timestamps: Timestamps) -> None:
        """A batch of the broadcast input, during which no key is set."""
        self._state.turn_to_no_key(ON_BROADCAST_SIDE)
        super().process_second(values, timestamps)
