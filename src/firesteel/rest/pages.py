"""The files of the web interface at the root of the service's port, with the headers that they want.

They are some two hundred kilobytes in some forty files, and a browser asks for all of them at once: they are read when the
service begins to answer, and given out of memory.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from firesteel.web import CONTENT_SECURITY_POLICY, INDEX, directory

__all__ = ["page_routes"]

_HEADERS: Final = {
    "Cache-Control": "no-cache",  # a browser asks whether a file has changed: pages and service are of one version
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def page_routes() -> list[Route]:
    """A route for each file: other paths stay errors with a sentence."""
    root = directory()
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    routes = [Route(f"/{path.relative_to(root).as_posix()}", _giving(path)) for path in files]
    return [Route("/", _giving(root / INDEX)), *routes]


def _giving(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()
    headers = {**_HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:20]}"'}
    # Tables of the system may call scripts something that browsers do not run.
    kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0]

    async def give(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return give
