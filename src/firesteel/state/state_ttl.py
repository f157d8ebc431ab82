"""Keyed state that expires: the same five kinds, with the time of the last access beside every value.

What is stored is the value and that time, in milliseconds of the task's clock: one pair per key for value,
reducing and aggregating state, one per element for lists, one per entry for maps. A value lives while
``now < time + ttl``. Every write renews the time; with ``OnReadAndWrite`` every read does, too.

An expired value goes when it is touched, or when the `Sweep` comes across it. With ``NeverReturnExpired`` nobody
sees it before; with ``ReturnExpiredIfNotCleanedUp`` the read that finds it returns it, once, and additions build
on it. Renewing by a read never brings an expired value back.

State without a time to live knows nothing of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from firesteel.common._override import override
from firesteel.common._values import ATOMIC, MISSING, private
from firesteel.common.time import to_millis
from firesteel.contracts.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from firesteel.contracts.state_ttl import StateTtlConfig
from firesteel.state.key_context import KeyContext
from firesteel.state.keyed_state import HeapState, private_values
from firesteel.state.ttl_sweep import GONE, Sweep

__all__ = ["TTL_KINDS", "Timed", "TtlListState", "TtlMapState", "TtlState"]

Clock = Callable[[], float]
Timed = tuple[Any, int]


class TtlState(HeapState):
    """What all of them share: the clock, the rules, and the sweep."""

    def __init__(
        self, keys: KeyContext, table: dict[Any, Any], descriptor: StateDescriptor, clock: Clock
    ) -> None:
        super().__init__(keys, table, descriptor)
        config = descriptor.get_ttl_config()
        assert config is not None
        visibility, update_type = config.get_state_visibility(), config.get_update_type()
        self._ttl = config.get_ttl().to_milliseconds()
        self._clock = clock
        self._renews = update_type is StateTtlConfig.UpdateType.OnReadAndWrite
        self._shows_expired = visibility is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        strategies = config.get_cleanup_strategies()
        strategy = strategies.get_incremental_cleanup_strategy()
        self.cleans_full_snapshots = strategies.in_full_snapshot()
        self.sweep: Sweep | None = None
        self.sweeps_for_every_record = False
        if strategy is not None:
            self.sweep = Sweep(table, self._ttl, strategy.get_cleanup_size(), self._survivors)
            self.sweeps_for_every_record = strategy.run_cleanup_for_every_record()

    def sweep_after(self, records: int) -> None:
        """``records`` records have passed: look at as many entries as the configuration says for each."""
        assert self.sweep is not None
        self.sweep.run(to_millis(self._clock()), records)

    @override
    def peek(self, stored_under: Any) -> Any:
        """What is alive under a key (or key and namespace), None for nothing; renews and removes nothing."""
        stored = self._table.get(stored_under)
        if stored is None:
            return None
        alive, _ = self._survivors(stored, self._horizon())
        return None if alive is GONE else self._bare(alive)

    def _horizon(self) -> int:
        """The time such that values last used then, or before, have expired."""
        return to_millis(self._clock()) - self._ttl

    def _bare(self, stored: Any) -> Any:
        """A stored value without its times."""
        raise NotImplementedError

    def expiry_filter(self) -> Callable[[Any], Any]:
        """Tells what of a stored value is alive at this moment, `GONE` for nothing."""
        horizon = self._horizon()
        return lambda stored: self._survivors(stored, horizon)[0]

    def _now(self) -> int:
        """The time of an access, which also moves the sweep on."""
        now = int(self._clock() * 1000 + 0.001)  # to_millis(), a call less
        if self.sweep is not None and now >= self.sweep.quiet_until:
            self.sweep.run(now)
        return now

    def _survivors(self, stored: Any, horizon: int) -> tuple[Any, int]:
        """What is left of a stored value when times up to ``horizon`` have expired, and its oldest time."""
        raise NotImplementedError


class _TtlSingle(TtlState):
    """One pair of value and time per key."""

    def _read(self) -> Any:
        """The value as a read sees it, `MISSING` for none; renews it or removes it."""
        now, key = self._now(), self._keys.current_key
        stored = self._table.get(key)
        if stored is None:
            return MISSING
        value, time = stored
        if time + self._ttl <= now:
            del self._table[key]
            return value if self._shows_expired else MISSING
        if self._renews:
            self._table[key] = (value, now)
        return value

    def _add(self, combine: Callable[[Any], Any]) -> None:
        """Store what ``combine`` makes of the value, or of `MISSING`."""
        now, key = self._now(), self._keys.current_key
        self._table[key] = (combine(self._usable(self._table.get(key), now)), now)

    def _usable(self, stored: Timed | None, now: int) -> Any:
        if stored is None or (stored[1] + self._ttl <= now and not self._shows_expired):
            return MISSING
        return stored[0]

    @override
    def merged(self, old: Timed, new: Timed) -> Timed:
        """Both in one, leaving out what must not be seen any more."""
        now = self._now()
        first, second = self._usable(old, now), self._usable(new, now)
        if first is MISSING or second is MISSING:
            return new if first is MISSING else old
        return self._combined(first, second), now

    def _combined(self, first: Any, second: Any) -> Any:
        return super().merged(first, second)

    @override
    def _bare(self, stored: Timed) -> Any:
        return stored[0]

    @override
    def _survivors(self, stored: Timed, horizon: int) -> tuple[Any, int]:
        return (stored if stored[1] > horizon else GONE), stored[1]


class TtlValueState(_TtlSingle, ValueState[Any]):
    """A single value that expires."""

    @override
    def value(self) -> Any:
        """The current key's value, None when it has none."""
        value = self._read()
        return None if value is MISSING else value

    @override
    def update(self, value: Any) -> None:
        """Replace the value; None clears it."""
        if value is None:
            self.clear()
        else:
            now, key = self._now(), self._keys.current_key
            if not (type(value) is tuple or type(value) in ATOMIC):
                old = self._table.get(key)
                value = value if old is not None and old[0] is value else private(value)
            self._table[key] = (value, now)


