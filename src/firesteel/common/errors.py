"""The exception tree: everything Firesteel raises on purpose, and helpers that describe values and functions.

::

    FiresteelError
    ├── ProgramError                      the program asks for something wrong; fix the program
    │   ├── FunctionNotSerializableError    a function cannot travel to the workers
    │   ├── InvalidKeyError                 a key cannot be hashed the same way everywhere
    │   ├── TypeMismatchError               a value does not fit its declared type
    │   ├── InvalidFieldError               a field does not exist in the records of a stream
    │   ├── WrongArgumentError              an argument is not the kind of object the operation needs
    │   ├── InvalidArgumentError            an argument has a value that cannot be
    │   ├── InvalidOptionError              an option has an unknown key or a bad value
    │   ├── StateNotSerializableError       a state value cannot be written to a checkpoint
    │   ├── UnsupportedOperationError       the operation does not exist on this kind of stream
    │   ├── UnknownOperationError           there is no operation of this name
    │   └── MissingFeatureError             a feature of Flink that this version does not have
    │       └── MissingModuleError            a module of PyFlink that this version does not have
    ├── SetupError                        the machine or the session is not ready; fix the installation
    │   ├── JavaMissingError                no usable Java runtime
    │   ├── SparkSettingsError              the Spark session lacks a required setting
    │   ├── NotEnoughSlotsError             the job needs more slots than Spark has
    │   └── StorageError                    a directory or file for checkpoints cannot be read or written
    │       └── FileMissingError              a file that should be there is not
    ├── StateError                        saved state cannot be used
    │   ├── CorruptStateError               a checkpoint, savepoint or state file is damaged or cut off
    │   ├── IncompatibleStateError          the state does not fit the program that wants to resume from it
    │   └── NoSuchSnapshotError             there is no checkpoint or savepoint at a place
    ├── QueryableStateError               a query of a running job's state has no answer
    │   ├── UnknownKvStateLocationError     the job has no queryable state of this name
    │   ├── UnknownKeyOrNamespaceError      the state holds nothing for the key
    │   └── UnknownLocationError            nobody can answer now: ask again later
    ├── DeserializationError              a message does not fit its format
    ├── FileContentError                  a file has something in it that its format cannot read
    └── JobExecutionError                 a job that had started did not succeed
        ├── UserCodeError                   a user function raised
        ├── TaskLostError                   a worker process or machine went away
        │   └── HeartbeatError                it gives no sign of life
        ├── JobCancelledError               somebody cancelled the job
        ├── JobTakenOverError               another driver runs the job now
        ├── CheckpointError                 a checkpoint or savepoint could not be taken
        ├── RescaleError                    a job keeps its parallelism, although somebody wanted another one
        └── DataLossError                   chunks arrived lost, repeated or out of order
            └── UpstreamLostError             input ended before a task said that it was all

Messages are lower case and say what happened, where, what was expected, what came, and what to do.
All of them survive pickling with their attributes, because they travel from workers to the driver.
"""

from __future__ import annotations

import functools
import os
import types
from typing import Any

from firesteel.common._override import override

__all__ = [
    "CheckpointError",
    "CorruptStateError",
    "DataLossError",
    "DeserializationError",
    "FileContentError",
    "FileMissingError",
    "FiresteelError",
    "FunctionNotSerializableError",
    "HeartbeatError",
    "IncompatibleStateError",
    "InvalidArgumentError",
    "InvalidFieldError",
    "InvalidKeyError",
    "InvalidOptionError",
    "JavaMissingError",
    "JobCancelledError",
    "JobExecutionError",
    "JobTakenOverError",
    "MissingFeatureError",
    "MissingModuleError",
    "NoSuchSnapshotError",
    "NotEnoughSlotsError",
    "ProgramError",
    "QueryableStateError",
    "RescaleError",
    "SetupError",
    "SparkSettingsError",
    "StateError",
    "StateNotSerializableError",
    "StorageError",
    "TaskLostError",
    "TypeMismatchError",
    "UnknownKeyOrNamespaceError",
    "UnknownKvStateLocationError",
    "UnknownLocationError",
    "UnknownOperationError",
    "UnsupportedOperationError",
    "UpstreamLostError",
    "UserCodeError",
    "WrongArgumentError",
    "describe_function",
    "short_repr",
]


def _rebuild(cls: type[FiresteelError], args: tuple[Any, ...], state: dict[str, Any]) -> FiresteelError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class FiresteelError(Exception):
    """Root of every error that Firesteel raises on purpose."""

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own reduction calls the constructor with `args` only and loses keyword arguments.
        return _rebuild, (type(self), self.args, self.__dict__)


