"""A cluster service for tests, in this process; its jobs run in the simulator, each in a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.service.cluster_service import ClusterService
from firesteel.service.settings import read_service_settings
from firesteel_support.rest_client import RestClient

__all__ = ["ServiceClient", "cluster_service", "form", "zipped"]

SIMULATED = {"firesteel.executor": "firesteel.testing.simulator:simulate_program"}
_SECONDS = 60.0


class ServiceClient(RestClient):
    """What anybody could do with a service over HTTP."""

    def upload(self, name: str, content: str | bytes) -> str:
        """Upload a program; its id."""
        data = content if isinstance(content, bytes) else content.encode()
        body, kind = form({}, {name: data}, "jarfile")
        status, answer = self.call("POST", "/jars/upload", body, {"Content-Type": kind})
        assert status == 200, answer
        return str(answer["filename"]).rpartition("/")[2]

    def run(self, jar: str, *arguments: str, **body: Any) -> str:
        """Run an uploaded program; the id of its job."""
        status, answer = self.call("POST", f"/jars/{jar}/run", {"programArgsList": list(arguments), **body})
        assert status == 200, answer
        return str(answer["jobid"])

    def await_state(self, job: str, *states: str) -> Any:
        """Wait until a job is in one of these states; its details."""
        return self.wait_for(f"/jobs/{job}", lambda answer: answer["state"] in states)


@contextlib.contextmanager
def cluster_service(folder: Path, options: Mapping[str, str] | None = None) -> Iterator[ServiceClient]:
    """A service that works in a folder, until the block ends; drivers go on."""
    given = {
        "rest.port": "0",
        "firesteel.cluster.dir": str(folder),
        "firesteel.cluster.spare-drivers": "0",
        **SIMULATED,
        **(options or {}),
    }
    configuration = Configuration.from_dict(given)
    service = ClusterService(read_service_settings(configuration, given), configuration)
    ready = threading.Event()
    urls: list[str] = []
    errors: list[BaseException] = []

    def on_ready(url: str) -> None:
        urls.append(url)
        ready.set()

    def run() -> None:
        try:
            service.run(on_ready)
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
            errors.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="cluster-service")
    thread.start()
    try:
        assert ready.wait(_SECONDS)
        if errors:
            raise errors[0]
        yield ServiceClient(urls[0])
    finally:
        service.stop()
        thread.join(_SECONDS)
        assert not thread.is_alive()


def form(request: Mapping[str, Any], files: Mapping[str, bytes], field: str = "file") -> tuple[bytes, str]:
    """A form with a request and files, and its content type."""
    boundary = uuid.uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="request"\r\n\r\n{json.dumps(request)}\r\n'.encode()
    ]
    for name, content in files.items():
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
        parts.append(head.encode() + content + b"\r\n")
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"


def zipped(files: Mapping[str, str]) -> bytes:
    """An archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()
