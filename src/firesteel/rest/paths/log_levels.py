"""Paths about levels of loggers, which Flink does not have: read them, change them while jobs run."""

from __future__ import annotations

import logging
from typing import Any

from firesteel.logs.levels import level_name, levels, parse_level, set_level
from firesteel.rest.endpoints import Call, Endpoint

__all__ = ["ENDPOINTS"]

_LOG = logging.getLogger(__name__)


def _levels(call: Call) -> Any:
    return {"loggers": [{"logger": name, "level": level_name(level)} for name, level in levels().items()]}


def _change(call: Call) -> Any:
    """In the driver, in all tasks that run, and thereby in those that start later."""
    name, text = call.body["logger"], call.body.get("level")
    set_level(name, None if text is None else parse_level(text))
    _LOG.warning("the level of logger %r is now %s", name or "root", text or "that of the logger above it")
    for job in call.context.jobs.all():
        if job.inspector is not None:
            job.inspector.set_log_levels({name: levels().get(name, logging.NOTSET)})
    return _levels(call)


ENDPOINTS = (
    Endpoint(
        "GET", "/log-levels", _levels, "LogLevels", "Loggers that have a level of their own.", errors=()
    ),
    Endpoint(
        "PUT",
        "/log-levels",
        _change,
        "LogLevels",
        "Change the level of a logger in the driver and in all tasks.",
        body="LogLevelChange",
        errors=(400,),
    ),
)
