"""The state of our own sources is read without running what it says."""

from __future__ import annotations

import datetime
import os
import pickle
from collections import deque
from typing import Any

import cloudpickle
import pytest

from firesteel.checkpoint import own_metadata, state_pickle
from firesteel.common.errors import CorruptStateError
from firesteel.connectors.files.source import FileEnumeratorState
from firesteel.connectors.files.splits import FileSplit

exploded: list[str] = []


class Bomb:
    def __reduce__(self) -> Any:
        return exploded.append, ("reduce",)


def test_state_of_the_file_source_comes_back() -> None:
    state = FileEnumeratorState(
        (FileSplit("/a", 0, 10.0), FileSplit("/b", 3, float("inf"), 4, 1)), {"/a": 1.5}, True
    )
    assert own_metadata.loads(state_pickle.dumps(state)) == state


@pytest.mark.parametrize(
    "value", [None, 7, [range(3)], {"a": {1, 2}}, deque([1]), b"x", (1.5, frozenset({"y"}))], ids=repr
)
def test_plain_data_comes_back(value: Any) -> None:
    assert own_metadata.loads(state_pickle.dumps(value)) == value


class Call:
    """A pickle that calls a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


CODE = cloudpickle.dumps(Bomb())
BAD = {
    "a call of anything": pickle.dumps(Bomb()),
    "a system call": pickle.dumps(Call(os.system, "true")),
    "eval": pickle.dumps(Call(eval, "exploded.append('eval')")),
    "a class of the standard library": pickle.dumps(datetime.date(2020, 1, 1)),
    "a function by value": pickle.dumps(Call(state_pickle.function_of_state, CODE)),
    "a class by value": pickle.dumps(Call(state_pickle.class_of_state, "nowhere", "Made", None, CODE)),
    "a class of another package": pickle.dumps(Call(state_pickle.class_of_state, "subprocess", "Popen")),
    "a function of ours": b"cfiresteel.connectors.files.paths\nfind_files\n(S'/'\ntR.",
    "noise": b"\x80\x05noise",
    "nothing": b"",
}


@pytest.mark.parametrize("what", BAD)
def test_nothing_else_is_let_in(what: str) -> None:
    exploded.clear()
    with pytest.raises((CorruptStateError, TypeError)):
        own_metadata.loads(BAD[what])
    assert exploded == []