class TtlReducingState(_TtlSingle, ReducingState[Any]):
    """One value that expires, combined with each addition."""

    def __init__(
        self, keys: KeyContext, table: dict[Any, Any], descriptor: ReducingStateDescriptor, clock: Clock
    ) -> None:
        super().__init__(keys, table, descriptor, clock)
        self._reduce = descriptor.get_reduce_function().reduce

    @override
    def get(self) -> Any:
        """The combined value, None before the first addition."""
        value = self._read()
        return None if value is MISSING else value

    @override
    def add(self, value: Any) -> None:
        """Combine ``value`` into the state."""
        self._add(lambda old: self._reduced(old, value))

    def _reduced(self, old: Any, value: Any) -> Any:
        reduced = value if old is MISSING else self._reduce(old, value)
        return private(value) if reduced is value else reduced

    @override
    def _combined(self, first: Any, second: Any) -> Any:
        return self._reduce(first, second)


class TtlAggregatingState(_TtlSingle, AggregatingState[Any, Any]):
    """An accumulator that expires."""

    def __init__(
        self, keys: KeyContext, table: dict[Any, Any], descriptor: AggregatingStateDescriptor, clock: Clock
    ) -> None:
        super().__init__(keys, table, descriptor, clock)
        self._function = descriptor.get_agg_function()

    @override
    def get(self) -> Any:
        """The result of the accumulator, None before the first addition."""
        accumulator = self._read()
        return None if accumulator is MISSING else self._function.get_result(accumulator)

    @override
    def add(self, value: Any) -> None:
        """Take ``value`` into the accumulator."""
        function = self._function
        self._add(lambda old: function.add(value, self._new_accumulator() if old is MISSING else old))

    def _new_accumulator(self) -> Any:
        return private(self._function.create_accumulator())

    @override
    def _combined(self, first: Any, second: Any) -> Any:
        return self._function.merge(first, second)

    @override
    def _bare(self, stored: Timed) -> Any:
        return self._function.get_result(stored[0])


class TtlListState(TtlState, ListState[Any]):
    """A list whose elements expire one by one."""

    @override
    def get(self) -> Iterable[Any]:
        """The elements; empty when there are none."""
        now, key = self._now(), self._keys.current_key
        stored = self._table.get(key)
        if stored is None:
            return []
        alive, _ = self._survivors(stored, now - self._ttl)
        if alive is GONE:
            del self._table[key]
        elif self._renews:
            self._table[key] = [(value, now) for value, _ in alive]
        else:
            self._table[key] = alive
        if self._shows_expired:
            return [value for value, _ in stored]
        return [] if alive is GONE else [value for value, _ in alive]

    @override
    def add(self, value: Any) -> None:
        now = self._now()  # before the list is looked up: the sweep may replace it
        if not (type(value) is tuple or type(value) in ATOMIC):
            value = private(value)
        self._elements().append((value, now))

    @override
    def add_all(self, values: list[Any]) -> None:
        now = self._now()
        elements = private_values(values)
        if elements:
            self._elements().extend([(value, now) for value in elements])

    @override
    def update(self, values: list[Any]) -> None:
        """Replace all elements; an empty list clears the state."""
        now, key = self._now(), self._keys.current_key
        elements = private_values(values, [value for value, _ in self._table.get(key, ())])
        if elements:
            self._table[key] = [(value, now) for value in elements]
        else:
            self.clear()

    @override
    def merged(self, old: list[Timed], new: list[Timed]) -> list[Timed]:
        """Both lists; each element keeps its time."""
        return old + new

    @override
    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def _elements(self) -> list[Timed]:
        return self._table.setdefault(self._keys.current_key, [])  # type: ignore[no-any-return]

    @override
    def _bare(self, stored: list[Timed]) -> list[Any]:
        return [value for value, _ in stored]

    @override
    def _survivors(self, stored: list[Timed], horizon: int) -> tuple[Any, int]:
        alive = [timed for timed in stored if timed[1] > horizon]
        return (alive, min(time for _, time in alive)) if alive else (GONE, 0)


