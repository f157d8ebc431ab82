"""For the API reference: examples in docstrings are shown as programs. Markdown would take ``>>>`` for quotations.

What is indented after ``::`` is a program in Markdown, too; only the colons are too many.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*\n?(?:(?!\s*$).*\n?)*", re.MULTILINE)


_COLONS = re.compile(r"^(.*?)::$", re.MULTILINE)


def fenced(text: str) -> str:
    """The docstring with a fence around each example, which ends with an empty line."""
    text = _COLONS.sub(lambda found: f"{found[1]}:" if found[1].strip() else "", text)
    return _EXAMPLE.sub(
        lambda found: f"{found['indent']}```pycon\n{found[0].rstrip()}\n{found['indent']}```\n", text
    )


class DoctestFences(Extension):
    """Puts fences around the examples of everything that has a docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
