"""The programs of docs/object_stores.md run, one after the other, and print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from firesteel.testing import use_simulator
from firesteel_support.servers.s3 import ObjectStore

PAGE = Path(__file__).parents[3] / "docs" / "object_stores.md"
PROGRAM = re.compile(
    r"^```py s3\n(?P<text>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def test_the_programs_of_the_page_run_and_print_what_it_shows(s3: ObjectStore) -> None:
    s3.make_bucket("readings")
    s3.put("s3://readings/2024/morning.txt", b"18.5\n19.0\n")
    s3.put("s3://readings/2024/noon.txt", b"21.5\n")
    programs = list(PROGRAM.finditer(PAGE.read_text(encoding="utf-8")))
    assert len(programs) == 4
    names: dict[str, Any] = {"__name__": "__main__"}
    for program in programs:
        text = program["text"].replace("http://127.0.0.1:9000", s3.endpoint)
        printed = io.StringIO()
        with use_simulator(), contextlib.redirect_stdout(printed):
            exec(compile(text, PAGE.name, "exec"), names)
        assert printed.getvalue() == (program["output"] or "")
    (key,) = s3.keys("s3://readings/warm/part-")
    assert s3.get(f"s3://readings/{key}") == b"21.5\n22.0\n"
