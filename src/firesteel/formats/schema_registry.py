"""A client of schema registries that speak Confluent's interface, and the header of messages with a schema's number."""

from __future__ import annotations

import base64
import json
import struct
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import DeserializationError, SetupError

__all__ = ["SchemaRegistry", "SchemaRegistryError", "read_header", "write_header"]

MAGIC = 0
HEADER = struct.Struct(">bI")
_CONTENT = "application/vnd.schemaregistry.v1+json"


class SchemaRegistryError(SetupError):
    """The registry does not answer, or refuses; ``code`` is that of its answer."""

    code: int | None = None


class SchemaRegistry:
    """Schemas by number, and numbers of schemas; each is asked for once and kept.

    ``url`` may have several addresses, with commas between: the next one is asked when one does not answer. ``user`` and
    ``password`` are for registries that want to know who asks.
    """

    def __init__(
        self, url: str, *, user: str | None = None, password: str = "", timeout_seconds: float = 10.0
    ) -> None:
        self._urls = [part.strip().rstrip("/") for part in url.split(",")]
        self._user = user
        self._password = password
        self._timeout = timeout_seconds
        self._schemas: dict[int, Any] = {}
        self._ids: dict[tuple[str, str, bool], int] = {}
        self._lock = threading.Lock()

    def schema(self, schema_id: int) -> Any:
        """The schema with a number, as JSON has it."""
        if schema_id not in self._schemas:
            answer = self._ask(f"/schemas/ids/{schema_id}")
            if answer.get("schemaType", "AVRO") != "AVRO":
                raise SchemaRegistryError(f"schema {schema_id} is no Avro schema, but {answer['schemaType']}")
            if answer.get("references"):
                raise SchemaRegistryError(
                    f"schema {schema_id} refers to other subjects, which is not part of this version"
                )
            self._schemas[schema_id] = json.loads(answer["schema"])
        return self._schemas[schema_id]

    def id_of(self, subject: str, schema: Any, *, register: bool = True) -> int:
        """The number of a schema of a subject, which is registered if it is new and ``register`` allows it."""
        text = json.dumps(schema)
        key = (subject, text, register)
        if key not in self._ids:
            path = f"/subjects/{urllib.parse.quote(subject, safe='')}" + ("/versions" if register else "")
            self._ids[key] = int(self._ask(path, {"schema": text})["id"])
        return self._ids[key]

    def _ask(self, path: str, body: Any = None) -> dict[str, Any]:
        with self._lock:
            problem: Exception | None = None
            for url in self._urls:
                try:
                    return self._ask_one(f"{url}{path}", body)
                except OSError as error:
                    problem = error
            raise SchemaRegistryError(
                f"the schema registry at {', '.join(self._urls)} does not answer: {problem}; check its address and that it runs"
            ) from problem

    def _ask_one(self, url: str, body: Any) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": _CONTENT, "Content-Type": _CONTENT}
        if self._user is not None:
            token = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        request = urllib.request.Request(url, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                content: dict[str, Any] = json.load(answer)
                return content
        except urllib.error.HTTPError as error:
            with error:
                reason = f"{error.code} {_reason(error)}"
            if error.code >= 500:
                raise OSError(reason) from None
            refusal = SchemaRegistryError(f"the schema registry refuses {url}: {reason}")
            refusal.code = error.code
            raise refusal from None

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaRegistry) and (self._urls, self._user) == (other._urls, other._user)

    @override
    def __hash__(self) -> int:
        return hash(tuple(self._urls))

    @override
    def __repr__(self) -> str:
        return f"SchemaRegistry({','.join(self._urls)!r})"  # without the password


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        message: str = json.load(error)["message"]
    except (ValueError, KeyError, TypeError):
        return error.reason
    return message


def write_header(schema_id: int) -> bytes:
    r"""What stands before a record: a zero byte, and the number of its schema.

    >>> write_header(7)
    b'\x00\x00\x00\x00\x07'
    """
    return HEADER.pack(MAGIC, schema_id)


def read_header(message: bytes) -> int:
    """The number of the schema of a message."""
    if len(message) < HEADER.size or message[0] != MAGIC:
        got = f"{len(message)} bytes" if len(message) < HEADER.size else f"{message[0]} as its first byte"
        raise DeserializationError(
            message,
            f"expected a zero byte and the number of a schema before the record, got {got}; was it written without a "
            "schema registry?",
            format="Avro message of a schema registry",
            position=0,
        )
    schema_id: int = HEADER.unpack_from(message)[1]
    return schema_id
