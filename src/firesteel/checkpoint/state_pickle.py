"""State values as bytes: pickle, with classes written by name and field names written once.

Plain data goes through pickle at its own speed. What differs is how a *class* is written. Pickle's way for an
instance is "the class, then its fields", so everything that evolution needs can be said where the class is said,
once per block, and instances are written and read by pickle's own machinery:

- A class of the user's main program is known to tasks by value only, because functions travel by value. Here it is
  written by name, and found by name when it is read: among the `program classes <register_program_classes>` that
  travel with the job, or in the main module. So old state meets the class as it is defined now.
- A dataclass or a named tuple is written with the names of its fields. When they differ from those of today's class,
  instances are converted while they are read: removed fields are dropped, added ones get their default.
- A class that has its own idea of pickling (``__reduce__``, ``__getstate__``, ...) keeps it.
- A class that nothing can find by name (made inside a function) is written by value besides, as last resort.

The names `class_of_state` and `function_of_state` are part of the durable format.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import weakref
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from firesteel.checkpoint.field_evolution import evolvable_fields, reading_class
from firesteel.common._override import override
from firesteel.common.errors import (
    CorruptStateError,
    FiresteelError,
    IncompatibleStateError,
    StateNotSerializableError,
    short_repr,
)

__all__ = [
    "class_of_state",
    "collect_program_classes",
    "dumps",
    "function_of_state",
    "load_program_classes",
    "loads",
    "register_program_classes",
]

PROTOCOL = 5
_MAIN = "__main__"
#: Modules of declared types, and of what sinks keep, that were renamed after state with these may have been written.
_RENAMED = {
    f"firesteel.common.{module}": f"firesteel.common._{module}"
    for module in ("serialized_type", "type_basics", "type_composites", "type_times")
} | {"firesteel.runtime.commit_queue": "firesteel.runtime.operators.sink"}
_program_classes: dict[str, type] = {}
_blobs: weakref.WeakKeyDictionary[type, bytes | None] = weakref.WeakKeyDictionary()


def dumps(value: Any) -> bytes:
    """The bytes of a value."""
    buffer = io.BytesIO()
    try:
        _StatePickler(buffer, PROTOCOL).dump(value)
    except FiresteelError:
        raise
    except Exception as error:  # whatever a user's __reduce__ raises
        raise StateNotSerializableError(
            f"state cannot be written: {type(error).__name__}: {short_repr(str(error))}; keep values in state that "
            "pickle can write, and create connections, locks and open files in open() instead"
        ) from error
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """The value of some bytes, with the classes of today's program."""
    try:
        return _StateUnpickler(io.BytesIO(data)).load()
    except FiresteelError:
        raise
    except (pickle.UnpicklingError, EOFError) as error:
        raise CorruptStateError(f"this is no pickled value: {error}") from error
    except Exception as error:  # whatever a user's __setstate__ raises
        raise IncompatibleStateError(
            f"state cannot be read with the classes of this program: {type(error).__name__}: "
            f"{short_repr(str(error))}; a class has changed in a way that its saved objects do not fit"
        ) from error


def register_program_classes(classes: Mapping[str, type]) -> None:
    """Make the classes of the job's program known to this process, in place of those of an earlier job.

    Keys are what `collect_program_classes` makes them: the qualified name for classes of the main program,
    ``module:qualified name`` for others that cannot be imported.
    """
    _program_classes.clear()
    _program_classes.update(classes)


def collect_program_classes(module: ModuleType | None = None) -> bytes:
    """The classes that tasks cannot import, for `load_program_classes`; call it when the program is built.

    These are the classes of ``module`` (the main module unless given), and those that functions of the program took
    with them when they were pickled. A class that cannot be pickled is left out.
    """
    module = sys.modules[_MAIN] if module is None else module
    classes: dict[str, type] = {}
    for cls in (*_classes_shipped(), *_classes_defined_in(module, module.__name__)):
        if _is_picklable(cls):
            classes[_key(cls.__module__, cls.__qualname__)] = cls
    blob: bytes = cloudpickle.dumps(classes, protocol=PROTOCOL)
    return blob


def load_program_classes(blob: bytes) -> None:
    """Register what `collect_program_classes` collected in the driver; nothing for no bytes."""
    classes: dict[str, type] = cloudpickle.loads(blob) if blob else {}
    for key, cls in classes.items():
        cls.__qualname__ = key.rpartition(":")[2]  # of a nested name cloudpickle keeps only the last one
    register_program_classes(classes)


