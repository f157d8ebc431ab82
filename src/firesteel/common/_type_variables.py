"""``TypeVar`` with a default, for every Python that is supported; Python itself has them from 3.13 on.

With ``Any`` as the default of every parameter, a class without parameters - ``class Parse(MapFunction):`` as in PyFlink,
``def totals(orders: DataStream)`` - means the same as before there were any, also for ``mypy --strict``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["TypeVar"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar
elif sys.version_info >= (3, 13):
    from typing import TypeVar
else:
    import typing

    def TypeVar(name: str, *, default: Any = None, **settings: Any) -> typing.TypeVar:  # noqa: N802
        """One without the default, which only type checkers read."""
        variable = typing.TypeVar(name, **settings)
        variable.__module__ = sys._getframe(1).f_globals[
            "__name__"
        ]  # where it can be found when it is pickled
        return variable
