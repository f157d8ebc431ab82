"""A client of the REST interface: one address, requests with JSON in and out, and errors that say what was wrong.

It needs the standard library only, so that commands start fast, and it knows nothing of jobs: `job_requests` does.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode, urlsplit

from firesteel.common.errors import FiresteelError

__all__ = [
    "NotReachableError",
    "NotRestError",
    "OperationFailedError",
    "RequestRefusedError",
    "RestAccess",
    "RestClient",
    "RestClientError",
]

_JSON = "application/json"
#: Longer than a driver needs that is busy and answers for the first time; shorter than anybody waits at a terminal.
_TIMEOUT_SECONDS = 60.0
#: Operations are asked for again after this, each time half as long again.
_FIRST_POLL, _LONGEST_POLL = 0.02, 0.5
_SHOWN = 200


class RestClientError(FiresteelError):
    """A request was not answered as it should be."""


class NotReachableError(RestClientError):
    """Nothing listens there, or it does not answer, or the connection has ended before the answer."""


class NotRestError(RestClientError):
    """Something answers, and it is no REST interface of a driver or service."""


class RequestRefusedError(RestClientError):
    """The service refuses the request: ``status`` is its code, ``sentences`` say why."""

    def __init__(self, message: str, status: int = 0, sentences: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.sentences = sentences


class OperationFailedError(RestClientError):
    """Something that was started has failed; ``error_class`` is the name of the class of the service's error."""

    def __init__(self, message: str, error_class: str = "") -> None:
        super().__init__(message)
        self.error_class = error_class


@dataclass(frozen=True, slots=True)
class RestAccess:
    """How to be let in: a token, and for ``https`` whom to trust and who we are; `rest.client_settings` reads it."""

    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    timeout_seconds: float = _TIMEOUT_SECONDS


