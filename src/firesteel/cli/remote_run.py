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
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click

from firesteel.cli.program import Program
from firesteel.cli.running_jobs import plain_errors
from firesteel.common.configuration import Configuration
from firesteel.common.options import (
    PYTHON_ARCHIVES,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
    REST_TOKEN_FILE,
    SPARK_MASTER,
)
from firesteel.datastream._given_options import configured_options
from firesteel.rest.client import NotReachableError, RestClient
from firesteel.rest.client_settings import read_access, service_url

__all__ = ["is_service", "submit"]

_POLL_SECONDS = 0.2
_WAYS_IN = ("security.ssl.rest.", REST_TOKEN_FILE.key)
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


def submit(master: str, program: Program, options: Mapping[str, Any], is_detached: bool) -> int:
    """Submit, and stay with the job until it ends unless ``is_detached``; returns the exit code."""
    with plain_errors(), _client(master, _ways_in(options)) as client:
        left = {key: value for key, value in options.items() if key not in _ways_in(options)}
        left.pop(SPARK_MASTER.key, None)
        try:
            answer = _send_form(client, "/jobs", _form_of(program, left))
        except NotReachableError as error:
            raise click.ClickException(f"{error}; 'firesteel cluster start' starts a service") from error
        job_id = str(answer["jobUrl"]).rpartition("/")[2]
        click.echo(f"Job has been submitted with JobID {job_id}")
        if is_detached:
            click.echo(f"'firesteel list' and {client.url} show it.")
            return 0
        return _follow(client, job_id)


def _ways_in(options: Mapping[str, Any]) -> dict[str, Any]:
    """How the client is let in: of this machine, and nothing for the job."""
    return {key: value for key, value in options.items() if key.startswith(_WAYS_IN)}


def _client(master: str, options: dict[str, Any]) -> RestClient:
    configuration = configured_options().add_all(Configuration.from_dict(options))
    return RestClient(service_url(master, configuration), read_access(configuration))


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


def _send_form(client: RestClient, path: str, form: _Form) -> Any:
    boundary = f"firesteel-{secrets.token_hex(16)}"
    with tempfile.TemporaryFile() as body:
        _write_form(form, boundary, body)
        body.seek(0)
        return client.send_file(path, body, f"multipart/form-data; boundary={boundary}")


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


def _follow(client: RestClient, job_id: str) -> int:
    """Show what the driver prints and logs until the job is over."""
    shown = 0
    try:
        while True:
            result = client.get(f"/jobs/{job_id}/execution-result")
            is_over = result["status"]["id"] == "COMPLETED"
            shown = _show_log(client, job_id, shown)
            if is_over:
                return _tell_end(result["job-execution-result"])
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        click.echo(f"job {job_id} runs on at {client.url}; 'firesteel cancel {job_id}' cancels it", err=True)
        return 130


def _show_log(client: RestClient, job_id: str, shown: int) -> int:
    while part := client.read(f"/jobs/{job_id}/jobmanager/log?from={shown}"):
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
