"""How the secret of the control connections gets to the tasks.

A task that is about to run travels as a block, and Spark gives its blocks to whoever asks for them, unless it
authenticates (``spark.authenticate``). Tasks on this machine therefore get the path of a file that only this user can read.
On a cluster the secret has to travel with the task; there it is as safe as Spark itself, and `warn_if_open` says when
that is not at all.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pyspark import SparkContext, SparkFiles

from firesteel.common._private_files import create_private
from firesteel.plan.executor import ControlEndpoint
from firesteel.plan.tls_identity import TlsIdentity
from firesteel.spark.settings import AUTHENTICATION

__all__ = ["EndpointInFile", "TaskEndpoint", "endpoint_in_file", "resolved", "warn_if_open"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndpointInFile:
    """The job master's endpoint without its secret, which is in a file, as is the key of its encryption, if it has one."""

    host: str
    port: int
    file: str
    tls_file: str | None = None


#: What a task is given.
TaskEndpoint = ControlEndpoint | EndpointInFile


def resolved(endpoint: TaskEndpoint) -> ControlEndpoint:
    """The endpoint with its secret; to be called in a task."""
    if isinstance(endpoint, ControlEndpoint):
        return endpoint
    with open(endpoint.file, "rb") as file:
        secret = file.read()
    return ControlEndpoint(endpoint.host, endpoint.port, secret, _identity(endpoint.tls_file))


def _identity(path: str | None) -> TlsIdentity | None:
    if path is None:
        return None
    with open(path, encoding="ascii") as file:
        return TlsIdentity(**{name: text.encode() for name, text in json.load(file).items()})


@contextlib.contextmanager
def endpoint_in_file(endpoint: ControlEndpoint) -> Iterator[EndpointInFile]:
    """The secret in a file for as long as the block lasts."""
    # Among Spark's own temporary files: should this process be killed, Spark's removes them.
    directory = tempfile.mkdtemp(prefix="firesteel-", dir=SparkFiles.getRootDirectory())
    try:
        path = os.path.join(directory, "secret")
        with create_private(path) as file:
            file.write(endpoint.secret)
        tls_path = None
        if endpoint.tls is not None:
            tls_path = os.path.join(directory, "tls")
            with create_private(tls_path) as file:
                file.write(json.dumps({k: v.decode() for k, v in asdict(endpoint.tls).items()}).encode())
        yield EndpointInFile(endpoint.host, endpoint.port, path, tls_path)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


#: Applications about which everything has been said.
_told: set[str] = set()


def warn_if_open(context: SparkContext) -> None:
    """Say, once for each application, when Spark lets in everybody who can reach its ports."""
    conf = context.getConf()
    authenticates = conf.get("spark.authenticate", "false") == "true"
    encrypts = "true" in (
        conf.get("spark.network.crypto.enabled", "false"),
        conf.get("spark.ssl.rpc.enabled", "false"),
    )
    if (authenticates and encrypts) or context.applicationId in _told:
        return
    _told.add(str(context.applicationId))
    _LOG.warning(
        "%s does not %s: whoever reaches its ports can %s. Give its master, its workers and this program the same %s and "
        "spark.authenticate.secret (docs/security.md).",
        context.master,
        "authenticate those who connect to it" if not authenticates else "encrypt what it sends",
        "run code as the users of the driver and the executors"
        if not authenticates
        else "read the tasks of this job, and the secret of the job with them",
        ", ".join(f"{key}={value}" for key, value in AUTHENTICATION.items()),
    )
