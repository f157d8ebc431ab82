"""The web interface in front of a REST interface, as one server on loopback: files here, every other path there.

For tests of the pages by themselves, and against services that do not have them.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from firesteel.common._override import override
from firesteel.web import CONTENT_SECURITY_POLICY, directory

__all__ = ["page_server"]


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, rest: str, *args: object) -> None:
        self._rest = rest
        super().__init__(*args, directory=str(directory()))  # type: ignore[arg-type]

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Tests look at answers, not at lines."""

    @override
    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        super().end_headers()

    @override
    def do_GET(self) -> None:
        if self.path.startswith("/v1/"):
            self._forward()
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self._forward()

    def do_PUT(self) -> None:
        self._forward()

    def do_PATCH(self) -> None:
        self._forward()

    def do_DELETE(self) -> None:
        self._forward()

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        target = urlsplit(self._rest)
        assert target.hostname is not None
        connection = http.client.HTTPConnection(target.hostname, target.port, timeout=60)
        with contextlib.closing(connection):
            try:
                kind = {"Content-Type": self.headers["Content-Type"]} if body else {}
                connection.request(self.command, self.path, body, kind)
                answer = connection.getresponse()
                self._answer(answer.status, answer.headers.get("Content-Type", "text/plain"), answer.read())
            except OSError as error:
                self._answer(502, "text/plain", str(error).encode())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def page_server(rest: str) -> Iterator[str]:
    """The address of the pages, which ask the REST interface at ``rest``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, rest)) as server:
        threading.Thread(target=server.serve_forever, name="page-server", daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
