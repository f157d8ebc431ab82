"""Connections to NATS, and what is said when there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from firesteel.common.errors import InvalidArgumentError, JobExecutionError
from firesteel.connectors.extras import missing_client

try:
    from nats import errors
    from nats.aio.client import Client
    from nats.js import api
    from nats.js import errors as js_errors
except ImportError as error:  # pragma: no cover - the tests have it
    raise missing_client("NATS", "nats-py", "nats") from error

#: How long a server may take to answer.
ANSWER_SECONDS = 30.0
#: So long the server keeps what it knows of a reader that is gone.
FORGET_SECONDS = 60.0
#: Nothing came while it was waited for.
NOTHING_CAME: type[Exception] = errors.TimeoutError


def check_url(url: str) -> str:
    """The URL, if it can be one."""
    parts = urlsplit(url)
    if parts.scheme not in {"nats", "tls", "ws", "wss"} or not parts.hostname:
        raise InvalidArgumentError(
            "a URL of NATS is nats://[user:password@]host[:port], or tls://, ws:// or wss://; "
            f"got one with the scheme {parts.scheme!r} and the host {parts.hostname!r}"
        )
    return url


def place_of(url: str) -> str:
    """Where a server is, without the password.

    >>> place_of("nats://me:secret@broker:4222")
    'nats://broker:4222'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


async def connect(url: str) -> Client:
    """A connection; making it again is the business of the bases."""
    met: list[Exception] = []

    async def remember(error: Exception) -> None:
        """Why there is none; what is wrong with one that is there is raised where it is used."""
        met.append(error)

    client = Client()
    async with told(url):
        try:
            await client.connect(
                url,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=int(ANSWER_SECONDS),
                error_cb=remember,
            )
        except errors.NoServersError as error:
            raise met[-1] if met else error from error
        except BaseException:
            await client.close()
            raise
    return client


@asynccontextmanager
async def told(url: str, what: str = "") -> AsyncIterator[None]:
    """What NATS refuses becomes a sentence, and a lost connection a ConnectionError."""
    place = place_of(url)
    try:
        yield
    except js_errors.NotFoundError as error:
        raise JobExecutionError(
            f"there is no {what} at {place}: {error.description}; create it first"
        ) from error
    except (
        js_errors.ServiceUnavailableError,
        js_errors.NoStreamResponseError,
        errors.NoRespondersError,
    ) as error:
        raise ConnectionError(
            f"{place}: no stream takes the subject of a message, or JetStream is not there: {error}"
        ) from error
    except js_errors.APIError as error:
        raise JobExecutionError(f"{place} refuses {what}: {error.description}") from error
    except (errors.Error, OSError, EOFError) as error:
        if "authorization" in str(error).lower():
            raise JobExecutionError(
                f"{place} refuses the connection: {error}; check user and password in the URL"
            ) from error
        raise ConnectionError(f"{place}: {type(error).__name__}: {error}") from error


def consumer_config(first: int) -> api.ConsumerConfig:
    """A reader from a sequence on, of which the server knows nothing but how far it was sent."""
    return api.ConsumerConfig(
        deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=first,
        ack_policy=api.AckPolicy.NONE,
        inactive_threshold=FORGET_SECONDS,
    )
