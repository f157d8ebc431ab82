"""Windows of any kind: any assigner, trigger and evictor, merging or not. Hop 8 of a record's journey.

The path of a record: its windows are assigned (and merged); it is added to the contents of each that is not
over; the trigger decides whether the window fires, is purged, or waits. A window goes when time passes its
last timestamp plus the allowed lateness; the trigger is still asked for that very moment first. Timers of
triggers and of this cleanup are the same thing: one per key, window and time.

Common kinds of windows have faster operators that do the same: see `factory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import MISSING, private
from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from firesteel.contracts.triggers import wrong_result
from firesteel.contracts.windows import TriggerResult
from firesteel.runtime.operator import OperatorContext
from firesteel.runtime.operators.windows.base import WindowDefinition, WindowingOperator
from firesteel.runtime.operators.windows.careless import keeps_records, touches_elements
from firesteel.runtime.operators.windows.merging import MergingWindowSet
from firesteel.runtime.operators.windows.restore import CONTENTS, MERGING, OpenWindow
from firesteel.runtime.operators.windows.triggers import EvictedContents, TriggerContext

_CONTINUE = TriggerResult.CONTINUE


def _on_copy(on_element: Callable[..., TriggerResult]) -> Callable[..., TriggerResult]:
    """The trigger's method, for one that may keep or change the elements that it is asked about."""
    return lambda element, *more: on_element(private(element), *more)


