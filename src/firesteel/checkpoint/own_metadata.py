"""Reads what Firesteel's own sources have saved of themselves, without running what it says.

The driver reads the states of split enumerators when a job resumes from a checkpoint. Those of the user's
sources are the user's pickles. Those of `firesteel.connectors` consist of plain data and a few dataclasses, so nothing
else is let in: a checkpoint that somebody has changed cannot make the driver run code.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import pickle
from typing import Any

from firesteel.checkpoint import state_pickle
from firesteel.common._override import override
from firesteel.common.errors import CorruptStateError

__all__ = ["loads"]

_CONNECTORS = "firesteel.connectors."
_STATE_PICKLE = state_pickle.__name__
_PLAIN = {
    ("builtins", name)
    for name in ("set", "frozenset", "bytearray", "complex", "range", "slice", "tuple", "list", "dict")
} | {("collections", "deque"), ("collections", "OrderedDict")}


def loads(data: bytes) -> Any:
    """The value of some bytes; raises `CorruptStateError` when it needs anything that our own state never does."""
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError) as error:
        raise CorruptStateError(f"this is no state of a source of Firesteel: {error}") from error


class _Unpickler(pickle.Unpickler):
    """Knows plain data and the dataclasses of our connectors."""

    @override
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (_STATE_PICKLE, state_pickle.class_of_state.__name__):
            return _class_of_ours
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        return (
            _checked(super().find_class(module, name))
            if module.startswith(_CONNECTORS)
            else _refuse(module, name)
        )


def _class_of_ours(module: str, qualname: str, fields: tuple[str, ...] | None = None) -> type:
    if not module.startswith(_CONNECTORS):
        _refuse(module, qualname)
    _checked(state_pickle.class_of_state(module, qualname))
    return state_pickle.class_of_state(module, qualname, fields)


def _checked(target: Any) -> Any:
    """What is described by its fields alone: making one does nothing."""
    is_plain = isinstance(target, type) and (
        dataclasses.is_dataclass(target) or issubclass(target, enum.Enum | tuple)
    )
    return (
        target
        if is_plain
        else _refuse(getattr(target, "__module__", "?"), getattr(target, "__qualname__", "?"))
    )


def _refuse(module: str, name: str) -> Any:
    raise CorruptStateError(
        f"the saved state of a source refers to {module}.{name}, which no source of Firesteel saves: the checkpoint was "
        "changed by somebody else"
    )