class ProgramError(FiresteelError):
    """The program is wrong as written; running it again will not help."""


class FunctionNotSerializableError(ProgramError, TypeError):
    """A user function, or something it captured, cannot be sent to the workers."""


class InvalidKeyError(ProgramError, ValueError):
    """A key selector returned a value that cannot serve as a key."""


class TypeMismatchError(ProgramError, TypeError, ValueError):
    """A value does not fit the type declared for it.

    >>> error = TypeMismatchError("Integer", "x", path=("field 'age' (index 1)",), index=3)
    >>> print(error)
    value does not fit its declared type: field 'age' (index 1): expected Integer, got 'x' (str)
    >>> error.index
    3
    """

    def __init__(
        self,
        expected: str,
        got: object,
        *,
        path: tuple[str, ...] = (),
        index: int | None = None,
        hint: str = "",
    ) -> None:
        self.expected = expected
        self.got = short_repr(got)
        self.got_type = type(got).__name__
        #: Nested place of the value, outermost first, e.g. ``("field 'a' (index 0)", "element 2")``.
        self.path = path
        #: Position of the record in the batch that was converted, for the runtime to name the record.
        self.index = index
        self.hint = hint
        super().__init__(self._text())

    def _text(self) -> str:
        where = "".join(f"{step}: " for step in self.path)
        hint = f"; {self.hint}" if self.hint else ""
        return (
            f"value does not fit its declared type: {where}"
            f"expected {self.expected}, got {self.got} ({self.got_type}){hint}"
        )

    def at(self, step: str | None, index: int | None) -> TypeMismatchError:
        """Return self, one level further out: `step` is put before the path, `index` replaces the index."""
        if step is not None:
            self.path = (step, *self.path)
        self.index = index
        self.args = (self._text(),)
        return self


class InvalidFieldError(ProgramError, ValueError):
    """A field does not exist in the records of a stream."""


class WrongArgumentError(ProgramError, TypeError):
    """An argument is not the kind of object the operation needs."""


class InvalidArgumentError(ProgramError, ValueError):
    """An argument has a value that cannot be."""


class InvalidOptionError(ProgramError, ValueError):
    """An option has an unknown key, a value that cannot be understood, or asks for protection that is not there."""


class StateNotSerializableError(ProgramError, TypeError):
    """A value in state, or something inside it, cannot be written to a checkpoint."""


class UnsupportedOperationError(ProgramError):
    """The operation exists in Flink's model, but not on this object or not in this mode."""


class MissingFeatureError(ProgramError, NotImplementedError):
    """The program asks for a feature of Flink that this version does not have."""


class MissingModuleError(MissingFeatureError, ModuleNotFoundError):
    """A module that is not there, with the ``reason`` in words."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"no module named {name!r}: {reason}")
        self.name = name
        self.reason = reason

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.reason)


class UnknownOperationError(ProgramError, AttributeError):
    """There is no operation of this name; says which one may be meant."""

    def __init__(self, message: str = "", *, name: str | None = None) -> None:
        # With a name and no object Python adds no guess of its own to the one in the message.
        super().__init__(message)
        self.name = name

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), name=self.name), self.args  # Python keeps it outside of __dict__


class SetupError(FiresteelError):
    """The machine or the Spark session is not ready to run jobs."""


class JavaMissingError(SetupError):
    """No Java runtime that Spark can use was found."""


class SparkSettingsError(SetupError):
    """The Spark session that was given lacks a setting that must be there before it starts."""


class NotEnoughSlotsError(SetupError):
    """All subtasks of a streaming job run at once, and Spark has fewer slots than that."""

    def __init__(self, message: str = "", *, needed: int | None = None, available: int | None = None) -> None:
        self.needed = needed
        self.available = available
        if not message:
            message = f"not enough slots: the job needs {needed}, Spark has {available}"
        super().__init__(message)


class StorageError(SetupError):
    """A directory or file that checkpoints need cannot be read or written."""


class FileMissingError(StorageError):
    """A file that should be there is not."""


class StateError(FiresteelError):
    """Saved state cannot be used."""


class CorruptStateError(StateError):
    """A checkpoint, savepoint or state file is damaged, or was not written to its end.

    >>> print(CorruptStateError("checksum does not match", file="chk-3/0-1-0-3", position=1024))
    damaged state: chk-3/0-1-0-3, at byte 1024: checksum does not match
    """

    def __init__(self, reason: str, *, file: str = "", position: int | None = None) -> None:
        self.reason = reason
        self.file = file
        self.position = position
        where = f"{file or 'state kept in memory'}" + ("" if position is None else f", at byte {position}")
        super().__init__(f"damaged state: {where}: {reason}")


class IncompatibleStateError(StateError):
    """Saved state does not fit the program that wants to resume from it."""


class NoSuchSnapshotError(StateError):
    """There is no checkpoint or savepoint at the place that was given."""


class QueryableStateError(FiresteelError):
    """A query of the state of a running job could not be answered."""


class UnknownKvStateLocationError(QueryableStateError, LookupError):
    """No state of the job is queryable under this name, or none yet; Flink's UnknownKvStateLocation."""


