"""Paths about states that can be asked for while a job runs; Flink has none of them, it has ports of their own."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from firesteel.common.completable_future import CompletableFuture
from firesteel.common.errors import (
    QueryableStateError,
    UnknownKeyOrNamespaceError,
    UnknownKvStateLocationError,
    UnknownLocationError,
)
from firesteel.rest.endpoints import Call, Endpoint, JsonAnswer, Later, Parameter
from firesteel.rest.errors import Conflict, Malformed, NotFound, RestError, TooLate, Unavailable
from firesteel.rest.paths.lookup import job_in
from firesteel.rest.schemas import TEXT

__all__ = ["ENDPOINTS"]

#: How long a task may take to answer: it does between two batches, so user code that takes longer is why it does not.
_SECONDS = 10.0


def _states(call: Call) -> Any:
    job = job_in(call)
    vertices = {vertex.number: vertex.id for vertex in job.outline.vertices}
    states = () if job.control is None else job.control.queryable_states()
    return {
        "states": [
            {
                "name": state.name,
                "kind": state.kind,
                "type": state.type,
                "key-type": state.key_type,
                "vertex": vertices[state.vertex],
                "operator": state.operator,
            }
            for state in states
        ]
    }


def _lookup(call: Call) -> Any:
    job, name = job_in(call), call.query["name"]
    if job.control is None:
        status = job.snapshot().status.name
        raise Conflict(
            f"QueryableStateError: job {call.path['jobid']} is {status}, and its states went with it; they are in its "
            "savepoints"
        )
    outcome = job.control.query_state(name, _key(call.query["key"]))
    late = TooLate(
        f"UnknownLocationError: the task that owns the key has not answered within {_SECONDS:.0f} s: it waits for the "
        "receivers of its records, or in a function; ask again later"
    )
    return Later(outcome, partial(_shown, name), _SECONDS, late)


def _key(text: str) -> Any:
    """The key that a text stands for: JSON, and what is none is the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _shown(name: str, outcome: CompletableFuture) -> Any:
    error = outcome.exception()
    if error is not None:
        raise _refusal(error)
    return JsonAnswer(b'{"name":%b,"value":%b}' % (json.dumps(name).encode(), outcome.result()))


def _refusal(error: BaseException) -> RestError:
    sentence = f"{type(error).__name__}: {error}"
    match error:
        case UnknownKeyOrNamespaceError() | UnknownKvStateLocationError():
            return NotFound(sentence)
        case UnknownLocationError():
            return Unavailable(sentence)
        case QueryableStateError():
            return Conflict(sentence)
    return Malformed(f"parameter 'key': {sentence}")


ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobs/{jobid}/queryable-states",
        _states,
        "QueryableStates",
        "The states that can be asked for now. Firesteel's own.",
    ),
    Endpoint(
        "GET",
        "/jobs/{jobid}/queryable-states/lookup",
        _lookup,
        "StateValue",
        "What a state holds for a key. Firesteel's own.",
        query=(
            Parameter("name", TEXT, "The name that set_queryable() has given to the state.", required=True),
            Parameter("key", TEXT, "The key as JSON; what is no JSON is taken as a text.", required=True),
        ),
        errors=(400, 404, 409, 503, 504),
    ),
)
