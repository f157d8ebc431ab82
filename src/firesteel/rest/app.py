"""The tables of paths as an application of the web framework: reads requests, calls functions, writes answers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
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

from firesteel.rest.endpoints import (
    Call,
    Context,
    Endpoint,
    RawAnswer,
    SentRequest,
    UploadedFile,
    read_body,
    read_query,
)
from firesteel.rest.errors import Malformed, RestError
from firesteel.rest.guard import refusal
from firesteel.rest.openapi import PREFIX, openapi_document
from firesteel.rest.pages import page_routes
from firesteel.rest.paths import ENDPOINTS
from firesteel.rest.settings import RestSettings

__all__ = ["make_app"]

_LOG = logging.getLogger(__name__)

#: Bodies are a few names and paths.
_MOST_BYTES = 1 << 20
_CHUNK = 1 << 16
_MOST_FILES = 1000
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def make_app(
    context: Context, settings: RestSettings, endpoints: Sequence[Endpoint] = ENDPOINTS
) -> Starlette:
    """The application."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    routes = [
        Route(prefix + path, _handler(context, endpoints), methods=[each.method for each in endpoints])
        for path, endpoints in by_path.items()
        for prefix in ("", PREFIX)
    ]
    document = openapi_document(endpoints)
    routes += [
        Route(f"{prefix}/openapi.json", _constant(document), methods=["GET"]) for prefix in ("", PREFIX)
    ]
    app = Starlette(
        routes=[*routes, *page_routes()],
        middleware=[Middleware(_Guard, names=settings.names)],
        exception_handlers={HTTPException: _on_http_error},
    )
    app.router.redirect_slashes = False
    return app


def _handler(context: Context, endpoints: list[Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    methods = {endpoint.method: endpoint for endpoint in endpoints}

    async def handle(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        try:
            # The body first: a client that still sends it when it is refused sees no more than a broken connection.
            content = b"" if endpoint.is_upload else await _content(request)
            path = endpoint.read_path(request.path_params)
            query = read_query(endpoint, request.query_params)
            if endpoint.is_upload:
                return await _uploaded(request, endpoint, Call(context, path, query))
            call = Call(context, path, query, read_body(endpoint, content), _sent(request, content))
            # In another thread: some ask storage, or merge accumulators, which is user code.
            answer = await run_in_threadpool(endpoint.answer, call)
            return _response(answer, endpoint.status)
        except RestError as error:
            return _errors(error.status, *error.sentences)
        except ClientDisconnect:
            return _errors(400, "the request has ended before its body")
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked gets an answer
            _LOG.exception("%s %s could not be answered", request.method, request.url.path)
            return _errors(500, f"{type(error).__name__}: {error}", "the log of the driver has more")

    return handle


def _sent(request: Request, content: bytes) -> SentRequest:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.raw}
    return SentRequest(request.method, request.scope["path"], request.url.query, content, headers)


async def _uploaded(request: Request, endpoint: Endpoint, call: Call) -> Response:
    """Read a form with files, of a limited size, and let it be answered while they are there."""
    most = call.context.most_upload
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > most:
            raise _TooLarge(
                f"the upload is larger than {most:,} bytes; 'rest.server.max-content-length' is the limit"
            )
        return message

    try:
        form = await Request(request.scope, limited).form(max_files=_MOST_FILES, max_fields=_MOST_FILES)
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
            raise _TooLarge(f"the body is larger than {_MOST_BYTES:,} bytes")
        parts.append(part)
    return b"".join(parts)


class _TooLarge(RestError):
    status = 413


def _response(answer: Any, status: int) -> Response:
    if isinstance(answer, RawAnswer):
        return Response(answer.content, answer.status, _HEADERS, answer.media_type)
    if isinstance(answer, Path):
        return StreamingResponse(_content_now(answer), media_type="text/plain", headers=_HEADERS)
    return JSONResponse(answer, status, headers=_HEADERS)


def _content_now(path: Path) -> Iterator[bytes]:
    """What is in a file now: one that is written to all the while would have no end."""
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size
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
    """Refuses what pages of other sites send."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._refusal = functools.partial(refusal, names=names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            reason = self._refusal(headers)
            if reason is not None:
                await _errors(403, reason)(scope, receive, send)
                return
        await self._app(scope, receive, send)
