"""How the text of an option becomes a value: one OptionType per kind of value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from firesteel.common.time import Duration

__all__ = [
    "BOOLEAN",
    "DURATION",
    "FLOAT",
    "INTEGER",
    "MEMORY",
    "PATH_LIST",
    "PORTS",
    "STRING",
    "STRING_LIST",
    "STRING_MAP",
    "OptionType",
    "choice",
    "parse_boolean",
    "parse_duration",
    "parse_list",
    "parse_memory",
    "parse_ports",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OptionType(Generic[T]):
    """A kind of value: its name for messages and documentation, and how to read it.

    `parse` takes text or an already typed Python value, and raises ValueError when it does not fit.
    """

    name: str
    parse: Callable[[Any], T]


def parse_boolean(value: object) -> bool:
    """Read true or false, in any case.

    >>> parse_boolean("True")
    True
    """
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("expected true or false")
    return text == "true"


def _parse_integer(value: object) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("expected a whole number")
    return int(value) if isinstance(value, int | float) else int(str(value).strip())


def _parse_float(value: object) -> float:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return float(value) if isinstance(value, int | float) else float(str(value))


_NANOS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
}
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE)


def parse_duration(value: object) -> Duration:
    """Read a duration: a number and a unit, ISO 8601, or a bare number of milliseconds.

    >>> parse_duration("1 min"), parse_duration("250ms"), parse_duration("PT1.5S"), parse_duration(100)
    (Duration(60 s), Duration(250 ms), Duration(1500 ms), Duration(100 ms))
    """
    if isinstance(value, Duration):
        return value
    text = str(value).strip()
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups()[:4])
        nanos = int((iso.group(5) or "0").ljust(9, "0"))
        return Duration((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos)
    number, factor = _split_unit(text, _NANOS, "a duration such as '10 s', '1 min' or '100 ms'")
    return Duration(number * factor)


_BYTES = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 2**10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 2**20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 2**30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 2**40),
}


def parse_memory(value: object) -> int:
    """Read a memory size as bytes; units count in powers of 1024, as in Flink.

    >>> parse_memory("1 mb"), parse_memory("64k"), parse_memory(4096)
    (1048576, 65536, 4096)
    """
    number, factor = _split_unit(str(value).strip(), _BYTES, "a memory size such as '64 kb' or '1 gb'")
    return number * factor


def _split_unit(text: str, units: dict[str, int], expected: str) -> tuple[int, int]:
    match = re.fullmatch(r"(-?\d+)\s*([^\d\s]*)", text)
    factor = units.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"expected {expected}")
    return int(match.group(1)), factor


def parse_list(value: object) -> list[Any]:
    r"""Read a list: a YAML list in either notation, or texts between semicolons.

    >>> parse_list("a;b"), parse_list("[a, 'b;c', 3]"), parse_list("- a\n- b")
    (['a', 'b'], ['a', 'b;c', 3], ['a', 'b'])
    """
    if isinstance(value, list | tuple):
        return list(value)
    text = "" if value is None else str(value)
    stripped = text.strip()
    if not text:
        return []
    if stripped.startswith("[") and stripped.endswith("]"):
        return [_scalar(item) for item in _split_flow(stripped[1:-1])]
    lines = [line.strip() for line in stripped.splitlines() if line.strip()]
    if lines and all(line == "-" or line.startswith("- ") for line in lines):
        return [_scalar(line[1:].strip()) for line in lines]
    return text.split(";")


# What may stand before an opening quote; a quote itself, because '' inside quotes means a quote.
_BEFORE_QUOTE = ("", ":", "[", "{", ",", "'", '"')


def _split_flow(text: str, separator: str = ",") -> list[str]:
    """Split at separators outside quotes and brackets."""
    items, start, depth, quote = [], 0, 0, ""
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"" and text[start:position].rstrip(" ")[-1:] in _BEFORE_QUOTE:
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == separator and depth == 0:
            items.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*items, last] if last else items


_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def _scalar(text: str) -> Any:
    """Type a YAML scalar as YAML's core schema does: quotes make text, the rest may be number or truth."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace("''", "'") if text[0] == "'" else text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text.startswith("[") and text.endswith("]"):
        return parse_list(text)
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?", text) else text


def _parse_string_list(value: object) -> list[str]:
    return [str(item).strip() for item in parse_list(value)]


def _parse_path_list(value: object) -> list[str]:
    # Flink separates Python files by commas and everything else by semicolons; people mix them up.
    return [path.strip() for item in parse_list(value) for path in str(item).split(",") if path.strip()]


def _parse_string_map(value: object) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key): str(item) for key, item in value.items()}
    text = str(value).strip()
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    pairs = [_split_flow(pair + ":", ":") for pair in _split_flow(inner)]
    if not all(len(pair) > 1 for pair in pairs):
        raise ValueError("expected pairs such as 'key1:value1,key2:value2'")
    return {_unquoted(key): ":".join(map(_unquoted, items)) for key, *items in pairs}


def _unquoted(text: str) -> str:
    return str(_scalar(text)) if text[:1] in ("'", '"') else text


def parse_ports(value: object) -> tuple[int, ...]:
    """Read port numbers: one, a range, or several of both between commas; 0 means any free one.

    >>> parse_ports("50100-50102, 50110"), parse_ports(0)
    ((50100, 50101, 50102, 50110), (0,))
    """
    ports: list[int] = []
    for item in str(value).split(","):
        match = re.fullmatch(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", item)
        first = int(match[1]) if match else -1
        last = int(match[2] or first) if match else -1
        if not 0 <= first <= last <= 65535 or (first == 0 and last > 0):
            raise ValueError(
                "expected ports such as 50100, 50100-50200 or 50100,50200, or 0 for any free one"
            )
        ports += range(first, last + 1)
    return tuple(ports)


BOOLEAN: OptionType[bool] = OptionType("boolean", parse_boolean)
INTEGER: OptionType[int] = OptionType("integer", _parse_integer)
FLOAT: OptionType[float] = OptionType("float", _parse_float)
STRING: OptionType[str] = OptionType("string", str)
DURATION: OptionType[Duration] = OptionType("duration", parse_duration)
MEMORY: OptionType[int] = OptionType("memory size", parse_memory)
STRING_LIST: OptionType[list[str]] = OptionType("list", _parse_string_list)
PATH_LIST: OptionType[list[str]] = OptionType("list of paths", _parse_path_list)
PORTS: OptionType[tuple[int, ...]] = OptionType("ports", parse_ports)
STRING_MAP: OptionType[dict[str, str]] = OptionType("map", _parse_string_map)


@dataclass(frozen=True, slots=True)
class _ChoiceParser:
    """One of some words; case, '-' and '_' do not matter.  A class, so that options can be pickled."""

    words: tuple[str, ...]

    def __call__(self, value: object) -> str:
        wanted = _plain(str(getattr(value, "name", value)))
        for word in self.words:
            if _plain(word) == wanted:
                return word
        raise ValueError(f"expected one of {', '.join(self.words)}")


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "").replace("_", "")


def choice(*words: str) -> OptionType[str]:
    """Return the type of an option that takes one of `words`.

    >>> choice("STREAMING", "BATCH").parse("batch")
    'BATCH'
    """
    return OptionType(" | ".join(words), _ChoiceParser(words))
