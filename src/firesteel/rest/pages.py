"""The files of the web interface at the root of the service's port, with the headers that they want."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles

from firesteel.common._override import override
from firesteel.web import CONTENT_SECURITY_POLICY, directory

__all__ = ["page_routes"]

_HEADERS: Final = {
    "Cache-Control": "no-cache",  # a browser asks whether a file has changed: pages and service are of one version
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _Files(StaticFiles):
    @override
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_HEADERS)
        return response


def page_routes() -> list[BaseRoute]:
    """Routes for the first page and what it loads: not one for everything, so that other paths stay errors with a sentence."""
    files = _Files(directory=directory(), html=True)
    places = [
        f"/{path.name}/{{file:path}}" if path.is_dir() else f"/{path.name}" for path in directory().iterdir()
    ]
    return [Route(place, files) for place in ("/", *sorted(places))]
