"""The paths of the interface, by subject: each module has a table of endpoints and the functions that answer."""

from __future__ import annotations

from firesteel.rest.endpoints import Endpoint
from firesteel.rest.paths import (
    checkpoints,
    driver,
    jobs,
    log_levels,
    missing,
    queryable_states,
    rescales,
    task_managers,
    vertices,
)

__all__ = ["ENDPOINTS"]

#: Fixed names before parameters, so that ``/jobs/overview`` is not taken for the job ``overview``.
ENDPOINTS: tuple[Endpoint, ...] = tuple(
    sorted(
        (
            *driver.ENDPOINTS,
            *log_levels.ENDPOINTS,
            *task_managers.ENDPOINTS,
            *jobs.ENDPOINTS,
            *vertices.ENDPOINTS,
            *checkpoints.ENDPOINTS,
            *queryable_states.ENDPOINTS,
            *rescales.ENDPOINTS,
            *missing.ENDPOINTS,
        ),
        key=lambda endpoint: [(part.startswith("{"), part) for part in endpoint.path.split("/")],
    )
)
