"""What msgspec has to say of a message that is no JSON or not the one expected, in our words."""

from __future__ import annotations

import re
from typing import Any

from firesteel.common.errors import DeserializationError

__all__ = ["json_error"]

_PATH = re.compile(r"^(.*) - at `\$(.*)`$", re.DOTALL)
_BYTE = re.compile(r"^(?:JSON is malformed: )?(.*) \(byte (\d+)\)$", re.DOTALL)


def json_error(message: Any, error: Exception, format: str = "JSON") -> DeserializationError:
    """What msgspec has to say of a message, in our words: the reason, and the field or the byte."""
    data = message.encode() if isinstance(message, str) else message
    if isinstance(error, UnicodeDecodeError):
        return DeserializationError(data, "the text is not UTF-8", format=format, position=_bad_byte(data))
    text = str(error).replace("JSON is malformed: ", "")
    path, position = "", None
    if match := _PATH.match(text):
        text, path = match[1], match[2].lstrip(".")
    if match := _BYTE.match(text):
        text, position = match[1], int(match[2])
    if text == "Input data was truncated":
        text = "the message is empty" if not data.strip() else "the message ends too early"
    reason = text[:1].lower() + text[1:].replace("`", "")
    return DeserializationError(data, reason.replace("`", ""), format=format, path=path, position=position)


def _bad_byte(data: bytes) -> int | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None
