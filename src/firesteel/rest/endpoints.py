"""What a path is: method, parameters, shapes in and out, and the function that answers; and how a request is read for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from firesteel.common.completable_future import CompletableFuture
from firesteel.rest.access import Role
from firesteel.rest.errors import Malformed, RestError
from firesteel.rest.flame_graphs import FlameGraphs
from firesteel.rest.operations import Operations
from firesteel.rest.schemas import COMPONENTS, HEX, TEXT, WHOLE, Schema, array, choice
from firesteel.rest.served_jobs import JobDirectory

__all__ = [
    "Call",
    "Context",
    "Endpoint",
    "JsonAnswer",
    "Later",
    "Parameter",
    "RawAnswer",
    "SentRequest",
    "UploadedFile",
    "read_body",
    "read_query",
]


@dataclass(frozen=True, slots=True)
class Context:
    """What functions answer from."""

    jobs: JobDirectory
    operations: Operations = field(default_factory=Operations)
    flame_graphs: FlameGraphs = field(default_factory=FlameGraphs)


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it came, for who passes it on. Names of headers are in lower case."""

    method: str = "GET"
    path: str = ""
    query: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer that somebody else has made."""

    status: int
    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file of a form: the field, the name that the client gives it, and where it can be read from, once."""

    field: str
    name: str
    content: BinaryIO


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was read and found to be well formed. ``role``: that of who has sent it."""

    context: Context
    path: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    role: Role = Role.OPERATOR
    sent: SentRequest = field(default_factory=SentRequest)
    files: tuple[UploadedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that somebody else will give, waited for without a thread; what ``show`` makes of the outcome is answered.

    After ``seconds`` the request is refused with ``late``.
    """

    outcome: CompletableFuture
    show: Callable[[CompletableFuture], Any]
    seconds: float
    late: RestError


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of the path or of the query. ``several``: values between commas; ``required``: in a query, it has to be there."""

    name: str
    schema: Schema
    doc: str
    several: bool = False
    required: bool = False

    def read(self, text: str) -> Any:
        """The value, or a refusal that says what was expected."""
        if self.several:
            return [self._one(part) for part in text.split(",") if part]
        return self._one(text)

    def _one(self, text: str) -> Any:
        allowed = self.schema.get("enum")
        if allowed is not None:
            value = next((each for each in allowed if each.lower() == text.lower()), None)
            if value is None:
                raise self._refusal(text, f"one of {', '.join(allowed)}")
            return value
        if "pattern" in self.schema and not re.fullmatch(self.schema["pattern"], text):
            raise self._refusal(text, "32 hexadecimal digits, in lower case")
        if self.schema["type"] == "integer":
            # As many digits as Flink's whole numbers have, and no more.
            if not re.fullmatch(r"-?[0-9]{1,18}", text):
                raise self._refusal(text, "a whole number")
            return int(text)
        return text

    def _refusal(self, text: str, expected: str) -> Malformed:
        return Malformed(f"parameter '{self.name}': expected {expected}, got {text[:100]!r}")

    @property
    def shown_schema(self) -> Schema:
        """The schema in the OpenAPI document: of a list when several values are allowed."""
        return array(self.schema) if self.several else self.schema


#: Names in paths mean the same everywhere.
PATH_PARAMETERS = {
    each.name: each
    for each in (
        Parameter("jobid", HEX, "The id of a job."),
        Parameter("vertexid", HEX, "The id of a vertex, as in the plan of the job."),
        Parameter("triggerid", HEX, "What the start of an operation has answered."),
        Parameter("checkpointid", WHOLE, "The number of a checkpoint."),
        Parameter("subtaskindex", WHOLE, "Which subtask, counted from 0."),
        Parameter("attempt", WHOLE, "Which attempt, counted from 0."),
        Parameter("taskmanagerid", TEXT, "The name of an executor that tasks run in."),
        Parameter("logname", TEXT, "The name of a log file."),
        Parameter("jarid", TEXT, "An artifact."),
        Parameter("datasetid", TEXT, "A data set."),
        Parameter("applicationid", TEXT, "An application."),
        Parameter("filename", TEXT, "A file of a profiler."),
        Parameter("rescaleuuid", TEXT, "A change of the parallelism."),
    )
}

GET_METRICS = Parameter(
    "get", TEXT, "Names of metrics between commas; without it only the names are listed.", True
)
AGGREGATION = Parameter(
    "agg", choice("min", "max", "avg", "sum", "skew"), "Which figures, between commas; without it all.", True
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation. ``shape`` is the name of what it answers; None: a text. ``errors``: with which codes it may refuse.

    ``is_for_operators``: though it is a GET, it is not for those who may only read.
    ``is_upload``: it takes a form with files.
    """

    method: str
    path: str
    answer: Callable[[Call], Any]
    shape: str | Schema | None
    summary: str
    status: int = 200
    query: tuple[Parameter, ...] = ()
    body: str | None = None
    errors: tuple[int, ...] = (400, 404)
    is_for_operators: bool = False
    is_upload: bool = False

    @property
    def role(self) -> Role:
        """The role that it needs: whatever may change something is for operators."""
        return Role.READ_ONLY if self.method == "GET" and not self.is_for_operators else Role.OPERATOR

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Those in the path, in their order."""
        return tuple(PATH_PARAMETERS[name] for name in re.findall(r"\{(\w+)\}", self.path))

    def read_path(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The values in the path."""
        return {each.name: each.read(given[each.name]) for each in self.parameters}


