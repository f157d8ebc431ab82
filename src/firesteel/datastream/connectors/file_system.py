"""File sources and sinks at PyFlink's import path; not built yet, so every use says so.

Programs that merely import the names (PyFlink's word count does) run; `env.read_text_file` reads lines today.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]


class _NotBuiltYet(type):
    """Any use of such a class, calling it or its static methods, raises."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"{cls.__name__} is not part of this version of Firesteel; read lines with env.read_text_file(path) "
            "and write them with a SinkFunction"
        )


class FileSource(metaclass=_NotBuiltYet):
    """Reads files."""


class FileSourceBuilder(metaclass=_NotBuiltYet):
    """Builds a `FileSource`."""


class FileSink(metaclass=_NotBuiltYet):
    """Writes files exactly once."""


class StreamingFileSink(metaclass=_NotBuiltYet):
    """Writes files; the older form."""


class StreamFormat(metaclass=_NotBuiltYet):
    """How records are read from a stream of bytes."""


class BulkFormat(metaclass=_NotBuiltYet):
    """How batches of records are read from a file."""


class BucketAssigner(metaclass=_NotBuiltYet):
    """Which folder a record is written to."""


class RollingPolicy(metaclass=_NotBuiltYet):
    """When a part file is finished."""


class OutputFileConfig(metaclass=_NotBuiltYet):
    """How part files are named."""


class FileEnumeratorProvider(metaclass=_NotBuiltYet):
    """How files are found."""


class FileSplitAssignerProvider(metaclass=_NotBuiltYet):
    """Which reader gets which piece of a file."""
