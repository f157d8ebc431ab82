"""A schema registry in memory, behind a real HTTP server on loopback: the part of Confluent's interface that clients use."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from firesteel.common._override import override

__all__ = ["FakeRegistry", "fake_registry"]


class FakeRegistry:
    """What is registered; ``asked`` has the path of every request."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}
        self.subjects: dict[tuple[str, str], int] = {}
        self.asked: list[str] = []
        self.is_down = False
        self.url = ""

    def register(self, subject: str, schema: str) -> int:
        """The number of a schema; equal texts have one number."""
        known = next((number for number, text in self.schemas.items() if text == schema), None)
        number = len(self.schemas) + 1 if known is None else known
        self.schemas[number] = schema
        self.subjects[subject, schema] = number
        return number

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and content for a request."""
        self.asked.append(f"{method} {path}")
        if self.is_down:
            return 503, {"error_code": 50003, "message": "not now"}
        parts = path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
            if number not in self.schemas:
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            return 200, {"schema": self.schemas[number]}
        if parts[0] == "subjects" and parts[2:] == ["versions"]:
            return 200, {"id": self.register(parts[1], body["schema"])}
        found = self.subjects.get((parts[1], body["schema"]))
        return (
            (404, {"error_code": 40403, "message": "Schema not found"})
            if found is None
            else (200, {"id": found})
        )


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    """A registry that runs on a free port of loopback."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(None)

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, body: Any) -> None:
            status, content = registry.answer(self.command, self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
