"""The tables of paths as an application of the web framework: reads requests, calls functions, writes answers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firesteel.common.completable_future import CompletableFuture
from firesteel.rest.access import Role, TokenFile
from firesteel.rest.endpoints import (
    Call,
    Context,
    Endpoint,
    JsonAnswer,
    Later,
    RawAnswer,
    SentRequest,
    UploadedFile,
    read_body,
    read_query,
)
from firesteel.rest.errors import Forbidden, Malformed, RestError, TooLarge, Unauthorized
from firesteel.rest.guard import is_too_large, refusal
from firesteel.rest.log_texts import LogText
from firesteel.rest.openapi import PREFIX, openapi_document
from firesteel.rest.pages import page_routes
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.settings import RestSettings

__all__ = ["make_app"]

_LOG = logging.getLogger(__name__)

#: Bodies in JSON are a few names and paths.
_MOST_BYTES = 1 << 20
_CHUNK = 1 << 16
_MOST_FILES = 1000
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
#: Where the guard leaves the role of who asks.
_ROLE = "firesteel.role"


def make_app(
    context: Context, settings: RestSettings, endpoints: Sequence[Endpoint] = ENDPOINTS
) -> Starlette:
    """What answers HTTP: the endpoints, their description, and the pages of the web interface."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    routes = [
        Route(prefix + path, _handler(context, endpoints), methods=[each.method for each in endpoints])
        for path, endpoints in by_path.items()
        for prefix in ("", PREFIX)
    ]
    document = openapi_document(endpoints)
    described = [
        Route(f"{prefix}/openapi.json", _constant(document), methods=["GET"]) for prefix in ("", PREFIX)
    ]
    # Nothing of a job is in these: a page has to be there before it can ask for a token.
    public = [*described, *page_routes()]
    app = Starlette(
        routes=[*routes, *public],
        middleware=[Middleware(_Guard, settings=settings, public=frozenset(each.path for each in public))],
        exception_handlers={HTTPException: _on_http_error},
    )
    app.router.redirect_slashes = False
    return app