class JsonAnswer(bytes):
    """An answer that is JSON already: a large one is not read and written again."""


def read_query(endpoint: Endpoint, given: Mapping[str, str]) -> dict[str, Any]:
    """The values in the query; names that mean nothing are passed over, as in Flink."""
    missing = [each.name for each in endpoint.query if each.required and each.name not in given]
    if missing:
        raise Malformed(f"parameter '{missing[0]}' is missing: {endpoint.path}?{missing[0]}=...")
    return {each.name: each.read(given[each.name]) for each in endpoint.query if each.name in given}


def read_body(endpoint: Endpoint, content: bytes) -> dict[str, Any]:
    """The values of a JSON body; none is the same as an empty object."""
    if endpoint.body is None or not content.strip():
        body: Any = {}
    else:
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"the body is not JSON: {error}") from None
    shape = COMPONENTS[endpoint.body] if endpoint.body is not None else {"type": "object"}
    problem = _problem(body, shape)
    if problem:
        raise Malformed(f"the body does not fit: {problem}")
    return {name: value for name, value in body.items() if value is not None}


def _problem(body: Any, shape: Schema) -> str:
    """What is wrong with a body; empty when nothing is."""
    values = shape.get("additionalProperties")
    if isinstance(body, dict) and isinstance(values, dict):
        problems = ((name, _problem(value, values)) for name, value in body.items())
        return next((f"{name[:100]!r}: {problem}" for name, problem in problems if problem), "")
    fields: Mapping[str, Schema] = shape.get("properties", {})
    if not isinstance(body, dict):
        return f"expected an object with {', '.join(map(repr, fields)) or 'nothing'}, got {_shown(body)}"
    unknown = [name for name in body if name not in fields]
    if unknown:
        return f"there is no field {unknown[0][:100]!r}; expected {', '.join(map(repr, fields)) or 'none'}"
    missing = [name for name in shape.get("required", ()) if name not in body]
    if missing:
        return f"the field {missing[0]!r} is missing"
    for name, value in body.items():
        if fields[name].get("type") == "object":
            if problem := _problem(value, fields[name]):
                return f"{name!r}: {problem}"
        elif not _fits(value, fields[name]):
            return f"the field {name!r} is {_shown(value)}; expected {_expected(fields[name])}"
    return ""


def _fits(value: Any, schema: Schema) -> bool:
    if "anyOf" in schema:
        return any(_fits(value, each) for each in schema["anyOf"])
    match schema["type"]:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "string":
            is_text = isinstance(value, str) and value in schema.get("enum", (value,))
            return is_text and re.fullmatch(schema.get("pattern", r"(?s).*"), value) is not None
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18
        case "array":
            return isinstance(value, list) and all(_fits(each, schema["items"]) for each in value)
        case "object":
            inner = schema["additionalProperties"]
            return isinstance(value, dict) and all(_fits(each, inner) for each in value.values())
        case _:
            return False


def _expected(schema: Schema) -> str:
    first = schema.get("anyOf", [schema])[0]
    if "enum" in first:
        return f"one of {', '.join(first['enum'])}"
    return "32 hexadecimal digits" if "pattern" in first else _WORDS.get(first["type"], "true or false")


_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "array": "a list of texts",
    "object": "an object with texts",
}


def _shown(value: Any) -> str:
    return json.dumps(value)[:100]