def class_of_state(
    module: str, qualname: str, fields: tuple[str, ...] | None = None, by_value: bytes | None = None
) -> type:
    """The class that a block of state refers to, or a stand-in that converts instances with other fields."""
    cls = _resolve(module, qualname, by_value)
    return cls if fields is None else reading_class(cls, fields)


def function_of_state(by_value: bytes) -> Any:
    """A function that was written by value."""
    return cloudpickle.loads(by_value)


class _StatePickler(pickle.Pickler):
    """Writes classes its own way; everything else is pickle's."""

    @override
    def reducer_override(self, obj: Any) -> Any:
        # Called for every object that is not plain data, so the usual case must be quick.
        if isinstance(obj, type):
            return _class_reference(obj)
        if type(obj) is FunctionType:
            return _function_reference(obj)
        return NotImplemented


class _StateUnpickler(pickle.Unpickler):
    """Explains classes and functions that cannot be found any more."""

    @override
    def find_class(self, module: str, name: str) -> Any:
        if module == _MAIN and name in _program_classes:
            return _program_classes[name]
        try:
            return super().find_class(_RENAMED.get(module, module), name)
        except (ImportError, AttributeError) as error:
            raise _gone(module, name) from error


def _class_reference(cls: type) -> Any:
    module, qualname = cls.__module__, cls.__qualname__
    if module == "builtins":
        return NotImplemented
    fields = evolvable_fields(cls)
    if module != _MAIN and _imported(module, qualname) is cls:
        return NotImplemented if fields is None else (class_of_state, (module, qualname, fields))
    if _find(module, qualname) is not None:
        return class_of_state, (module, qualname, fields)
    blob = _blob(cls)
    return NotImplemented if blob is None else (class_of_state, (module, qualname, fields, blob))


def _function_reference(function: FunctionType) -> Any:
    if function.__module__ != _MAIN and _imported(function.__module__, function.__qualname__) is function:
        return NotImplemented
    return function_of_state, (cloudpickle.dumps(function, protocol=PROTOCOL),)


def _resolve(module: str, qualname: str, by_value: bytes | None) -> type:
    cls = _find(module, qualname)
    if cls is None and by_value is not None:
        cls = cloudpickle.loads(by_value)
    if cls is None:
        raise _gone(module, qualname)
    return cls


def _find(module: str, qualname: str) -> type | None:
    """The class of this name: the program's, or one that can be imported."""
    module = _RENAMED.get(module, module)
    registered = _program_classes.get(_key(module, qualname))
    if registered is not None:
        return registered
    try:
        importlib.import_module(module)
    except ImportError:
        return None
    imported = _imported(module, qualname)
    return imported if isinstance(imported, type) else None


def _imported(module: str | None, qualname: str) -> Any:
    target: Any = sys.modules.get(module or "")
    for name in qualname.split("."):
        target = getattr(target, name, None)
    return target


def _key(module: str, qualname: str) -> str:
    return qualname if module == _MAIN else f"{module}:{qualname}"


def _gone(module: str, name: str) -> IncompatibleStateError:
    where = "the program" if module == _MAIN else f"module {module!r}"
    return IncompatibleStateError(
        f"state contains objects of {name!r}, which {where} no longer has; keep it defined there under this name "
        "(its fields may change) until no state contains it"
    )


def _blob(cls: type) -> bytes | None:
    """The class itself as bytes, remembered because pickling a class is slow; None when it cannot be pickled."""
    if cls not in _blobs:
        try:
            _blobs[cls] = cloudpickle.dumps(cls, protocol=PROTOCOL)
        except Exception:  # noqa: BLE001 - pickle itself says then what is wrong with the class
            _blobs[cls] = None
    return _blobs[cls]


def _is_picklable(cls: type) -> bool:
    return _blob(cls) is not None


def _classes_defined_in(holder: Any, module: str) -> list[type]:
    """Classes of a module, and those nested in them."""
    classes = []
    for name, value in list(vars(holder).items()):
        is_own = isinstance(value, type) and value.__module__ == module
        if is_own and not (
            isinstance(holder, type) and value.__qualname__ != f"{holder.__qualname__}.{name}"
        ):
            classes += [value, *_classes_defined_in(value, module)]
    return classes


def _classes_shipped() -> list[type]:
    """Classes that cloudpickle has sent by value from this process and that cannot be found by name."""
    tracked = getattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", {})
    return [cls for cls in list(tracked) if _imported(cls.__module__, cls.__qualname__) is not cls]