class RestClient:
    """Talks to the service at ``url``, as in ``http://localhost:8081``. Not to be shared by threads.

    Requests that change nothing use one connection again and again, so that a view that asks every second is cheap.
    """

    def __init__(self, url: str, access: RestAccess | None = None) -> None:
        self.url = url.rstrip("/")
        self._access = access or RestAccess()
        parts = urlsplit(self.url)
        self._host, self._port = parts.hostname or "", parts.port
        self._is_https = parts.scheme == "https"
        self._prefix = parts.path
        self._kept: http.client.HTTPConnection | None = None

    def __enter__(self) -> RestClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; the next request makes another one."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Ask for what is at a path; returns what `request` does."""
        return self.request("GET", path, query)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a body as JSON, an empty object when there is none; returns what `request` does."""
        return self.request("POST", path, body={} if body is None else body)

    def patch(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Ask for a change that the query describes, without a body; returns what `request` does."""
        return self.request("PATCH", path, query)

    def delete(self, path: str) -> Any:
        """Remove something."""
        return self.request("DELETE", path)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Any:
        """What the service answers, read from JSON; raises one of the errors above otherwise."""
        content = b"" if body is None else json.dumps(body).encode()
        return self._read(method, path, *self.send(method, _target(path, query), content))

    def read(self, target: str) -> bytes:
        """What the service answers, as it is."""
        status, media_type, content = self.send("GET", target)
        if status >= 300:
            self._read("GET", target, status, media_type, content)
        return content

    def send_file(self, path: str, file: BinaryIO, content_type: str) -> Any:
        """Send a file from where it stands to its end, which may be larger than memory; what the service answers, read from JSON."""
        begin = file.tell()
        size = file.seek(0, os.SEEK_END) - begin
        file.seek(begin)
        return self._read("POST", path, *self.send("POST", path, file, content_type, size))

    def send(
        self,
        method: str,
        target: str,
        content: bytes | BinaryIO = b"",
        content_type: str = _JSON,
        size: int | None = None,
    ) -> tuple[int, str, bytes]:
        """Send bytes; returns status code, media type and content, whatever they are. ``size``: of a file."""
        headers = {"Accept": _JSON}
        if content:
            headers["Content-Type"] = content_type
        if size is not None:
            headers["Content-Length"] = str(size)
        if self._access.token:
            headers["Authorization"] = f"Bearer {self._access.token}"
        try:
            return self._exchange(method, self._prefix + target, content, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(error) from error

    def outcome(
        self, path: str, trigger_id: str, on_wait: Callable[[float], None] = time.sleep
    ) -> Mapping[str, Any]:
        """Wait for an operation that was started with a trigger id; raises what it has failed with.

        ``path`` is where it is asked for, without the id.
        """
        wait = _FIRST_POLL
        while True:
            answer = self.get(f"{path}/{trigger_id}")
            if _part(answer, "status").get("id") == "COMPLETED":
                return _succeeded(_part(answer, "operation"))
            on_wait(wait)
            wait = min(_LONGEST_POLL, 1.5 * wait)

    # One request --------------------------------------------------------------------------------------

    def _exchange(
        self, method: str, target: str, content: bytes | BinaryIO, headers: Mapping[str, str]
    ) -> tuple[int, str, bytes]:
        if method != "GET":
            # On a connection of its own: a service may end one that has been idle just now, and nobody
            # could say whether the request was heard.
            connection = self._connection()
            try:
                return _answered(connection, method, target, content, headers)
            finally:
                connection.close()
        if self._kept is not None:
            try:
                return _answered(self._kept, method, target, content, headers)
            except (ConnectionError, http.client.HTTPException):
                self.close()
        self._kept = self._connection()
        return _answered(self._kept, method, target, content, headers)

    def _connection(self) -> http.client.HTTPConnection:
        timeout = self._access.timeout_seconds
        if self._is_https:
            tls = self._access.tls or ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def _unreachable(self, error: Exception) -> RestClientError:
        url = self.url
        match error:
            case ssl.SSLCertVerificationError():
                return NotReachableError(
                    f"the certificate of {url} is not trusted: {error.verify_message}; name the file of its authority with "
                    "'security.ssl.rest.ca-file'"
                )
            case ssl.SSLError():
                return NotReachableError(
                    f"no TLS connection to {url}: {error.reason or error}; does it speak plain http, or want a certificate "
                    "of the client ('security.ssl.rest.cert-file')?"
                )
            case TimeoutError():
                seconds = f"{self._access.timeout_seconds:g} s"
                return NotReachableError(
                    f"{url} does not answer within {seconds}; is it stopped, or very busy?"
                )
            case socket.gaierror():
                return NotReachableError(f"no machine of the name {self._host!r} is known here ({url})")
            case ConnectionRefusedError():
                return NotReachableError(f"nothing listens at {url}; 'firesteel list' shows what runs here")
            case http.client.RemoteDisconnected() | ConnectionResetError() | http.client.IncompleteRead():
                hint = "" if self._is_https else ", or does it want https?"
                return NotReachableError(
                    f"{url} has ended the connection without an answer: has it ended{hint}"
                )
            case http.client.HTTPException():
                return NotRestError(
                    f"what listens at {url} does not speak HTTP ({type(error).__name__}: {error})"
                )
            case _:
                return NotReachableError(f"{url} cannot be reached: {error}")

    def _read(self, method: str, path: str, status: int, media_type: str, content: bytes) -> Any:
        answer: Any = None
        if media_type.startswith(_JSON):
            try:
                answer = json.loads(content)
            except ValueError:
                media_type = f"{media_type}, which cannot be read"
        if status < 300 and answer is not None:
            return answer
        sentences = answer.get("errors") if isinstance(answer, dict) else None
        if isinstance(sentences, list) and sentences:
            raise RequestRefusedError("\n".join(map(str, sentences)), status, tuple(map(str, sentences)))
        shown = content[:_SHOWN].decode(errors="replace").strip().partition("\n")[0]
        raise NotRestError(
            f"what listens at {self.url} is no REST interface of Firesteel: to {method} {path} it answers with {status}, "
            f"{media_type or 'without a media type'}: {shown!r}"
        )


def _target(path: str, query: Mapping[str, str] | None) -> str:
    quoted = quote(path, safe="/")
    return f"{quoted}?{urlencode(query)}" if query else quoted


def _answered(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    content: bytes | BinaryIO,
    headers: Mapping[str, str],
) -> tuple[int, str, bytes]:
    connection.request(method, target, content or None, dict(headers))
    response = connection.getresponse()
    return response.status, response.headers.get("Content-Type", ""), response.read()


def _part(answer: Any, name: str) -> Mapping[str, Any]:
    part = answer.get(name) if isinstance(answer, dict) else None
    return part if isinstance(part, dict) else {}


def _succeeded(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    cause = operation.get("failure-cause") or operation.get("failureCause")
    if isinstance(cause, dict):
        name = str(cause.get("class", ""))
        raise OperationFailedError(_message(name, str(cause.get("stack-trace", ""))), name)
    return operation


def _message(class_name: str, text: str) -> str:
    r"""What an error says, out of its traceback.

    >>> _message("a.b.StorageError", "Traceback ...\n  File ...\na.b.StorageError: the disk is full\n")
    'the disk is full'
    >>> _message("a.b.StorageError", "StorageError: the disk is full")
    'the disk is full'
    """
    _, separator, message = f"\n{text}".rpartition(f"\n{class_name}: ")
    if not separator:
        _, separator, message = f"\n{text}".partition(f"\n{class_name.rpartition('.')[2]}: ")
    return (message if separator else text).strip() or class_name