class UnknownKeyOrNamespaceError(QueryableStateError, KeyError):
    """The state holds nothing for the key; Flink's UnknownKeyOrNamespaceException."""

    @override
    def __str__(self) -> str:
        return Exception.__str__(self)  # a KeyError shows its message in quotes


class UnknownLocationError(QueryableStateError):
    """Nobody can answer now, and later somebody can: the job starts or restarts, or the task is busy."""


class DeserializationError(FiresteelError, ValueError):
    """A message does not fit its format, or the type that its schema has for it.

    Schemas say what was expected and where in the message; a batch adds the ``index`` of the message in it, and the
    connector what it knows of the message's origin (`found`).

    >>> error = DeserializationError(b'{"n": "x"}', "expected int, got str", format="JSON", path="n")
    >>> print(error.found(topic="orders", partition=3, offset=77))
    message is no valid JSON: at n: expected int, got str; the message is b'{"n": "x"}', of topic 'orders', partition 3, offset 77
    >>> error.where
    {'topic': 'orders', 'partition': 3, 'offset': 77}
    """

    def __init__(
        self,
        message: bytes,
        reason: str,
        *,
        format: str = "record",
        path: str = "",
        position: int | None = None,
        index: int | None = None,
    ) -> None:
        self.message = message
        self.reason = reason
        self.format = format
        #: The field that does not fit, such as ``items[0].price``; empty for the whole message.
        self.path = path
        #: The byte, counted from 0, at which the message cannot be understood.
        self.position = position
        #: Position of the message in the batch that was to be deserialized.
        self.index = index
        #: What the connector knows of the message: topic, partition, offset; file and line.
        self.where: dict[str, Any] = {}
        super().__init__(self._text())

    def _text(self) -> str:
        field = f"at {self.path}: " if self.path else ""
        byte = "" if self.position is None else f" (byte {self.position})"
        origin = ", ".join(f"{name} {value!r}" for name, value in self.where.items())
        return (
            f"message is no valid {self.format}: {field}{self.reason}{byte}; the message is "
            f"{_short_bytes(self.message)}{', of ' if origin else ''}{origin}"
        )

    def at(self, index: int) -> DeserializationError:
        """Return self, as the error of the message with that number in a batch."""
        self.index = index
        return self

    def found(self, **where: Any) -> DeserializationError:
        """Return self, with what is known of the origin of the message: topic, partition, offset and so on."""
        self.where |= where
        self.args = (self._text(),)
        return self


class FileContentError(FiresteelError, ValueError):
    """A file has something in it that its format cannot read.

    ``position`` is a byte of the file, decompressed if need be; ``line`` counts from 1; ``text`` is what could not be read.

    >>> print(FileContentError("expected INT, got 'x'", file="a.csv", line=3, position=27, text="x,1"))
    unreadable content in a.csv, line 3 (byte 27): expected INT, got 'x'; it reads 'x,1'
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str,
        line: int | None = None,
        position: int | None = None,
        text: object = None,
    ) -> None:
        self.reason = reason
        self.file = file
        self.line = line
        self.position = position
        self.text = text
        where = f"{file}, line {line}" if line is not None else file
        byte = f" (byte {position})" if position is not None else ""
        shown = f"; it reads {short_repr(text)}" if text is not None else ""
        super().__init__(f"unreadable content in {where}{byte}: {reason}{shown}")


class JobExecutionError(FiresteelError):
    """A job that had started ended without success."""


class UserCodeError(JobExecutionError):
    """A user function raised; says which one, where, and on which record.

    >>> error = UserCodeError("ValueError: boom", operator="Map", subtask=0, parallelism=4,
    ...                       function="lambda at job.py:12", record="(1, 'a')")
    >>> print(error)
    ValueError: boom
      operator: Map (1/4)
      function: lambda at job.py:12
      record:   (1, 'a')
    """

    def __init__(
        self,
        reason: str,
        *,
        operator: str = "",
        subtask: int | None = None,
        parallelism: int | None = None,
        function: str = "",
        record: str = "",
        traceback_text: str = "",
    ) -> None:
        self.reason = reason
        self.operator = operator
        #: Index of the subtask, from 0; shown from 1, as in Flink's ``(1/4)``.
        self.subtask = subtask
        self.parallelism = parallelism
        self.function = function
        self.record = record
        #: The user's traceback as text: the traceback object itself cannot leave the worker.
        self.traceback_text = traceback_text
        super().__init__("\n".join(self._lines()))

    def _lines(self) -> list[str]:
        lines = [self.reason]
        if self.operator:
            lines.append(f"  operator: {self.operator}{self._position()}")
        if self.function:
            lines.append(f"  function: {self.function}")
        if self.record:
            lines.append(f"  record:   {self.record}")
        if self.traceback_text:
            lines.append(self.traceback_text.rstrip())
        return lines

    def _position(self) -> str:
        if self.subtask is None:
            return ""
        return f" ({self.subtask + 1}/{'?' if self.parallelism is None else self.parallelism})"


class TaskLostError(JobExecutionError):
    """A worker process or machine disappeared while it ran a task.

    ``executor``: the engine's name for the process that is gone, when the engine has noticed it.
    """

    def __init__(self, message: str, executor: str = "") -> None:
        super().__init__(message)
        self.executor = executor


class HeartbeatError(TaskLostError):
    """A task, its machine, or Spark's driver process gave no sign of life for ``heartbeat.timeout``."""


