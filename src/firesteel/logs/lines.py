"""The one form that lines of a log have, as text or as JSON; what is secret is in none of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from firesteel.common._override import override
from firesteel.common._redaction import HIDDEN
from firesteel.logs.origin import origin_of

__all__ = ["FORMAT", "JsonLines", "TextLines"]

#: Time, level, logger, then job and task where a task has logged, and the message.
FORMAT = "%(asctime)s %(levelname)s %(name)s%(place)s: %(message)s"

#: What every record has; the rest was given by ``extra``.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "place", "taskName"}


class TextLines(logging.Formatter):
    """Lines for people. ``secrets`` are put out of sight wherever they stand."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        super().__init__(FORMAT)
        self._secrets = secrets

    @override
    def format(self, record: logging.LogRecord) -> str:
        origin = origin_of(record)
        # A name may have line breaks, and whoever reads a log must be able to trust the beginnings of its lines.
        record.place = "" if origin is None else f" [{' '.join(f'{origin.job}: {origin.task}'.split())}]"
        return _without(self._secrets, super().format(record))


class JsonLines(logging.Formatter):
    """An object on each line, with what was given by ``extra`` as far as JSON can say it."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        super().__init__()
        self._secrets = secrets

    @override
    def format(self, record: logging.LogRecord) -> str:
        origin = origin_of(record)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "thread": record.threadName,
            "process": record.process,
        }
        if origin is not None:
            line |= {
                "job": origin.job,
                "job_id": origin.job_id,
                "task": origin.task,
                "attempt": origin.attempt,
            }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = record.exc_text
        given = {
            name: value
            for name, value in vars(record).items()
            if name not in _USUAL and not name.startswith("firesteel_")
        }
        text = json.dumps({**given, **line}, ensure_ascii=False, default=str)
        return _without([json.dumps(secret, ensure_ascii=False)[1:-1] for secret in self._secrets], text)


def _without(secrets: Collection[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
