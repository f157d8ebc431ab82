"""Paths about levels of loggers, which Flink does not have: read them, change them while jobs run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from firesteel.logs.levels import level_name, levels, parse_level, set_level
from firesteel.rest.endpoints import Call, Endpoint, Parameter
from firesteel.rest.errors import NotFound
from firesteel.rest.schemas import HEX

__all__ = ["ENDPOINTS", "change_level", "shown_levels"]

_LOG = logging.getLogger(__name__)


def shown_levels() -> Any:
    """The loggers of this process that have a level of their own, the root first."""
    return {"loggers": [{"logger": name, "level": level_name(level)} for name, level in levels().items()]}


def change_level(body: Mapping[str, Any]) -> None:
    """Set the level of a logger in this process; without a level it is that of the logger above it."""
    name, text = body["logger"], body.get("level")
    set_level(name, None if text is None else parse_level(text))
    _LOG.warning("the level of logger %r is now %s", name or "root", text or "that of the logger above it")


def _levels(call: Call) -> Any:
    _jobs_must_be_here(call)
    return shown_levels()


def _change(call: Call) -> Any:
    """In the driver, in all tasks that run, and thereby in those that start later."""
    _jobs_must_be_here(call)
    change_level(call.body)
    name = call.body["logger"]
    for job in call.context.jobs.all():
        if job.inspector is not None:
            job.inspector.set_log_levels({name: levels().get(name, logging.NOTSET)})
    return shown_levels()


def _jobs_must_be_here(call: Call) -> None:
    """Who names jobs means their drivers; levels are those of a process, for all of its jobs."""
    for job_id in call.query.get("jobs", ()):
        if call.context.jobs.find(job_id) is None:
            raise NotFound(f"job {job_id} is not one of this driver; GET /jobs lists those that are")


_JOBS = Parameter("jobs", HEX, "Of the drivers of these jobs; in a driver, all jobs are its own.", True)

ENDPOINTS = (
    Endpoint(
        "GET",
        "/log-levels",
        _levels,
        "LogLevels",
        "Loggers that have a level of their own.",
        query=(_JOBS,),
    ),
    Endpoint(
        "PUT",
        "/log-levels",
        _change,
        "LogLevels",
        "Change the level of a logger in the driver and in all tasks.",
        query=(_JOBS,),
        body="LogLevelChange",
    ),
)