class JobCancelledError(JobExecutionError):
    """The job ended because it was cancelled."""


class JobTakenOverError(JobExecutionError):
    """Another driver has taken the job over; this one must stop."""


class DataLossError(JobExecutionError):
    """The sequence numbers of a channel show lost, repeated or reordered chunks."""


class UpstreamLostError(DataLossError):
    """The input of a task ended before the tasks that send it said so: one of them, or the link to it, is gone."""


class CheckpointError(JobExecutionError):
    """A checkpoint or savepoint could not be taken."""


class RescaleError(JobExecutionError):
    """A job keeps the parallelism that it had, although somebody wanted another one."""


def _short_bytes(message: object, limit: int = 200) -> str:
    """The bytes, shortened to their beginning."""
    if not isinstance(message, bytes | bytearray | memoryview):
        return short_repr(message)
    data = bytes(message)
    return f"{data!r}" if len(data) <= limit else f"{data[:limit]!r}... ({len(data):,} bytes)"


def short_repr(value: object, limit: int = 200) -> str:
    """Return ``repr(value)``, at most `limit` characters long; never raises.

    >>> short_repr("abc"), short_repr("a" * 50, limit=10)
    ("'abc'", "'aaaaaaaa…")
    """
    try:
        if isinstance(value, str | bytes | bytearray) and len(value) > limit:
            value = value[:limit]
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide the error being reported
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def describe_function(function: object) -> str:
    """Name a user function for a message: what it is, its name, file and line.

    >>> describe_function(len)
    'builtin len'
    """
    target = _unwrap(function)
    if isinstance(target, types.BuiltinFunctionType | types.MethodDescriptorType | types.MethodWrapperType):
        return f"builtin {target.__name__}"
    if isinstance(target, types.MethodType):
        return _describe_code("method", target.__qualname__, target.__func__)
    if isinstance(target, types.FunctionType):
        is_lambda = target.__name__ == "<lambda>"
        return _describe_code(
            "lambda" if is_lambda else "function", "" if is_lambda else target.__qualname__, target
        )
    return _describe_class(target if isinstance(target, type) else type(target))


def _unwrap(function: object) -> object:
    for _ in range(100):  # bounded: __wrapped__ may form a loop
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.FunctionType) and hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return function


def _describe_code(kind: str, name: str, function: object) -> str:
    code = getattr(_unwrap(function), "__code__", None)
    title = f"{kind} {name.replace('<locals>.', '')}".rstrip()
    if code is None:
        return title
    return f"{title} at {os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def _describe_class(cls: type) -> str:
    """Find the class by the code of its methods: unlike its module, code keeps its file on a worker."""
    codes = [f.__code__ for f in vars(cls).values() if isinstance(f, types.FunctionType)]
    own = [c for c in codes if c.co_qualname.startswith(f"{cls.__qualname__}.")]
    if not own:
        return f"class {cls.__name__}"
    first = min(own, key=lambda code: code.co_firstlineno)
    line = _class_line(cls.__name__, first.co_filename, first.co_firstlineno)
    return f"class {cls.__name__} at {os.path.basename(first.co_filename)}:{line}"


def _class_line(name: str, filename: str, before: int) -> int:
    import linecache

    lines = linecache.getlines(filename)
    for number in range(min(before, len(lines)), 0, -1):
        words = lines[number - 1].replace("(", " ").replace(":", " ").split()
        if words[:2] == ["class", name]:
            return number
    return before
