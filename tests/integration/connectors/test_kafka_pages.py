"""The programs of docs/kafka.md run, against a real broker, and print what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from firesteel.testing import use_simulator
from firesteel_support.servers.kafka import KafkaBroker

PAGE = Path(__file__).parents[3] / "docs" / "kafka.md"
FENCE = re.compile(r"^```(?P<kind>py|text) kafka\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_programs_of_the_page_run_and_print_what_is_shown(kafka: KafkaBroker) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    printed, shown = "", 0
    for fence in FENCE.finditer(PAGE.read_text(encoding="utf-8")):
        if fence["kind"] == "text":
            assert printed == fence["text"]
            shown += 1
            continue
        program = fence["text"].replace("localhost:9092", kafka.bootstrap_servers)
        output = io.StringIO()
        with use_simulator(), contextlib.redirect_stdout(output):
            exec(compile(program, PAGE.name, "exec"), names)
        printed = output.getvalue()
    assert shown >= 4
