"""What the schemas here share: a codec that is made where it is needed, errors passed over, missing libraries."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import DeserializationError, MissingModuleError
from firesteel.common.serialization import SerializationSchema

__all__ = ["EncodesBatches", "Ignored", "LazyCodec", "library"]

_LOG = logging.getLogger(__name__)


def library(module: str, extra: str, user: str) -> Any:
    """A library that only some programs need; says what to install where it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingModuleError(
            module, f"{user} needs it; install it with: pip install 'firesteel[{extra}]'"
        ) from error


class LazyCodec:
    """A schema is pickled as what the user has said; what is compiled from it is made again where it arrives."""

    _compiled: Any = None

    @property
    def _codec(self) -> Any:
        if self._compiled is None:
            self._compiled = self._compile()
        return self._compiled

    def _compile(self) -> Any:
        raise NotImplementedError

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"}

    @override
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__getstate__() == other.__getstate__()

    @override
    def __hash__(self) -> int:
        return hash(type(self))


class EncodesBatches(LazyCodec, SerializationSchema):
    """A schema whose codec has ``encode_all``, for many records at a time."""

    @override
    def serialize(self, value: Any) -> bytes:
        encoded: bytes = self._codec.encode_all([value])[0]
        return encoded

    @override
    def serialize_batch(self, elements: list[Any]) -> list[bytes]:
        encoded: list[bytes] = self._codec.encode_all(elements)
        return encoded


class Ignored:
    """Counts errors that the program wants to pass over (``ignore_parse_errors``), and tells of them.

    The first one is logged, and then every one whose number is ten times that of the last: nothing is lost in silence, and no
    log is flooded.
    """

    def __init__(self) -> None:
        self._total = 0
        self._tell_at = 1
        self._untaken = 0

    def add(self, error: DeserializationError) -> None:
        """Count one; the first, the tenth, the hundredth and so on are logged."""
        self._total += 1
        self._untaken += 1
        if self._total >= self._tell_at:
            self._tell_at *= 10
            _LOG.warning("passed over (ignore_parse_errors), number %s: %s", f"{self._total:,}", error)

    def take(self) -> int:
        """How many there were since the last call."""
        taken, self._untaken = self._untaken, 0
        return taken
