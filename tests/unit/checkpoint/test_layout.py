import doctest

import pytest

from firesteel.checkpoint import layout, storage


@pytest.mark.parametrize("module", [layout, storage])
def test_examples_in_the_documentation(module):
    assert doctest.testmod(module).failed == 0


def test_names_are_read_back():
    assert layout.checkpoint_of_directory(layout.checkpoint_directory(12)) == 12
    assert layout.checkpoint_of_pointer(layout.savepoint_pointer(12)) == 12
    assert layout.epoch_of_file(layout.epoch_file(12)) == 12
    assert layout.checkpoint_of_file(layout.state_file("", 1, 2, 3, 12)) == 12


@pytest.mark.parametrize(
    "name", ["", "chk-", "chk-1x", "xchk-1", "savepoint-abc-1", "epoch", "1-2-3", "1-2-3-4.tmp"]
)
def test_other_names_mean_nothing(name):
    readers = (
        layout.checkpoint_of_directory,
        layout.checkpoint_of_pointer,
        layout.epoch_of_file,
        layout.checkpoint_of_file,
    )
    assert [reader(name) for reader in readers] == [None] * 4
