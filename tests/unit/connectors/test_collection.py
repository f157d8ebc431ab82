import pytest

from firesteel.common.errors import ProgramError
from firesteel.connectors.collection import CollectionSource


def test_values_come_in_order_in_slices(drive):
    assert drive(CollectionSource(list("abcde"))).batches(limit=2) == [["a", "b"], ["c", "d"], ["e"]]


def test_the_last_slice_says_that_it_is_the_last(drive):
    polled = drive(CollectionSource([1, 2])).poll(2)
    assert polled.values == [1, 2]
    assert polled.ended


def test_timestamps_run_parallel_to_values(drive):
    reader = drive(CollectionSource(["a", "b", "c"], [10, None, 30]))
    assert reader.poll(2).timestamps == [10, None]
    assert reader.poll(2).timestamps == [30]


def test_an_empty_collection_ends_at_once(drive):
    assert drive(CollectionSource([])).poll().ended


def test_a_stopped_source_leaves_out_the_rest(drive):
    driven = drive(CollectionSource([1, 2, 3]))
    driven.poll(1)
    driven.reader.stop()
    assert driven.values() == []


def test_it_is_read_by_one_subtask():
    assert CollectionSource([1]).max_subtasks == 1


def test_timestamps_of_another_length_are_refused():
    with pytest.raises(ProgramError, match="2 values needs as many timestamps, got 1"):
        CollectionSource([1, 2], [0])
