import pytest

from firesteel.common.time import MAX_TIMESTAMP
from firesteel.contracts.windows import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    TriggerResult,
)


class Merges(MergingWindowAssigner.MergeCallback):
    def __init__(self):
        self.found = {}

    def merge(self, to_be_merged, merge_result):
        self.found[merge_result] = set(to_be_merged)


def merges(*windows):
    callback = Merges()
    TimeWindow.merge_windows(windows, callback)
    return callback.found


def test_overlapping_and_touching_windows_merge():
    a, b, c = TimeWindow(0, 4), TimeWindow(3, 6), TimeWindow(6, 8)
    assert merges(c, a, b) == {TimeWindow(0, 8): {a, b, c}}


def test_windows_apart_do_not_merge():
    a, b, c = TimeWindow(0, 4), TimeWindow(5, 6), TimeWindow(6, 8)
    assert merges(a, b, c) == {TimeWindow(5, 8): {b, c}}
    assert merges(a) == {}


@pytest.mark.parametrize(
    ("timestamp", "offset", "start"), [(7, 0, 5), (5, 0, 5), (-1, 0, -5), (7, 3, 3), (2, 3, -2)]
)
def test_window_start(timestamp, offset, start):
    assert TimeWindow.get_window_start_with_offset(timestamp, offset, 5) == start


def test_windows_are_values():
    assert TimeWindow(0, 5) == TimeWindow(0, 5)
    assert TimeWindow(0, 5) < TimeWindow(0, 6) < TimeWindow(1, 2)
    assert len({TimeWindow(0, 5), TimeWindow(0, 5), CountWindow(1), CountWindow(1)}) == 2
    assert GlobalWindow.get() is GlobalWindow.get()
    assert GlobalWindow.get() == GlobalWindow()
    assert CountWindow(1).max_timestamp() == GlobalWindow().max_timestamp() == MAX_TIMESTAMP


def test_trigger_results():
    assert [(r.is_fire(), r.is_purge()) for r in TriggerResult] == [
        (False, False),
        (True, True),
        (True, False),
        (False, True),
    ]
