"""Connections to Redis, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from firesteel.common.errors import InvalidArgumentError, JobExecutionError
from firesteel.connectors.extras import missing_client

try:
    import redis
    from redis import exceptions
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:  # pragma: no cover - the tests have it
    raise missing_client("Redis", "redis", "redis") from error

#: Errors after which another connection may work.
LOST: tuple[type[Exception], ...] = (redis.ConnectionError, redis.TimeoutError)
#: Somebody else has changed what a transaction watches.
CHANGED: type[Exception] = redis.WatchError
#: How long a server may take to answer.
ANSWER_SECONDS = 30.0


def check_url(url: str) -> str:
    """The URL, if it can be one."""
    parts = urlsplit(url)
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise InvalidArgumentError(
            f"a URL of Redis begins with redis://, rediss:// (TLS) or unix://, got a scheme of {parts.scheme!r}"
        )
    return url


def place_of(url: str) -> str:
    """Where a server is, without the password.

    >>> place_of("redis://me:secret@cache:6379/2")
    'redis://cache:6379/2'
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def connect(url: str) -> redis.Redis:
    """A connection that has been tried; retrying is the business of the bases."""
    client: redis.Redis = redis.Redis.from_url(
        url,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        socket_connect_timeout=ANSWER_SECONDS,
        socket_timeout=ANSWER_SECONDS,
    )
    with told(url, "connecting"):
        client.ping()
    return client


@contextmanager
def told(url: str, action: str) -> Iterator[None]:
    """What Redis refuses becomes a sentence; lost connections stay what they are."""
    try:
        yield
    except (
        exceptions.AuthenticationError,
        exceptions.AuthorizationError,
        exceptions.NoPermissionError,
    ) as error:
        raise refused(
            url, action, error, "check user and password in the URL, and the user's rights"
        ) from error
    except LOST:
        raise
    except redis.ResponseError as error:
        if str(error).startswith(("NOAUTH", "WRONGPASS")):
            raise refused(url, action, error, "check user and password in the URL") from error
        raise refused(url, action, error, "") from error


def refused(url: str, action: str, error: Exception, remedy: str) -> JobExecutionError:
    """A command that Redis does not do."""
    return JobExecutionError(
        f"{action}: {place_of(url)} answers: {error}" + (f"; {remedy}" if remedy else "")
    )


def text(value: Any) -> str:
    """A name as Redis gives it."""
    return value.decode() if isinstance(value, bytes) else str(value)
