"""The subtle rules of the model are numbered, and each has at least one test that carries its number."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

#: 1 to 20 are about time, timers, windows and state, 21 to 25 about checkpoints. What 25 says of asynchronous calls has
#: no test yet, because there are none.
RULES = range(1, 26)


def test_every_subtle_rule_has_a_test_named_after_it() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    tested = {int(number) for number in re.findall(r"^def test_l(\d\d)_", source, flags=re.MULTILINE)}
    assert set(RULES) <= tested