def _handler(context: Context, endpoints: list[Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    methods = {endpoint.method: endpoint for endpoint in endpoints}

    async def handle(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        role: Role = request.scope[_ROLE]
        try:
            # The body first: a client that still sends it when it is refused sees no more than a broken connection.
            content = b"" if endpoint.is_upload else await _content(request)
            if not role.may(endpoint.role):
                raise Forbidden(
                    f"{request.method} {endpoint.path} is for the role {endpoint.role.value}, and your token has the role "
                    f"{role.value}"
                )
            path = endpoint.read_path(request.path_params)
            query = read_query(endpoint, request.query_params)
            if endpoint.is_upload:
                return await _uploaded(request, endpoint, Call(context, path, query, role=role))
            call = Call(context, path, query, read_body(endpoint, content), role, _sent(request, content))
            # In another thread: some ask storage, or merge accumulators, which is user code.
            answer = await run_in_threadpool(endpoint.answer, call)
            if isinstance(answer, Later):
                answer = await _outcome(answer)
            return _response(answer, endpoint.status)
        except RestError as error:
            # Of a body that is too large, the rest will not be read.
            headers = {"Connection": "close"} if isinstance(error, TooLarge) else None
            return _errors(error.status, *error.sentences, headers=headers)
        except ClientDisconnect:
            return _errors(400, "the request has ended before its body")
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked gets an answer
            _LOG.exception("%s %s could not be answered", request.method, request.url.path)
            return _errors(500, f"{type(error).__name__}: {error}", "the log of the driver has more")

    return handle


async def _outcome(answer: Later) -> Any:
    """What an answer that comes later has become."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def tell(_: CompletableFuture) -> None:
        with contextlib.suppress(RuntimeError):  # the service has ended meanwhile
            loop.call_soon_threadsafe(done.set)

    answer.outcome.add_done_callback(tell)
    try:
        await asyncio.wait_for(done.wait(), answer.seconds)
    except TimeoutError:
        raise answer.late from None
    return answer.show(answer.outcome)


def _sent(request: Request, content: bytes) -> SentRequest:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.raw}
    return SentRequest(request.method, request.scope["path"], request.url.query, content, headers)


async def _uploaded(request: Request, endpoint: Endpoint, call: Call) -> Response:
    """Read a form with files, and let it be answered while they are there."""
    try:
        form = await request.form(max_files=_MOST_FILES, max_fields=_MOST_FILES)
    except HTTPException as error:
        raise Malformed(f"the body is no form with files (multipart/form-data): {error.detail}") from None
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(form.close)
        files = tuple(
            UploadedFile(field, part.filename or "", part.file)
            for field, part in form.multi_items()
            if isinstance(part, UploadFile)
        )
        fields = {field: part for field, part in form.multi_items() if isinstance(part, str)}
        call = dataclasses.replace(call, body=fields, sent=_sent(request, b""), files=files)
        return _response(await run_in_threadpool(endpoint.answer, call), endpoint.status)


async def _content(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > _MOST_BYTES:
            raise TooLarge(f"the body is larger than {_MOST_BYTES:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _response(answer: Any, status: int) -> Response:
    if isinstance(answer, LogText):
        return _log_response(answer)
    if isinstance(answer, JsonAnswer):
        return Response(bytes(answer), status, headers=_HEADERS, media_type="application/json")
    if isinstance(answer, RawAnswer):
        return Response(answer.content, answer.status, _HEADERS, answer.media_type)
    return JSONResponse(answer, status, headers=_HEADERS)


def _log_response(log: LogText) -> Response:
    if log.path is None:
        content = log.text.encode("utf-8", "replace")
        begin = 0 if log.tail is None else max(0, len(content) - max(0, log.tail))
        return Response(content[begin:], media_type="text/plain", headers=_HEADERS)
    return StreamingResponse(_content_now(log.path, log.tail), media_type="text/plain", headers=_HEADERS)


def _content_now(path: Path, tail: int | None = None) -> Iterator[bytes]:
    """What is in a file now: one that is written to all the while would have no end."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        left = size if tail is None else min(size, max(0, tail))
        file.seek(size - left)
        while left > 0 and (part := file.read(min(left, _CHUNK))):
            left -= len(part)
            yield part


def _constant(document: dict[str, Any]) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        return JSONResponse(document, headers=_HEADERS)

    return handle


def _errors(status: int, *sentences: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"errors": list(sentences)}, status, headers={**_HEADERS, **(headers or {})})


async def _on_http_error(request: Request, error: Exception) -> Response:
    """What the framework refuses: paths that are not there, and methods."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    path = request.url.path
    if error.status_code == 404:
        return _errors(404, f"there is no path {path[:200]!r}; GET {PREFIX}/openapi.json lists all")
    if error.status_code == 405:
        allowed = headers.get("Allow", "")
        return _errors(
            405, f"{request.method} does nothing at {path[:200]!r}; allowed: {allowed}", headers=headers
        )
    return _errors(error.status_code, str(error.detail), headers=headers)


class _Guard:
    """Refuses what pages of other sites send, what comes without a token where one is needed, and what is too large."""

    def __init__(self, app: ASGIApp, settings: RestSettings, public: frozenset[str]) -> None:
        self._app = app
        self._names = settings.names
        self._most_bytes = settings.most_body_bytes
        self._tokens = None if settings.tokens_file is None else TokenFile(settings.tokens_file)
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            scope[_ROLE] = self._role(scope["path"], headers)
        except RestError as error:
            # The rest of the request is not worth reading.
            extra = {"Connection": "close"}
            if isinstance(error, Unauthorized):
                extra["WWW-Authenticate"] = 'Bearer realm="firesteel"'
            await _errors(error.status, *error.sentences, headers=extra)(scope, receive, send)
            return
        await self._app(scope, _limited(receive, self._most_bytes), send)

    def _role(self, path: str, headers: dict[str, str]) -> Role:
        if (reason := refusal(headers, self._names)) is not None:
            raise Forbidden(reason)
        if is_too_large(headers, self._most_bytes):
            raise TooLarge(f"the body is larger than {self._most_bytes:,} bytes")
        if self._tokens is None:
            return Role.OPERATOR
        if path in self._public:
            return Role.READ_ONLY
        return self._tokens.role_of(headers.get("authorization"))


def _limited(receive: Receive, most: int) -> Receive:
    """The same body, up to that many bytes: not all clients say before how large it is."""
    size = 0

    async def receive_part() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise TooLarge(f"the body is larger than {most:,} bytes")
        return message

    return receive_part
