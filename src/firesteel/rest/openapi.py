"""The description of the interface that the service itself offers, made from the tables of paths and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from firesteel import __version__
from firesteel.rest.endpoints import Endpoint, Parameter
from firesteel.rest.schemas import COMPONENTS, TEXT, Schema, reference

__all__ = ["PREFIX", "openapi_document"]

#: Every path is there with this in front and without it, as in Flink.
PREFIX = "/v1"

_NAMED = re.compile(r"#/components/schemas/(\w+)")
_WORDS = {
    200: "Done.",
    202: "It has begun.",
    308: "It is not there any more; the sentence says what took its place.",
    400: "Something in the request cannot be read, or means nothing.",
    404: "There is no such thing.",
    409: "The job is in a state in which that cannot be done.",
    413: "It is larger than what is taken.",
    503: "Nobody can answer now; ask again later.",
    504: "Nobody has answered in time; ask again later.",
    501: "Flink has it, and Firesteel has not.",
}


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The whole document, in version 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(PREFIX + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Firesteel",
            "version": __version__,
            "description": "Jobs, with the paths and names of Flink's REST interface. Every path is there without "
            f"{PREFIX}, too.",
        },
        "paths": paths,
        "components": {"schemas": _used(paths)},
    }


def _used(paths: Any) -> dict[str, Schema]:
    """The shapes that are named there, and those that they name: a driver does not have all that a service has."""
    shapes: dict[str, Schema] = {}
    names = set(_NAMED.findall(str(paths)))
    while names:
        name = names.pop()
        if name not in shapes:
            shapes[name] = COMPONENTS[name]
            names |= set(_NAMED.findall(str(shapes[name])))
    return {name: shapes[name] for name in COMPONENTS if name in shapes}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _name(endpoint),
        "summary": endpoint.summary,
        "x-firesteel-role": endpoint.role.value,
        "parameters": [
            *(_parameter(each, "path") for each in endpoint.parameters),
            *(_parameter(each, "query") for each in endpoint.query),
        ],
        "responses": {
            str(endpoint.status): _response(endpoint),
            **{str(code): _refusal(code) for code in endpoint.errors if code != endpoint.status},
        },
    }
    if endpoint.body is not None:
        is_needed = bool(COMPONENTS[endpoint.body].get("required"))
        operation["requestBody"] = {
            "required": is_needed,
            "content": {"application/json": {"schema": reference(endpoint.body)}},
        }
    if endpoint.is_upload:
        form = {
            "type": "object",
            "properties": {"request": TEXT, "jarfile": {"type": "string", "format": "binary"}},
        }
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    return operation


def _name(endpoint: Endpoint) -> str:
    words = endpoint.path.replace("{", "by-").replace("}", "").strip("/").replace("/", "-")
    return f"{endpoint.method.lower()}-{words}"


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": parameter.name,
        "in": place,
        "required": place == "path" or parameter.required,
        "description": parameter.doc,
        "schema": parameter.shown_schema,
    }
    if parameter.several:
        shown |= {"style": "form", "explode": False}
    return shown


def _response(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.shape is None:
        return {"description": _WORDS[200], "content": {"text/plain": {"schema": {"type": "string"}}}}
    shape: Schema = reference(endpoint.shape) if isinstance(endpoint.shape, str) else endpoint.shape
    return {"description": _WORDS[endpoint.status], "content": {"application/json": {"schema": shape}}}


def _refusal(code: int) -> dict[str, Any]:
    return {
        "description": _WORDS[code],
        "content": {"application/json": {"schema": reference("Errors")}},
    }
