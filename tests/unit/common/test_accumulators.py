import pickle

import pytest

from firesteel.common import accumulators as acc


@pytest.mark.parametrize(
    ("kind", "first", "second", "merged", "fresh"),
    [
        (acc.IntCounter, [1, 2], [3], 6, 0),
        (acc.LongCounter, [2**40], [1], 2**40 + 1, 0),
        (acc.DoubleCounter, [0.5], [1], 1.5, 0.0),
        (acc.AverageAccumulator, [1, 2], [6], 3.0, 0.0),
        (acc.IntMinimum, [5, 3], [4], 3, 2**31 - 1),
        (acc.IntMaximum, [5, 3], [7], 7, -(2**31)),
        (acc.LongMinimum, [5], [-1], -1, 2**63 - 1),
        (acc.LongMaximum, [5], [-1], 5, -(2**63)),
        (acc.DoubleMinimum, [0.5], [1.0], 0.5, float("inf")),
        (acc.DoubleMaximum, [0.5], [1.0], 1.0, float("-inf")),
        (acc.ListAccumulator, ["a"], ["b"], ["a", "b"], []),
        (acc.Histogram, [2, 1], [2], {1: 1, 2: 2}, {}),
    ],
)
def test_subtasks_merge_into_the_result(kind, first, second, merged, fresh):
    one, other = kind(), kind()
    for value in first:
        one.add(value)
    for value in second:
        other.add(value)
    one.merge(pickle.loads(pickle.dumps(other)))
    assert one.get_local_value() == merged
    one.reset_local()
    assert one.get_local_value() == fresh


def test_average_merges_with_averages_only():
    with pytest.raises(TypeError, match="average"):
        acc.AverageAccumulator().merge(acc.DoubleCounter())
