"""The configuration file: options for all programs of a user or a machine, one ``key: value`` on each line.

It is ``config.yaml`` in the directory that `CONF_DIR_VARIABLE` names, else in Firesteel's home directory. Everything that is
nearer to the job wins over it: the program's `Configuration`, ``firesteel run -D``, calls in the program.
"""

from __future__ import annotations

import os
from pathlib import Path

from firesteel.common._home import home_directory
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, short_repr

__all__ = ["CONF_DIR_VARIABLE", "configuration_file", "read_options"]

#: Names the directory with the file.
CONF_DIR_VARIABLE = "FIRESTEEL_CONF_DIR"

_NAME = "config.yaml"
_QUOTES = ("'", '"')


def configuration_file() -> Path | None:
    """The file for this process; None when there is none and nobody has said where it is."""
    directory = os.environ.get(CONF_DIR_VARIABLE)
    path = (Path(directory) if directory else home_directory()) / _NAME
    if path.is_file():
        return path
    if directory:
        raise InvalidOptionError(f"{CONF_DIR_VARIABLE} is {directory}, but there is no file {path}")
    return None


def read_options(path: Path) -> Configuration:
    """What the file says, as text."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"the configuration file {path} cannot be read: {error}") from error
    options: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or stripped == "---":
            continue
        key, value = _pair(line, f"{path}, line {number}")
        if key in options:
            raise InvalidOptionError(f"{path}, line {number}: {key!r} is there twice")
        options[key] = value
    return Configuration.from_dict(options)


def _pair(line: str, place: str) -> tuple[str, str]:
    key, colon, value = line.partition(":")
    if line[0].isspace():
        raise InvalidOptionError(
            f"{place}: the line is indented; write the whole key on one line, such as 'parallelism.default: 2'"
        )
    if not colon or (value and not value[0].isspace()) or not key.strip():
        raise InvalidOptionError(f"{place}: expected 'key: value', got {short_repr(line.strip())}")
    return key.strip(), _value(value.strip())


def _value(text: str) -> str:
    """The value without its quotes, or without the comment behind it."""
    if text[:1] in _QUOTES:
        quoted, quote, rest = text[1:].partition(text[0])
        if quote and (not rest.strip() or rest.strip().startswith("#")):
            return quoted
    return text.partition(" #")[0].strip()
