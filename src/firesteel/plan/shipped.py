"""A user's object, pickled once where the program is built, unpickled once in each task that needs it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from firesteel.common._override import override
from firesteel.common.errors import FunctionNotSerializableError, describe_function, short_repr
from firesteel.plan.unpicklable import path_to_unpicklable

_REMEDY = (
    "create what cannot be pickled (connections, locks, open files, sessions) in open() instead of "
    "capturing it, or move it into a module that the tasks can import"
)
_REMEDY_FOR_ATTRIBUTE = "create it in open(), which runs in every task, not where the function is made"
_REMEDY_FOR_VARIABLE = (
    "write a function class and create it in open(), which runs in every task, or move it into a module that the tasks "
    "can import"
)
_REMEDY_FOR_DATA = "send plain data, and create such things in open() of the function that needs them"


@dataclass(frozen=True, slots=True, repr=False)
class Shipped:
    """A pickled user object and a description of it that a person understands.

    Pickling happens when the program is built, so that an object that cannot travel is refused at the
    line that uses it, and later changes to captured variables do not leak into the job.
    """

    blob: bytes
    description: str

    @classmethod
    def of(cls, thing: Any, used_by: str, description: str = "") -> Shipped:
        """Pickle ``thing`` for the operation ``used_by``, or say why it cannot travel."""
        description = description or describe_function(thing)
        try:
            blob = cloudpickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # whatever a user's __reduce__ raises
            raise _not_serializable(thing, used_by, description, error) from error
        return cls(blob, description)

    def described(self, description: str) -> Shipped:
        """The same under another name, for what is built of what the user gave: errors of tasks speak of that."""
        return replace(self, description=description)

    def load(self) -> Any:
        """A fresh copy of the object, for one subtask."""
        try:
            return cloudpickle.loads(self.blob)
        except ModuleNotFoundError as error:
            raise FunctionNotSerializableError(
                f"{self.description} needs the module {error.name!r}, which its task cannot import; ship it "
                "with env.add_python_file(path), or install it where the tasks run"
            ) from error

    @override
    def __repr__(self) -> str:
        return f"Shipped({self.description}, {len(self.blob)} bytes)"


def _not_serializable(
    thing: Any, used_by: str, description: str, error: Exception
) -> FunctionNotSerializableError:
    place = path_to_unpicklable(thing)
    reason = f"{type(error).__name__}: {short_repr(str(error))}"
    if place is None:
        return FunctionNotSerializableError(
            f"{used_by} cannot ship {description} to its tasks: {reason}; {_REMEDY}"
        )
    path, part = place
    remedy = (
        _REMEDY_FOR_ATTRIBUTE if hasattr(getattr(thing, "__self__", thing), "open") else _REMEDY_FOR_VARIABLE
    )
    if type(thing).__module__.startswith("firesteel."):
        path, remedy = path.removeprefix("self."), _REMEDY_FOR_DATA
    return FunctionNotSerializableError(
        f"{used_by} cannot ship {description} to its tasks: {path} ({type(part).__name__}) cannot be pickled "
        f"({reason}); {remedy}"
    )
