"""Writes the tables of options in operations.md from `firesteel.common.options`.

Run ``python docs/options_table.py`` after changing an option; a test says when that is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firesteel.common import options
from firesteel.common.config_options import ConfigOption
from firesteel.common.time import Duration

PAGE = Path(__file__).parent / "operations.md"
BEGIN = "<!-- begin of the options table; python docs/options_table.py writes it -->"
END = "<!-- end of the options table -->"
FLINK_BEGIN = "<!-- begin of the table of Flink's options; python docs/options_table.py writes it -->"
FLINK_END = "<!-- end of the table of Flink's options -->"


def table() -> str:
    """The table as Markdown, options in the order of their definition."""
    rows = [_row(option) for option in options.all_options()]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def _row(option: ConfigOption[Any]) -> str:
    also = "".join(f"; also `{key}`" for key in option.fallback_keys)
    meaning = f"{option.description.rstrip('.')} ({_kind(option)}{also})".replace("|", "\\|")
    return f"| `{option.key}` | {_default(option.default)} | {meaning} |"


def _kind(option: ConfigOption[Any]) -> str:
    return option.type.name


def _default(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Duration):
        return f"`{value.to_millis()} ms`"
    return f"`{value}`"


def flink_table() -> str:
    """What is answered to options of Flink that Firesteel does not have; those that are refused come first."""
    rows = sorted(options.flink_options(), key=lambda row: not row.is_refused)
    lines = [
        f"| {', '.join(f'`{key}`' for key in row.keys)} | {'**refused**' if row.is_refused else 'no effect'} | {row.answer} |"
        for row in rows
    ]
    return "\n".join(["| options of Flink | | |", "|---|---|---|", *lines])


def updated(text: str) -> str:
    """The page with fresh tables."""
    return _with(_with(text, BEGIN, table(), END), FLINK_BEGIN, flink_table(), FLINK_END)


def _with(text: str, begin: str, table: str, end: str) -> str:
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
