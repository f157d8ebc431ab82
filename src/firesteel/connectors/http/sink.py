"""Batches of records to an HTTP server, at least once; what may work later is tried again when the server wants it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, JobExecutionError
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.batching_sink import BatchClient, BatchingSink, RetryError
from firesteel.connectors.extras import missing_client
from firesteel.connectors.shown_url import shown_url
from firesteel.contracts.sink import SinkContext

try:
    import httpx
except ImportError as error:  # pragma: no cover - the tests have it
    raise missing_client("HTTP", "httpx", "http") from error

#: So much of an answer is shown in errors.
SHOWN = 500
#: The longest time that a server may ask us to wait.
LONGEST_WAIT = 300.0


def json_array(records: list[Any]) -> bytes:
    """The records as one JSON array.

    >>> json_array([{"a": 1}, "b"])
    b'[{"a":1},"b"]'
    """
    return json.dumps(records, separators=(",", ":")).encode()


class HttpSink(BatchingSink[Any]):
    """Sends batches, by POST unless one says otherwise; ``body_of`` makes bytes of a list of records, a JSON array by itself.

    Answers 2xx are success. After 408, 425, 429 and 5xx, and when there is no answer, the batch is sent again, after the time
    in ``Retry-After`` if there is one. Any other answer fails the job with its status and text. A batch that comes again within
    an attempt has the same ``Idempotency-Key``. ``refused`` looks at the body of a success, for servers that say there that
    they have refused records: what it gives, unless it is None, fails the job.
    """

    def __init__(
        self,
        url: str,
        *,
        body_of: Callable[[list[Any]], bytes] = json_array,
        content_type: str = "application/json",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        refused: Callable[[bytes], str | None] | None = None,
        timeout: float = 30.0,
        batch_size: int = 500,
        linger: float = 1.0,
        backoff: Backoff | None = None,
    ) -> None:
        if urlsplit(url).scheme not in {"http", "https"}:
            raise InvalidArgumentError(
                f"an HttpSink needs a URL with http:// or https://, got {shown_url(url)!r}"
            )
        self.url = url
        self.body_of = body_of
        self.content_type = content_type
        self.method = method
        self.headers = dict(headers or {})
        self.refused = refused
        self.timeout = timeout
        self.batch_size = batch_size
        self.linger = linger
        self.backoff = backoff or Backoff()

    @property
    def place(self) -> str:
        """Where it writes, without what may be secret."""
        return shown_url(self.url)

    @override
    def describe(self) -> str:
        return f"{self.method} to {self.place}"

    @override
    def connect(self, context: SinkContext) -> BatchClient[Any]:
        return _Requests(self)


class _Requests(BatchClient[Any]):
    def __init__(self, sink: HttpSink) -> None:
        self._sink = sink
        self._client = httpx.Client(timeout=sink.timeout)
        self._batch: list[Any] = []
        self._key = ""

    @override
    def write_batch(self, batch: list[Any]) -> None:
        if batch is not self._batch:
            self._batch, self._key = batch, uuid.uuid4().hex
        answer = self._send(self._sink.body_of(batch))
        if answer.is_success:
            self._check(answer)
            return
        if answer.status_code in {408, 425, 429} or answer.status_code >= 500:
            raise RetryError(self._told(answer), _wait(answer.headers.get("Retry-After")))
        raise JobExecutionError(
            f"{self._told(answer)}; a batch of {len(batch)} records was refused, and sending it again would not help"
        )

    def _check(self, answer: httpx.Response) -> None:
        reason = None if self._sink.refused is None else self._sink.refused(answer.content)
        if reason is not None:
            raise JobExecutionError(f"{self._sink.place} has refused records: {reason}")

    def _send(self, body: bytes) -> httpx.Response:
        headers = {
            "Content-Type": self._sink.content_type,
            "Idempotency-Key": self._key,
            **self._sink.headers,
        }
        try:
            return self._client.request(self._sink.method, self._sink.url, content=body, headers=headers)
        except httpx.TransportError as error:
            raise RetryError(f"{self._sink.place}: {type(error).__name__}: {error}") from error

    def _told(self, answer: httpx.Response) -> str:
        text = answer.text[:SHOWN]
        return f"{self._sink.place} answers {answer.status_code} {answer.reason_phrase}: {text!r}"

    @override
    def close(self) -> None:
        self._client.close()


def _wait(retry_after: str | None) -> float | None:
    """The seconds of ``Retry-After``, which are a number or a date.

    >>> _wait("1.5"), _wait("soon"), _wait(None), _wait("Thu, 01 Jan 1970 00:00:00 GMT")
    (1.5, None, None, 0.0)
    """
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT)
