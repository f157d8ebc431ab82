"""An object store that speaks S3: moto's server, which keeps objects in memory."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel_support.servers import Server, free_port, missing, running

__all__ = ["ObjectStore", "s3", "s3_server"]

_KEYS = {"s3.access-key": "testing", "s3.secret-key": "a secret that nobody prints"}


class ObjectStore:
    """A running server, the options that reach it, and a client of its own for tests to look with."""

    def __init__(self, server: Server, port: int) -> None:
        import boto3  # type: ignore[import-untyped]

        self.server = server
        self.endpoint = f"http://127.0.0.1:{port}"
        self.options = {
            "s3.endpoint": self.endpoint,
            **_KEYS,
            "s3.connection.timeout": "20 s",
            "s3.connection.establish.timeout": "20 s",
        }
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            region_name="us-east-1",
        )

    @property
    def process(self) -> int:
        """The id of the server's process."""
        assert self.server._process is not None
        return self.server._process.pid

    def make_bucket(self, name: str) -> str:
        """A new bucket; its URI."""
        self.client.create_bucket(Bucket=name)
        return f"s3://{name}"

    def put(self, uri: str, content: bytes) -> None:
        """Write an object."""
        bucket, key = _divided(uri)
        self.client.put_object(Bucket=bucket, Key=key, Body=content)

    def get(self, uri: str) -> bytes:
        """Read an object."""
        bucket, key = _divided(uri)
        content: bytes = self.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def keys(self, uri: str) -> list[str]:
        """The names of all objects below a URI, without those that stand for folders."""
        bucket, prefix = _divided(uri)
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = [each["Key"] for page in pages for each in page.get("Contents", [])]
        return [key for key in found if not key.endswith("/")]

    def require_keys(self, wanted: bool) -> None:
        """Whether the server looks at keys from now on; with it, only users that it knows get in."""
        body = b"0" if wanted else b"inf"
        request = urllib.request.Request(
            f"{self.endpoint}/moto-api/reset-auth", body, {"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(request, timeout=30).close()


def _divided(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


@contextlib.contextmanager
def s3_server(directory: Path) -> Iterator[ObjectStore]:
    """A server that runs while the context lasts."""
    if importlib.util.find_spec("moto") is None:
        missing("S3", "install moto[s3,server], which requirements-dev.lock lists")
    port = free_port()
    command = [
        sys.executable,
        "-c",
        "from moto.server import main; main()",
        "-H",
        "127.0.0.1",
        "-p",
        str(port),
    ]

    def ready() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5) as answer:
            return bool(answer.status == 200)

    with running("moto", command, directory, ready) as server:
        yield ObjectStore(server, port)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """One server for all tests of a run."""
    with s3_server(tmp_path_factory.mktemp("s3")) as store:
        yield store