class WindowOperator(WindowingOperator):
    """Asks assigner, trigger and evictor about every record and timer, and so needs to know none of them."""

    def __init__(
        self, definition: WindowDefinition, restored: Callable[[], Iterable[OpenWindow]] = tuple
    ) -> None:
        super().__init__(definition)
        self._restored = restored  # windows that a faster operator has written
        self._trigger = definition.trigger
        self._table = definition.state.namespaced_table(CONTENTS)
        self._merging = definition.state.table(MERGING) if definition.is_merging else None
        self._fired_until = MIN_TIMESTAMP  # processing time

    @override
    def _open_windows(self, context: OperatorContext) -> None:
        definition = self._definition
        self._context = TriggerContext(self, context, self._states, self._state)
        self._contents = definition.contents
        self._on_element = definition.trigger.on_element
        self._assigner_keeps = context.protects and keeps_records(definition.assigner)
        if context.protects and touches_elements(definition.trigger):
            self._on_element = _on_copy(definition.trigger.on_element)
        self._evicting = (
            None
            if definition.evictor is None
            else EvictedContents(definition.contents, definition.evictor, self._context)
        )
        for window in self._restored():
            self._adopt(window)

    # Windows of other operators -----------------------------------------------------------------------

    def _adopt(self, open_window: OpenWindow) -> None:
        """Continue a restored window of another operator as if it were one of ours."""
        key, window, contents, has_fired = open_window
        state = self._state
        state.turn_to(key)
        state.announce_pairs(((key, window),))
        self._table[key, window] = contents
        if self._merging is not None:
            self._merging.setdefault(key, {})[window] = window
        self._context.turn_to(window)
        if not has_fired:
            self._set_timer(window.max_timestamp())
        self._set_cleanup_timer(self._definition.cleanup_time(window))

    # Records ------------------------------------------------------------------------------------------

    @override
    def _add_batch(self, timestamps: Iterable[Any], values: Iterator[Any], keys: Iterable[Any]) -> None:
        state, add_element = self._state, self._add_element
        # The keys were announced with the batch; a call would be one more for every record.
        for timestamp, value, state.current_key in zip(timestamps, values, keys, strict=False):
            add_element(value, timestamp)

    def _add_element(self, value: Any, timestamp: int | None) -> None:
        known = MIN_TIMESTAMP if timestamp is None else timestamp
        windows = self._definition.assigner.assign_windows(value, known, self._context)
        if type(windows) is not list:
            windows = self._as_list(windows)
        if self._assigner_keeps:
            value = private(value)  # as it is now: what the assigner does later nobody sees
        key = self._state.current_key
        skipped = True
        # Lists share a record, and give copies to whoever looks at them; so do elements with an evictor.
        copies = repeat(value) if self._evicting else self._definition.contents.copies(value, len(windows))
        for window, copy in zip(windows, copies, strict=False):
            state_window = window
            if self._merging is not None:
                merging = self._windows_of(key)
                window = merging.add(window, self._on_merge)
                state_window = merging.state_window(window)
            ends = self._definition.cleanup_time(window)
            if self._is_event_time and ends <= self.current_watermark:
                self._retire(key, window)
                continue
            skipped = False
            self._add(key, window, state_window, copy, known, timestamp)
            self._set_cleanup_timer(ends)
        if (
            skipped
            and self._is_event_time
            and known + self._definition.allowed_lateness <= self.current_watermark
        ):
            self._late.add(value, timestamp)

    def _as_list(self, windows: Any) -> list[Any]:
        """A list of what an assigner returned, which may be any iterable."""
        if not isinstance(windows, Iterable):
            assigner = type(self._definition.assigner).__name__
            raise ProgramError(
                f"{assigner}.assign_windows() returned {short_repr(windows)}, expected a list of windows; return "
                "[window] for a single one and [] for none"
            )
        return list(windows)

    def _add(
        self, key: Any, window: Any, state_window: Any, value: Any, known: int, timestamp: int | None
    ) -> None:
        table, entry = self._table, (key, state_window)
        self._state.announce_pairs((entry,))
        old = table.get(entry, MISSING)
        if self._evicting is not None:
            table[entry] = self._evicting.add(old, value, timestamp)
        else:
            table[entry] = self._contents.add(old, value)
        context = self._context
        context.turn_to(window)
        result = self._on_element(value, known, window, context)
        if result is not _CONTINUE:
            self._apply(result, "on_element", key, window, state_window, is_last=False)

    # Firing and cleaning ------------------------------------------------------------------------------

    def _apply(
        self, result: TriggerResult, method: str, key: Any, window: Any, state_window: Any, is_last: bool
    ) -> None:
        """Do what the trigger's ``method`` has decided; ``is_last`` when the window goes right after this."""
        if type(result) is not TriggerResult:
            raise wrong_result(self._trigger, method, result)
        entry = (key, state_window)
        if result.is_fire():
            contents = self._table.get(entry, MISSING)
            if contents is not MISSING:
                self._fire(key, window, entry, contents, is_last or result.is_purge())
        if result.is_purge():
            self._table.pop(entry, None)

    def _fire(self, key: Any, window: Any, entry: Any, contents: Any, is_last: bool) -> None:
        if self._evicting is not None:
            firing = self._evicting.firing(contents, window)
            self._results.fire(key, window, firing.contents(), is_kept=False)
            left = firing.left()
            if left:
                self._table[entry] = left
            else:
                self._table.pop(entry, None)
            return
        # Other windows may have the same elements in their lists.
        is_kept = not is_last or not self._contents.is_single
        self._results.fire(key, window, self._contents.result(contents), is_kept)

    def _set_cleanup_timer(self, time: int) -> None:
        if time != MAX_TIMESTAMP:
            self._set_timer(time)

    def _set_timer(self, time: int) -> None:
        if self._is_event_time:
            self._context.register_event_time_timer(time)
        else:
            self._context.register_processing_time_timer(time)

    def _delete_cleanup_timer(self, window: Any) -> None:
        time = self._definition.cleanup_time(window)
        if self._is_event_time:
            self._context.delete_event_time_timer(time)
        else:
            self._context.delete_processing_time_timer(time)

    def _clean(self, key: Any, window: Any, state_window: Any) -> None:
        """The window goes: contents, what the trigger has, what the window function has."""
        self._table.pop((key, state_window), None)
        self._context.turn_to(window)
        self._trigger.clear(window, self._context)
        self._results.clear(key, window)
        self._retire(key, window)

    # Merging ------------------------------------------------------------------------------------------

    def _windows_of(self, key: Any) -> MergingWindowSet:
        assert self._merging is not None
        mapping = self._merging.get(key)
        if mapping is None:
            mapping = self._merging[key] = {}
        return MergingWindowSet(self._definition.assigner, mapping)  # type: ignore[arg-type]

    def _retire(self, key: Any, window: Any) -> None:
        if self._merging is not None:
            mapping = self._merging.get(key)
            if mapping is not None:
                mapping.pop(window, None)
                if not mapping:
                    del self._merging[key]

    def _on_merge(self, result: Any, old: list[Any], state_window: Any, absorbed: list[Any]) -> None:
        """Windows became one: merge what the trigger has, forget the old windows, merge the contents."""
        self._refuse_past(result)
        context, key = self._context, self._state.current_key
        context.merging(result, old)
        self._trigger.on_merge(result, context)
        for window in old:
            context.turn_to(window)
            self._trigger.clear(window, context)
            self._delete_cleanup_timer(window)
        table = self._table
        self._state.announce_pairs(
            [(key, old_state_window) for old_state_window in (state_window, *absorbed)]
        )
        merge = (self._evicting or self._contents).merge
        for old_state_window in absorbed:
            new = table.pop((key, old_state_window), MISSING)
            if new is not MISSING:
                old_contents = table.get((key, state_window), MISSING)
                table[key, state_window] = new if old_contents is MISSING else merge(old_contents, new)

    def _refuse_past(self, window: Any) -> None:
        """A merged window must not end before the windows that it is made of could have."""
        context = self._context
        clock = self.current_watermark if self._is_event_time else context.get_current_processing_time()
        if self._definition.cleanup_time(window) <= clock:
            raise ProgramError(
                f"{self._definition.assigner!r} merged windows into {window!r}, which is over already; a merged window "
                "must not end before the windows that it is made of"
            )

    # Time ---------------------------------------------------------------------------------------------

    @override
    def awaits_event_time(self) -> bool:
        """Whether windows end by event time, or a trigger waits for it."""
        return self._is_event_time or self._context.event_timers.next_time() < MAX_TIMESTAMP

    @override
    def _next_time(self) -> int | None:
        return self._context.processing_timers.next_time()

    @override
    def _advance(self, clock: int, is_event_time: bool) -> None:
        context, state = self._context, self._state
        timers = context.event_timers if is_event_time else context.processing_timers
        for time, (key, window) in timers.due(clock):
            state.turn_to(key)
            if not is_event_time:
                self._fired_until = max(time, self._fired_until)
            self._on_timer(time, key, window, is_event_time)
        self._results.flush()

    def _on_timer(self, time: int, key: Any, window: Any, is_event_time: bool) -> None:
        state_window = window
        if self._merging is not None:
            state_window = self._merging.get(key, {}).get(window)
            if state_window is None:
                return  # a timer that the trigger did not delete when the window went
        is_same_clock = is_event_time == self._is_event_time
        ends = self._definition.cleanup_time(window)
        if self._is_gone(ends, time, is_same_clock):
            return
        is_last = is_same_clock and time == ends
        self._state.announce_pairs(((key, state_window),))
        context = self._context
        context.turn_to(window)
        call = self._trigger.on_event_time if is_event_time else self._trigger.on_processing_time
        result = call(time, window, context)
        if result is not _CONTINUE:
            method = "on_event_time" if is_event_time else "on_processing_time"
            self._apply(result, method, key, window, state_window, is_last)
        if is_last:
            self._clean(key, window, state_window)

    def _is_gone(self, ends: int, time: int, is_same_clock: bool) -> bool:
        """Whether the window went before this timer came up, so that the trigger must not hear of it."""
        if is_same_clock:
            return ends < time
        return ends <= (self.current_watermark if self._is_event_time else self._fired_until)
