"""An HTTP server that answers as it is told, for tests of those who ask."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from firesteel.common._override import override
from firesteel_support.servers.certificates import Certificates

__all__ = ["ScriptedServer"]

#: Status code, and what is written as JSON; a text is written as it is.
Answer = tuple[int, Any]


class ScriptedServer:
    """Answers each request with the next of ``answers``, and the last of them for ever; remembers what it was asked."""

    def __init__(self, *answers: Answer, media_type: str = "application/json") -> None:
        self.answers = list(answers)
        #: Method, path and body of each request.
        self.asked: list[tuple[str, str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.connections: set[int] = set()
        self.media_type = media_type
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def encrypt(self, files: Certificates, mutual: bool = False) -> str:
        """Speak TLS from the first request on, with a certificate for localhost; returns the address."""
        authority = files.authority if mutual else None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
        context.load_cert_chain(files.server)
        context.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        return f"https://localhost:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                script.asked.append((self.command, self.path, body.decode()))
                script.headers.append(dict(self.headers))
                script.connections.add(self.client_address[1])
                status, answer = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
                content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", script.media_type)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the base class calls them so

            @override
            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
