"""``@override``: the method has the meaning, and the docstring, of the one in the base class.

Type checkers see that there is one, and that no method overrides another by accident. Python has the decorator from 3.12 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

__all__ = ["override"]

if TYPE_CHECKING:
    from typing_extensions import override
else:
    Method = TypeVar("Method")

    def override(method: Method) -> Method:
        """Nothing happens at run time."""
        return method
