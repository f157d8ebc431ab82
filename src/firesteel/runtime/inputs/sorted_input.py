"""The input of a keyed operator in BATCH: all records of one key after each other, in the order of their time.

As in Flink, where programs over historic data rely on it. Nothing is processed before all input is there; what arrives
is sorted by key and time, with two inputs both of them together, and what does not fit into memory goes to a temporary
file. Records without a time, and those of the same time, stay in the order in which their sender sent them.

Keys come in the order of their `stable_hash`, which means nothing to anybody. Different keys may have the same hash: then
the records of the others are put aside until the first one's have all been read.

The operator learns where keys end (`Operator.end_keys`). One that cares - because timers fire there - is given one key
at a time, others as many as make a batch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from firesteel.common.time import MIN_TIMESTAMP
from firesteel.plan.key_groups import stable_hash
from firesteel.runtime.inputs.payload_queue import PayloadQueue, PayloadSpace
from firesteel.runtime.inputs.record_sorter import RecordSorter
from firesteel.runtime.inputs.temporary_files import TemporaryFiles
from firesteel.runtime.operator import Timestamps
from firesteel.runtime.wire_format import pickle_values

__all__ = ["Run", "SortedInput"]

#: Hash of the key, time, input and channel, place in the channel; time again or None, key, record.
Entry = tuple[int, int, int, int, int | None, Any, Any]

_RUN = 1024
_CHANNEL_BITS = 32
_NO_KEY: Any = object()
_SAMPLES = 8  # records of a batch whose size is looked at
_OVERHEAD = 200  # bytes of an entry beside its record, about


class Run(NamedTuple):
    """Records of one input that come next; ``ends_keys``: those of their keys that are not of a later run are over."""

    input: int
    values: list[Any]
    timestamps: Timestamps
    ends_keys: bool


class _Hashes(dict[Any, int]):
    """Key -> hash; forgets its keys when they are many."""

    def __missing__(self, key: Any) -> int:
        if len(self) >= 100_000:
            self.clear()
        key_hash = self[key] = stable_hash(key)
        return key_hash


class SortedInput:
    """All input of one subtask, first taken in and then given out; a pure machine.

    ``keys_of`` computes the keys of a batch of an input. ``one_key_at_a_time``: no run goes beyond the end of a key.
    """

    def __init__(
        self,
        keys_of: Callable[[int, list[Any]], Sequence[Any]],
        one_key_at_a_time: bool,
        in_memory: int | None = None,
        files: TemporaryFiles | None = None,
    ) -> None:
        self._keys_of = keys_of
        self._one_key = one_key_at_a_time
        self._files = files or TemporaryFiles()
        self._sorter = RecordSorter(in_memory, self._files)
        self._hashes = _Hashes()
        self._runs: Iterator[Run] | None = None

    def receiver(self, index: int, channel: int) -> Callable[[list[Any], Timestamps], int]:
        """What takes in the batches of a channel of an input; it leaves no record unread."""
        place = 0
        source = index << _CHANNEL_BITS | channel

        def receive(values: list[Any], timestamps: Timestamps) -> int:
            nonlocal place
            hashes = self._hashes
            keys = self._keys_of(index, values)
            times = [None] * len(values) if timestamps is None else timestamps
            entries: list[Entry] = [
                (hashes[key], MIN_TIMESTAMP if time is None else time, source, at, time, key, value)
                for at, key, time, value in zip(count(place), keys, times, values, strict=False)
            ]
            place += len(values)
            self._sorter.add(entries, _size_of(values))
            return 0

        return receive

    @property
    def is_open(self) -> bool:
        """Whether all input is there, so that it can be read."""
        return self._runs is not None

    def seal(self) -> None:
        """All input is there."""
        self._runs = self._in_runs()

    def take(self) -> Run | None:
        """What comes next; None when everything has been read."""
        assert self._runs is not None, "not all input is there"
        return next(self._runs, None)

    def close(self) -> None:
        """Forget everything."""
        self._runs = None
        self._sorter.close()

    def _in_runs(self) -> Iterator[Run]:
        one_key = self._one_key
        values: list[Any] = []
        stamps: list[int | None] = []
        input_now = hash_now = 0
        key_now: Any = _NO_KEY
        for key_hash, _, source, _, stamp, key, value in _apart(self._sorter.in_order(), self._files):
            same_key = key_hash == hash_now and key == key_now
            index = source >> _CHANNEL_BITS
            if values and (len(values) >= _RUN or index != input_now or (one_key and not same_key)):
                yield Run(input_now, values, _or_none(stamps), not same_key)
                values, stamps = [], []
            input_now, hash_now, key_now = index, key_hash, key
            values.append(value)
            stamps.append(stamp)
        if values:
            yield Run(input_now, values, _or_none(stamps), True)


def _apart(entries: Iterator[Entry], files: TemporaryFiles) -> Iterator[Entry]:
    """Sorted entries with all of one key after each other: of several with the same hash one after the other."""
    hash_now, key_now = 0, _NO_KEY
    aside: PayloadQueue | None = None
    for entry in entries:
        if entry[0] != hash_now or key_now is _NO_KEY:
            if aside is not None:
                yield from _apart(_taken_from(aside), files)
                aside = None
            hash_now, key_now = entry[0], entry[5]
        elif entry[5] != key_now:
            if aside is None:
                aside = PayloadQueue(PayloadSpace(files=files))
            aside.add(pickle_values(entry))
            continue
        yield entry
    if aside is not None:
        yield from _apart(_taken_from(aside), files)


def _taken_from(queue: PayloadQueue) -> Iterator[Entry]:
    while len(queue):
        yield pickle.loads(queue.take())


def _or_none(stamps: list[int | None]) -> Timestamps:
    return stamps if any(stamp is not None for stamp in stamps) else None


def _size_of(values: list[Any]) -> int:
    """How many bytes a batch has in memory, about."""
    samples = values[:: max(1, len(values) // _SAMPLES)]
    return len(pickle_values(samples)) * len(values) // len(samples) + _OVERHEAD * len(values)
