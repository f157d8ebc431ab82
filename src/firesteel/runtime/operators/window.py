"""Windows of any kind: any assigner, trigger and evictor, merging or not. Hop 8 of a record's journey.

The path of a record: its windows are assigned (and merged); it is added to the contents of each that is not
over; the trigger decides whether the window fires, is purged, or waits. A window goes when time passes its
last timestamp plus the allowed lateness; the trigger is still asked for that very moment first. Timers of
triggers and of this cleanup are the same thing: one per key, window and time.

Common kinds of windows have faster operators that do the same: see `window_factory`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

from firesteel.common.errors import ProgramError, short_repr
from firesteel.common.time import MAX_TIMESTAMP, MIN_TIMESTAMP, to_millis
from firesteel.contracts.triggers import wrong_result
from firesteel.contracts.windows import TriggerResult
from firesteel.plan.operator_specs import RuntimeMode
from firesteel.runtime.operator import OperatorContext, Timestamps
from firesteel.runtime.operators.announced import announced_keys
from firesteel.runtime.operators.detached import detached
from firesteel.runtime.operators.evicting import EvictedContents
from firesteel.runtime.operators.merging_windows import MergingWindowSet
from firesteel.runtime.operators.window_base import WindowingOperator
from firesteel.runtime.operators.window_contents import MISSING
from firesteel.runtime.operators.window_conversion import CONTENTS, MERGING, OpenWindow
from firesteel.runtime.operators.window_output import LateRecords, WindowContext, WindowResults, WindowStates
from firesteel.runtime.operators.window_parts import WindowParts
from firesteel.runtime.operators.window_trigger import TriggerContext

_CONTINUE = TriggerResult.CONTINUE


class WindowOperator(WindowingOperator):
    """The general window operator."""

    def __init__(self, parts: WindowParts, restored: Callable[[], Iterable[OpenWindow]] = tuple) -> None:
        super().__init__(parts)
        self._restored = restored  # windows that a faster operator has written
        self._state = parts.state
        self._is_event_time = parts.assigner.is_event_time()
        self._trigger = parts.trigger
        self._table = parts.state.namespaced_table(CONTENTS)
        self._merging = parts.state.table(MERGING) if parts.is_merging else None
        self._fired_until = MIN_TIMESTAMP  # processing time

    def open(self, context: OperatorContext) -> None:
        """Open the user's functions, make the contexts, take in what was restored."""
        self._open_functions(context)
        parts, state = self._parts, self._state
        self.output = context.output
        self._states = WindowStates(state)
        self._context = TriggerContext(self, context, self._states, state)
        window_context = WindowContext(self, context, self._states, parts.is_merging)
        self._contents = parts.contents
        self._evicting = (
            None if parts.evictor is None else EvictedContents(parts.contents, parts.evictor, self._context)
        )
        self._results = WindowResults(
            context.output, parts.function, parts.contents.is_single, window_context, self._states, state
        )
        self._late = LateRecords(context, parts.late_tag)
        self._fires_all_at_end = context.mode is RuntimeMode.BATCH
        for window in self._restored():
            self._take_in(window)

    # Windows of other operators -----------------------------------------------------------------------

    def _take_in(self, found: OpenWindow) -> None:
        """Go on with a window as if it were one of our own."""
        key, window, kept, has_fired = found
        state = self._state
        if state.tracks:
            state.touch((key,))
            state.touch_pairs(((key, window),))
        state.current_key = key
        self._table[key, window] = kept
        if self._merging is not None:
            self._merging.setdefault(key, {})[window] = window
        self._context.turn_to(window)
        if not has_fired:
            self._set_timer(window.max_timestamp())
        self._set_cleanup_timer(self._parts.cleanup_time(window))

    # Records ------------------------------------------------------------------------------------------

    def process(self, values: list[Any], timestamps: Timestamps) -> None:
        """Put every record into its windows."""
        key_of, state = self._parts.key_of, self._state
        if state.tracks:
            announced_keys(self, values, key_of, state)
        self.cursor = cursor = iter(values)
        stamps = repeat(None) if timestamps is None else timestamps
        for timestamp, value in zip(stamps, cursor, strict=False):
            state.current_key = key_of(value)
            self._element(value, timestamp)
        self._results.flush()
        self._late.flush()

    def _element(self, value: Any, timestamp: int | None) -> None:
        known = MIN_TIMESTAMP if timestamp is None else timestamp
        windows = self._parts.assigner.assign_windows(value, known, self._context)
        if type(windows) is not list:
            self._refuse_single(windows)
        key = self._state.current_key
        skipped = True
        for window in windows:
            place = window
            if self._merging is not None:
                merging = self._windows_of(key)
                window = merging.add(window, self._on_merge)
                place = merging.state_window(window)
            ends = self._parts.cleanup_time(window)
            if self._is_event_time and ends <= self.current_watermark:
                self._retire(key, window)
                continue
            skipped = False
            self._add(key, window, place, value, known, timestamp)
            self._set_cleanup_timer(ends)
        if skipped and self._is_event_time and known + self._parts.allowed_lateness <= self.current_watermark:
            self._late.add(value, timestamp)

    def _refuse_single(self, windows: Any) -> None:
        """What an assigner returned is no list: any other iterable will do as well."""
        if not isinstance(windows, Iterable):
            assigner = type(self._parts.assigner).__name__
            raise ProgramError(
                f"{assigner}.assign_windows() returned {short_repr(windows)}, expected a list of windows; return "
                "[window] for a single one and [] for none"
            )

    def _add(self, key: Any, window: Any, place: Any, value: Any, known: int, timestamp: int | None) -> None:
        table, entry = self._table, (key, place)
        if self._state.tracks:
            self._state.touch_pairs((entry,))
        old = table.get(entry, MISSING)
        if self._evicting is not None:
            table[entry] = self._evicting.add(old, value, timestamp)
        else:
            table[entry] = self._contents.add(old, value)
        context = self._context
        context.turn_to(window)
        result = self._trigger.on_element(value, known, window, context)
        if result is not _CONTINUE:
            self._obey(result, "on_element", key, window, place, is_last=False)

    # Firing and cleaning ------------------------------------------------------------------------------

    def _obey(
        self, result: TriggerResult, method: str, key: Any, window: Any, place: Any, is_last: bool
    ) -> None:
        """Do what the trigger's ``method`` has decided; ``is_last`` when the window goes right after this."""
        if type(result) is not TriggerResult:
            raise wrong_result(self._trigger, method, result)
        entry = (key, place)
        if result.is_fire():
            kept = self._table.get(entry, MISSING)
            if kept is not MISSING:
                self._fire(key, window, entry, kept, is_last or result.is_purge())
        if result.is_purge():
            self._table.pop(entry, None)

    def _fire(self, key: Any, window: Any, entry: Any, kept: Any, is_last: bool) -> None:
        if self._evicting is not None:
            self._results.fire(key, window, self._evicting.before(kept, window))
            if not self._evicting.after(kept, window):
                self._table.pop(entry, None)
            return
        contents = self._contents.result(kept)
        if self._contents.is_single and not is_last:
            contents = detached(contents)
        self._results.fire(key, window, contents)

    def _set_cleanup_timer(self, time: int) -> None:
        if time != MAX_TIMESTAMP:
            self._set_timer(time)

    def _set_timer(self, time: int) -> None:
        if self._is_event_time:
            self._context.register_event_time_timer(time)
        else:
            self._context.register_processing_time_timer(time)

    def _delete_cleanup_timer(self, window: Any) -> None:
        time = self._parts.cleanup_time(window)
        if self._is_event_time:
            self._context.delete_event_time_timer(time)
        else:
            self._context.delete_processing_time_timer(time)

    def _clean(self, key: Any, window: Any, place: Any) -> None:
        """The window goes: contents, what the trigger has, what the window function has."""
        self._table.pop((key, place), None)
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
        return MergingWindowSet(self._parts.assigner, mapping)  # type: ignore[arg-type]

    def _retire(self, key: Any, window: Any) -> None:
        if self._merging is not None:
            mapping = self._merging.get(key)
            if mapping is not None:
                mapping.pop(window, None)
                if not mapping:
                    del self._merging[key]

    def _on_merge(self, result: Any, old: list[Any], place: Any, absorbed: list[Any]) -> None:
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
        if self._state.tracks:
            self._state.touch_pairs([(key, each) for each in (place, *absorbed)])
        merge = (self._evicting or self._contents).merge
        for each in absorbed:
            found = table.pop((key, each), MISSING)
            if found is not MISSING:
                kept = table.get((key, place), MISSING)
                table[key, place] = found if kept is MISSING else merge(kept, found)

    def _refuse_past(self, window: Any) -> None:
        """A merged window must not end before its parts could have."""
        context = self._context
        clock = self.current_watermark if self._is_event_time else context.get_current_processing_time()
        if self._parts.cleanup_time(window) <= clock:
            raise ProgramError(
                f"{self._parts.assigner!r} merged windows into {window!r}, which is over already; a merged window "
                "must not end before the windows that it is made of"
            )

    # Time ---------------------------------------------------------------------------------------------

    def on_watermark(self, timestamp: int) -> None:
        """Let windows fire and go, then pass the watermark on."""
        self.current_watermark = timestamp
        self._run_timers(self._context.event_timers.due(timestamp), True)
        self.output.watermark(timestamp)

    def next_deadline(self) -> float:
        """One millisecond after the next timer: when its own has passed, nothing more can come for it."""
        time = self._context.processing_timers.next_time()
        return math.inf if time == MAX_TIMESTAMP else (time + 1) / 1000

    def on_time(self, now: float) -> None:
        """Let windows fire and go."""
        self._run_timers(self._context.processing_timers.due(to_millis(now) - 1), False)

    def finish(self) -> None:
        """In BATCH every timer fires at the end; in STREAMING processing-time windows die with the job."""
        if self._fires_all_at_end:
            self._run_timers(self._context.processing_timers.due(MAX_TIMESTAMP), False)

    def _run_timers(self, due: Iterator[tuple[int, Any]], is_event_time: bool) -> None:
        for time, (key, window) in due:
            if self._state.tracks:
                self._state.touch((key,))
            self._state.current_key = key
            if not is_event_time:
                self._fired_until = max(time, self._fired_until)
            self._on_timer(time, key, window, is_event_time)
        self._results.flush()

    def _on_timer(self, time: int, key: Any, window: Any, is_event_time: bool) -> None:
        place = window
        if self._merging is not None:
            place = self._merging.get(key, {}).get(window)
            if place is None:
                return  # a timer that the trigger did not take along when the window went
        is_same_clock = is_event_time == self._is_event_time
        ends = self._parts.cleanup_time(window)
        if self._is_gone(ends, time, is_same_clock):
            return
        is_last = is_same_clock and time == ends
        if self._state.tracks:
            self._state.touch_pairs(((key, place),))
        context = self._context
        context.turn_to(window)
        call = self._trigger.on_event_time if is_event_time else self._trigger.on_processing_time
        result = call(time, window, context)
        if result is not _CONTINUE:
            method = "on_event_time" if is_event_time else "on_processing_time"
            self._obey(result, method, key, window, place, is_last)
        if is_last:
            self._clean(key, window, place)

    def _is_gone(self, ends: int, time: int, is_same_clock: bool) -> bool:
        """Whether the window went before this timer came up, so that the trigger must not hear of it."""
        if is_same_clock:
            return ends < time
        return ends <= (self.current_watermark if self._is_event_time else self._fired_until)
