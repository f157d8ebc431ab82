"""Opens file systems of ``pyarrow.fs`` by URI: object stores with the keys and addresses that the options give.

Checkpoints and files of sources and sinks go through here, so that one set of options serves both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from firesteel.common import _store_settings
from firesteel.common._store_settings import StoreSettings
from firesteel.common.errors import StorageError

__all__ = ["OBJECT_STORES", "STORE_SCHEMES", "open_file_system", "reason_of", "scheme_of", "without_secrets"]

#: Types of file systems in which an object becomes visible only when it is complete, and nothing can be renamed.
OBJECT_STORES = ("s3", "gcs", "abfs")
_S3 = ("s3", "s3a", "s3n", "s3p")
#: What a URI may begin with, apart from ``file``.
STORE_SCHEMES = (*_S3, "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")

_DEFAULT_REGION = "us-east-1"
_REMEDIES = (
    (
        r"NO_SUCH_BUCKET|Bucket '.*' not found",
        "there is no such bucket at this store; make it first, or correct its name or 's3.endpoint'",
    ),
    (
        r"INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|ACCESS_DENIED|INVALID_CLIENT_TOKEN|HTTP status 40[13]",
        "the store refuses these keys; check 's3.access-key' and 's3.secret-key', or the variables AWS_..., and what they permit",
    ),
    (
        r"NETWORK_CONNECTION|curlCode|REQUEST_TIMEOUT",
        "the store does not answer; check 's3.endpoint', and whether it can be reached from this machine",
    ),
)


def scheme_of(uri: str) -> str:
    """The scheme of a URI; empty for a path.

    >>> scheme_of("s3://bucket/key"), scheme_of("/tmp/a:b")
    ('s3', '')
    """
    head, colon, rest = uri.partition(":")
    return head.lower() if colon and rest.startswith("/") and head.isidentifier() else ""


def open_file_system(uri: str) -> tuple[Any, str]:
    """The file system that a URI means, and the path in it; `StorageError` when it cannot be opened."""
    try:
        from pyarrow.fs import FileSystem

        if scheme_of(uri) in _S3:
            return _open_s3(uri, _store_settings.current())
        return FileSystem.from_uri(uri)  # type: ignore[no-any-return]
    except Exception as error:  # whatever the client of a store raises when it cannot be set up
        raise StorageError(_unusable(uri, error)) from error


def reason_of(error: BaseException) -> str:
    """What a store said, in one line, with what to do about it where that is known."""
    first = str(error).partition("\n")[0]
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, first)), None)
    return f"{remedy} ({first})" if remedy else first


def without_secrets(uri: str) -> str:
    """A URI for people: without the user and password that it may contain."""
    if not scheme_of(uri):
        return uri
    split = urlsplit(uri)
    return uri.replace(f"//{split.netloc}", f"//{split.netloc.rpartition('@')[2]}", 1)


def _unusable(uri: str, error: Exception) -> str:
    if "Unrecognized filesystem type" in str(error):
        known = "a local path, or a URI with file, s3, gs, hdfs or abfs"
        return (
            f"{without_secrets(uri)} is not a directory that Firesteel can reach: unknown scheme "
            f"{scheme_of(uri)!r}; use {known}"
        )
    return f"{without_secrets(uri)} cannot be opened: {reason_of(error)}"


# S3 -----------------------------------------------------------------------------------------------------


def _open_s3(uri: str, settings: StoreSettings) -> tuple[Any, str]:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    split = urlsplit(uri)
    bucket = split.netloc.rpartition("@")[2]
    own = dict(parse_qsl(split.query))
    arguments = {
        **_credentials(split.netloc, settings),
        **_address(own, settings, os.environ),
        "request_timeout": settings.request_seconds,
        "connect_timeout": settings.connect_seconds,
        "retry_strategy": AwsStandardS3RetryStrategy(max_attempts=settings.attempts),
    }
    if "region" not in arguments:
        arguments["region"] = _region_of(bucket)
    return _s3_client(S3FileSystem, arguments), f"{bucket}{unquote(split.path)}".rstrip("/")


def _s3_client(kind: Any, arguments: Mapping[str, Any]) -> Any:
    """With small files in one request instead of three, where pyarrow can do that."""
    try:
        return kind(**arguments, allow_delayed_open=True)
    except TypeError:  # pyarrow 18 does not know it
        return kind(**arguments)


def _credentials(netloc: str, settings: StoreSettings) -> dict[str, str]:
    """Those in the URI, those of the options, or none: then the client looks for them as AWS's clients do."""
    user, at, _ = netloc.rpartition("@")
    if at:
        key, _, secret = user.partition(":")
        return {"access_key": unquote(key), "secret_key": unquote(secret)}
    if settings.access_key is None and settings.secret_key is None:
        return {}
    if settings.access_key is None or settings.secret_key is None:
        given, missing = ("s3.access-key", "s3.secret-key")[:: 1 if settings.access_key else -1]
        raise StorageError(f"option '{given}' is given, but '{missing}' is not; S3 needs both")
    credentials = {"access_key": settings.access_key, "secret_key": settings.secret_key}
    return credentials | ({"session_token": settings.session_token} if settings.session_token else {})


def _address(own: Mapping[str, str], settings: StoreSettings, environ: Mapping[str, str]) -> dict[str, Any]:
    """Where the store is. What the URI says itself counts more than the options, and they more than the environment."""
    address: dict[str, Any] = {}
    endpoint = (
        own.get("endpoint_override")
        or settings.endpoint
        or environ.get("AWS_ENDPOINT_URL_S3")
        or environ.get("AWS_ENDPOINT_URL")
    )
    if endpoint:
        scheme, separator, host = endpoint.rpartition("://")
        address["endpoint_override"] = host.rstrip("/")
        address["scheme"] = scheme if separator else "https" if settings.ssl else "http"
        address["force_virtual_addressing"] = settings.path_style is False
    if "scheme" in own:
        address["scheme"] = own["scheme"]
    region = (
        own.get("region") or settings.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    )
    if region or endpoint:
        address["region"] = region or _DEFAULT_REGION
    return address


def _region_of(bucket: str) -> str:
    from pyarrow.fs import resolve_s3_region

    region: str = resolve_s3_region(bucket)
    return region
