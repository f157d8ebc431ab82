"""When keyed state expires: Flink's time-to-live settings, by processing time."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from enum import Enum

from firesteel.common._override import override
from firesteel.common.errors import ProgramError
from firesteel.common.time import AnyLength, Duration, Time, millis_of

__all__ = ["StateTtlConfig"]


class _UpdateType(Enum):
    """What renews a value's time."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class _StateVisibility(Enum):
    """Whether an expired value that is still there may be read."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class _TtlTimeCharacteristic(Enum):
    """Which clock counts."""

    ProcessingTime = 0


class _CleanupStrategy(ABC):  # noqa: B024 - a marker, as in Flink
    """How expired values are removed."""


class _EmptyCleanupStrategy(_CleanupStrategy):
    """A strategy without settings."""


class _IncrementalCleanupStrategy(_CleanupStrategy):
    """Looks at some entries on every access."""

    def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
        self._cleanup_size = cleanup_size
        self._run_cleanup_for_every_record = run_cleanup_for_every_record

    def get_cleanup_size(self) -> int:
        """How many entries to look at."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Whether to look also when a record touches no state."""
        return self._run_cleanup_for_every_record


class _RocksdbCompactFilterCleanupStrategy(_CleanupStrategy):
    """Removes expired values while state on disk is compacted."""

    def __init__(
        self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
    ) -> None:
        self._query_time_after_num_entries = query_time_after_num_entries
        self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

    def get_query_time_after_num_entries(self) -> int:
        """After how many entries to look at the clock again."""
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Duration:
        """How old a file may grow without compaction."""
        return self._periodic_compaction_time


class _Strategies(Enum):
    """Names of the strategies."""

    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


class _CleanupStrategies:
    """The strategies chosen; all of them are hints, expired values are never lost early."""

    Strategies = _Strategies
    CleanupStrategy = _CleanupStrategy
    EmptyCleanupStrategy = _EmptyCleanupStrategy
    IncrementalCleanupStrategy = _IncrementalCleanupStrategy
    RocksdbCompactFilterCleanupStrategy = _RocksdbCompactFilterCleanupStrategy
    EMPTY_STRATEGY = _EmptyCleanupStrategy()

    def __init__(
        self, strategies: Mapping[_Strategies, _CleanupStrategy], is_cleanup_in_background: bool
    ) -> None:
        self._strategies = dict(strategies)
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Whether expired values go without being asked for."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Whether full snapshots leave expired values out."""
        return _Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> _IncrementalCleanupStrategy | None:
        """The incremental strategy; a default one with background cleanup."""
        strategy = self._strategies.get(_Strategies.INCREMENTAL_CLEANUP)
        if isinstance(strategy, _IncrementalCleanupStrategy):
            return strategy
        return _IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> _RocksdbCompactFilterCleanupStrategy | None:
        """The compaction strategy; a default one with background cleanup."""
        strategy = self._strategies.get(_Strategies.ROCKSDB_COMPACTION_FILTER)
        if isinstance(strategy, _RocksdbCompactFilterCleanupStrategy):
            return strategy
        return _RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None


def _time(length: AnyLength) -> Time:
    return length if isinstance(length, Time) else Time.milliseconds(millis_of(length))


class _Builder:
    """Builds a `StateTtlConfig` step by step."""

    def __init__(self, ttl: AnyLength) -> None:
        self._ttl = _time(ttl)
        self._update_type = _UpdateType.OnCreateAndWrite
        self._state_visibility = _StateVisibility.NeverReturnExpired
        self._ttl_time_characteristic = _TtlTimeCharacteristic.ProcessingTime
        self._is_cleanup_in_background = True
        self._strategies: dict[_Strategies, _CleanupStrategy] = {}

    def set_update_type(self, update_type: _UpdateType) -> _Builder:
        """Say what renews a value's time."""
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> _Builder:
        """Only writing renews; the default."""
        return self.set_update_type(_UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> _Builder:
        """Reading renews, too."""
        return self.set_update_type(_UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: _StateVisibility) -> _Builder:
        """Say whether expired values may be read."""
        self._state_visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> _Builder:
        """Expired values may be read as long as they are there."""
        return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> _Builder:
        """Expired values are never read; the default."""
        return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: _TtlTimeCharacteristic) -> _Builder:
        """Say which clock counts; there is only one."""
        self._ttl_time_characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> _Builder:
        """The machine's clock counts; there is no other choice."""
        return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> _Builder:
        """Leave expired values out of full snapshots."""
        self._strategies[_Strategies.FULL_STATE_SCAN_SNAPSHOT] = _CleanupStrategies.EMPTY_STRATEGY
        return self

    def cleanup_incrementally(
        self, cleanup_size: int, run_cleanup_for_every_record: bool = False
    ) -> _Builder:
        """Look at some entries on every access."""
        self._strategies[_Strategies.INCREMENTAL_CLEANUP] = _IncrementalCleanupStrategy(
            cleanup_size, run_cleanup_for_every_record
        )
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
    ) -> _Builder:
        """Remove expired values while state on disk is compacted."""
        self._strategies[_Strategies.ROCKSDB_COMPACTION_FILTER] = _RocksdbCompactFilterCleanupStrategy(
            query_time_after_num_entries, periodic_compaction_time
        )
        return self

    def disable_cleanup_in_background(self) -> _Builder:
        """Remove expired values only when they are touched."""
        self._is_cleanup_in_background = False
        return self

    def set_ttl(self, ttl: AnyLength) -> _Builder:
        """Say how long values live."""
        self._ttl = _time(ttl)
        return self

    def build(self) -> StateTtlConfig:
        """The configuration; refuses a time that is not above 0 ms, unless values never expire."""
        return StateTtlConfig(
            self._update_type,
            self._state_visibility,
            self._ttl_time_characteristic,
            self._ttl,
            _CleanupStrategies(self._strategies, self._is_cleanup_in_background),
        )


class StateTtlConfig:
    """How long a value lives and what happens afterwards.

    >>> config = StateTtlConfig.new_builder(Time.seconds(1)).update_ttl_on_read_and_write().build()
    >>> config.is_enabled(), config.get_ttl().to_milliseconds(), config.get_update_type().name
    (True, 1000, 'OnReadAndWrite')
    """

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic
    Builder = _Builder
    CleanupStrategies = _CleanupStrategies

    def __init__(
        self,
        update_type: _UpdateType,
        state_visibility: _StateVisibility,
        ttl_time_characteristic: _TtlTimeCharacteristic,
        ttl: Time,
        cleanup_strategies: _CleanupStrategies,
    ) -> None:
        if update_type is not _UpdateType.Disabled and ttl.to_milliseconds() <= 0:
            raise ProgramError(f"a time to live must be longer than 0 ms, got {ttl}")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: AnyLength) -> _Builder:
        """A builder for values that live as long as ``ttl``."""
        return _Builder(ttl)

    def get_update_type(self) -> _UpdateType:
        """What renews a value's time."""
        return self._update_type

    def get_state_visibility(self) -> _StateVisibility:
        """Whether expired values may be read."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """How long values live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> _TtlTimeCharacteristic:
        """Which clock counts."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether values expire at all."""
        return self._update_type is not _UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """How expired values are removed."""
        return self._cleanup_strategies

    @override
    def __repr__(self) -> str:
        return f"StateTtlConfig({self._ttl}, {self._update_type.name}, {self._state_visibility.name})"
