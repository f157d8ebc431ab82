"""Saved state as data: read checkpoints and savepoints in Python, and write savepoints that jobs can start from.

>>> import tempfile
>>> from firesteel.common import Types
>>> from firesteel.datastream.state import ValueStateDescriptor
>>> with tempfile.TemporaryDirectory() as directory:
...     writer = SavepointWriter.new_savepoint()
...     _ = writer.with_keyed_state("counter", ValueStateDescriptor("count", Types.INT()), {"a": 1, "b": 2})
...     path = writer.write(f"{directory}/first")
...     [(entry.key, entry.value) for entry in SavepointReader(path).read("counter", "count")]
[('a', 1), ('b', 2)]
"""

from __future__ import annotations

from firesteel.plan.state_handles import StateMode
from firesteel.state_processor._descriptions import OperatorInfo, StateEntry, StateInfo, TimerEntry
from firesteel.state_processor._reader import SavepointReader
from firesteel.state_processor._writer import REMOVE, SavepointWriter

__all__ = [
    "REMOVE",
    "OperatorInfo",
    "SavepointReader",
    "SavepointWriter",
    "StateEntry",
    "StateInfo",
    "StateMode",
    "TimerEntry",
]
