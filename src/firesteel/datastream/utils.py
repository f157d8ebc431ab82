"""Small helpers of the API; at PyFlink's path."""

from __future__ import annotations

from abc import ABC, abstractmethod

from firesteel.common.typeinfo import TypeInformation

__all__ = ["ResultTypeQueryable"]


class ResultTypeQueryable(ABC):
    """Something that knows the type of what it produces, such as a source."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation | None:
        """The type, None when it is not known."""
