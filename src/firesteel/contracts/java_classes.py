"""PyFlink wraps sources and sinks written in Java: ``SourceFunction("org.example.Source")``. There is no Java here."""

from __future__ import annotations

from typing import Any

from firesteel.common.errors import MissingFeatureError, WrongArgumentError

__all__ = ["refuse_java_class"]


def refuse_java_class(cls: type, base: type, method: str, arguments: tuple[Any, ...]) -> None:
    """Refuse arguments of a class that takes none: for ``base`` itself they name what Java would run."""
    if cls is base and arguments:
        raise MissingFeatureError(
            f"{base.__name__}({arguments[0]!r}): functions written in Java cannot run here; "
            f"subclass {base.__name__} and write {method}() in Python"
        )
    if arguments and cls.__init__ is object.__init__:  # type: ignore[misc]
        raise WrongArgumentError(f"{cls.__name__}() takes no arguments")