class TtlMapState(TtlState, MapState[Any, Any]):
    """A dictionary whose entries expire one by one."""

    @override
    def get(self, key: Any) -> Any:
        """The value under ``key``, None when there is none."""
        value = self._read(key)
        return None if value is MISSING else value

    @override
    def contains(self, key: Any) -> bool:
        """Whether there is an entry under ``key``; a read like any other."""
        return self._read(key) is not MISSING

    @override
    def put(self, key: Any, value: Any) -> None:
        now = self._now()
        entries = self._table.setdefault(self._keys.current_key, {})
        old = entries.get(key)
        if not (type(value) is tuple or type(value) in ATOMIC):
            value = value if old is not None and old[0] is value else private(value)
        if old is not None and old[1] + self._ttl <= now:
            # Its position among the others is gone as well, whether or not somebody has swept.
            del entries[key]
        entries[key] = (value, now)

    @override
    def put_all(self, dict_value: dict[Any, Any]) -> None:
        now = self._now()
        if dict_value:
            entries = self._table.setdefault(self._keys.current_key, {})
            old = {key: entries[key] for key in dict_value if key in entries}
            values = private_values(dict_value.values(), [value for value, _ in old.values()])
            for key, (_, time) in old.items():
                if time + self._ttl <= now:
                    del entries[key]
            entries.update({key: (value, now) for key, value in zip(dict_value, values, strict=True)})

    @override
    def remove(self, key: Any) -> None:
        """Remove one entry, if it is there; the last one takes the whole map with it."""
        self._now()
        entries = self._table.get(self._keys.current_key)
        if entries is not None:
            entries.pop(key, None)
            if not entries:
                self.clear()

    @override
    def items(self) -> Iterable[tuple[Any, Any]]:
        """The entries; a copy, so they may be changed while iterating."""
        return self._shown().items()  # type: ignore[no-any-return]

    @override
    def keys(self) -> Iterable[Any]:
        """The keys of the entries."""
        return self._shown().keys()  # type: ignore[no-any-return]

    @override
    def values(self) -> Iterable[Any]:
        """The values of the entries."""
        return self._shown().values()  # type: ignore[no-any-return]

    def _shown(self) -> Any:
        """The entries as somebody sees who goes through all of them, without times; renews or removes them."""
        now, current = self._now(), self._keys.current_key
        stored = self._table.get(current)
        if stored is None:
            return {}
        alive, _ = self._survivors(stored, now - self._ttl)
        if alive is GONE:
            del self._table[current]
        elif self._renews:
            self._table[current] = {key: (value, now) for key, (value, _) in alive.items()}
        else:
            self._table[current] = alive
        shown = stored if self._shows_expired else {} if alive is GONE else alive
        return {key: value for key, (value, _) in shown.items()}

    @override
    def is_empty(self) -> bool:
        """Whether there is no entry to be seen; this renews and removes nothing."""
        now = self._now()
        stored = self._table.get(self._keys.current_key)
        if stored is None:
            return True
        return not (self._shows_expired or any(time + self._ttl > now for _, time in stored.values()))

    def _read(self, key: Any) -> Any:
        now = self._now()
        entries = self._table.get(self._keys.current_key)
        timed = None if entries is None else entries.get(key)
        if entries is None or timed is None:
            return MISSING
        value, time = timed
        if time + self._ttl <= now:
            del entries[key]
            if not entries:
                self.clear()
            return value if self._shows_expired else MISSING
        if self._renews:
            entries[key] = (value, now)
        return value

    @override
    def _bare(self, stored: dict[Any, Timed]) -> dict[Any, Any]:
        return {key: value for key, (value, _) in stored.items()}

    @override
    def _survivors(self, stored: dict[Any, Timed], horizon: int) -> tuple[Any, int]:
        alive = {key: timed for key, timed in stored.items() if timed[1] > horizon}
        return (alive, min(time for _, time in alive.values())) if alive else (GONE, 0)


TTL_KINDS: dict[type[StateDescriptor], Callable[..., TtlState]] = {
    ValueStateDescriptor: TtlValueState,
    ListStateDescriptor: TtlListState,
    MapStateDescriptor: TtlMapState,
    ReducingStateDescriptor: TtlReducingState,
    AggregatingStateDescriptor: TtlAggregatingState,
}
