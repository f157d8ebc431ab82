"""``firesteel run -m host:8081``: submits a program to a cluster service, with all files that belong to it, and follows its job."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click

from firesteel.cli.program import Program
from firesteel.common.options import (
    PYTHON_ARCHIVES,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
    SPARK_MASTER,
)

__all__ = ["is_service", "service_url", "submit"]

_SECONDS = 120.0
_POLL_SECONDS = 0.2
_CHUNK = 1 << 20


def is_service(master: str | None) -> bool:
    """Whether ``-m`` names a cluster service and not a Spark.

    >>> [is_service(text) for text in ("localhost:8081", "http://host:8081", "spark://host:7077", "local[2]", None)]
    [True, True, False, False, False]
    """
    return (
        master is not None
        and re.fullmatch(r"(https?://)?(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+/?", master) is not None
    )


def service_url(master: str) -> str:
    """The address of a service.

    >>> service_url("localhost:8081")
    'http://localhost:8081'
    """
    return (master if "://" in master else f"http://{master}").rstrip("/")


def submit(master: str, program: Program, options: Mapping[str, Any], is_detached: bool) -> int:
    """Submit, and stay with the job until it ends unless ``is_detached``; returns the exit code."""
    service = _Service(service_url(master))
    form = _form_of(program, {key: value for key, value in options.items() if key != SPARK_MASTER.key})
    answer = service.send_form("/jobs", form)
    job_id = str(answer["submitUrl"]).rpartition("/")[2]
    click.echo(f"Job has been submitted with JobID {job_id}")
    if is_detached:
        click.echo(f"'firesteel list' and {service.url} show it.")
        return 0
    return _follow(service, job_id)


# What travels -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Form:
    """A request, and the files that it names."""

    request: dict[str, Any]
    files: dict[str, Path] = field(default_factory=dict)

    def add(self, given: str) -> str:
        """Let a file travel; the name that it has there. A directory travels as an archive."""
        path = Path(os.path.expanduser(given.removeprefix("file://")))
        if not path.exists():
            raise click.UsageError(f"there is no file {given!r}")
        name = f"{path.name}.zip" if path.is_dir() else path.name
        if self.files.setdefault(name, path) != path:
            raise click.UsageError(
                f"two files that travel with the program are called {name!r}: rename one of them"
            )
        return name


def _form_of(program: Program, options: Mapping[str, Any]) -> _Form:
    left = {key: str(value) for key, value in options.items() if key not in _TRAVELLING}
    form = _Form({"options": left, "arguments": list(program.arguments), "pyflink": program.pyflink})
    if program.script is not None:
        form.request["script"] = form.add(program.script)
    else:
        form.request["module"] = program.module
    form.request["pythonFiles"] = [form.add(path) for path in _paths(options.get(PYTHON_FILES.key))]
    requirements, hash_mark, cache = str(options.get(PYTHON_REQUIREMENTS.key) or "").partition("#")
    if requirements:
        form.request["requirements"] = form.add(requirements)
    if hash_mark and cache:
        form.request["requirementsCache"] = form.add(cache)
    form.request["archives"] = [
        f"{form.add(path)}{mark}{target}"
        for path, mark, target in (text.partition("#") for text in _paths(options.get(PYTHON_ARCHIVES.key)))
    ]
    return form


_TRAVELLING = (PYTHON_FILES.key, PYTHON_REQUIREMENTS.key, PYTHON_ARCHIVES.key)


def _paths(given: Any) -> list[str]:
    return (
        []
        if not given
        else given
        if isinstance(given, list)
        else [each for each in str(given).split(",") if each]
    )


# The service --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Service:
    url: str

    def get(self, path: str) -> Any:
        """The answer, as JSON."""
        return json.loads(self.read(path))

    def read(self, path: str) -> bytes:
        """The answer, as it is."""
        return self._ask(urllib.request.Request(f"{self.url}{path}"))

    def send_form(self, path: str, form: _Form) -> Any:
        """Send a form with files, which may be larger than memory."""
        boundary = f"firesteel-{secrets.token_hex(16)}"
        with tempfile.TemporaryFile() as body:
            _write_form(form, boundary, body)
            size = body.tell()
            body.seek(0)
            headers = {
                "Content-Type": f"multipart/form-data; boundary={boundary}",
                "Content-Length": str(size),
            }
            return json.loads(
                self._ask(urllib.request.Request(f"{self.url}{path}", body, headers, method="POST"))
            )

    def _ask(self, request: urllib.request.Request) -> bytes:
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:
                content: bytes = response.read()
                return content
        except urllib.error.HTTPError as error:
            with error:
                raise click.ClickException(_sentences(error)) from None
        except urllib.error.URLError as error:
            raise click.ClickException(
                f"no cluster service answers at {self.url}: {error.reason}; 'firesteel cluster start' starts one"
            ) from None


def _sentences(error: urllib.error.HTTPError) -> str:
    try:
        return "\n".join(map(str, json.loads(error.read())["errors"]))
    except (ValueError, KeyError, TypeError):
        return f"the service answers with status {error.code}"


def _write_form(form: _Form, boundary: str, body: BinaryIO) -> None:
    request = json.dumps(form.request)
    _write(body, f'--{boundary}\r\nContent-Disposition: form-data; name="request"\r\n\r\n{request}\r\n')
    for name, path in form.files.items():
        _write(
            body,
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n",
        )
        _copy(path, body)
        _write(body, "\r\n")
    _write(body, f"--{boundary}--\r\n")


def _write(body: BinaryIO, text: str) -> None:
    body.write(text.encode())


def _copy(path: Path, body: BinaryIO) -> None:
    with ExitStack() as opened:
        if path.is_dir():
            archive = opened.enter_context(tempfile.TemporaryFile())
            _zip(path, archive)
            archive.seek(0)
            shutil.copyfileobj(archive, body, _CHUNK)
        else:
            shutil.copyfileobj(opened.enter_context(path.open("rb")), body, _CHUNK)


def _zip(directory: Path, target: BinaryIO) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(directory))


# Following ----------------------------------------------------------------------------------------------


def _follow(service: _Service, job_id: str) -> int:
    """Show what the driver prints and logs until the job is over."""
    shown = 0
    try:
        while True:
            result = service.get(f"/jobs/{job_id}/execution-result")
            is_over = result["status"]["id"] == "COMPLETED"
            shown = _show_log(service, job_id, shown)
            if is_over:
                return _tell_end(result["job-execution-result"])
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        click.echo(f"job {job_id} runs on at {service.url}; 'firesteel cancel {job_id}' cancels it", err=True)
        return 130


def _show_log(service: _Service, job_id: str, shown: int) -> int:
    while part := service.read(f"/jobs/{job_id}/jobmanager/log?from={shown}"):
        sys.stdout.buffer.write(part)
        sys.stdout.flush()
        shown += len(part)
    return shown


def _tell_end(result: Mapping[str, Any]) -> int:
    status = result["application-status"]
    if status == "SUCCEEDED":
        click.echo(f"Program execution finished\nJob with JobID {result['id']} has finished.")
        click.echo(f"Job Runtime: {result['net-runtime']} ms")
        return 0
    cause = result.get("failure-cause", {}).get("stack-trace", "")
    click.echo(f"job {result['id']} is {status}{f': {cause}' if cause else ''}", err=True)
    return 1
