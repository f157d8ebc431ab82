"""Documents to OpenSearch by its bulk interface, at least once; with ids a document replaces itself.

An answer to a bulk request has a result for every document. Those that the server was too busy for are sent again;
any other refusal fails the job with a sentence for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from firesteel.common._override import override
from firesteel.common.errors import InvalidArgumentError, JobExecutionError, WrongArgumentError, short_repr
from firesteel.connectors.backoff import Backoff
from firesteel.connectors.batching_sink import BatchClient, BatchingSink, RetryError
from firesteel.connectors.extras import missing_client
from firesteel.connectors.shown_url import shown_url
from firesteel.contracts.sink import SinkContext

try:
    from opensearchpy import OpenSearch, exceptions
except ImportError as error:  # pragma: no cover - the tests have it
    raise missing_client("OpenSearch", "opensearch-py", "opensearch") from error

#: Results, of a document or of a whole request, after which the same may work later.
BUSY = frozenset({429, 502, 503, 504})
#: So many refused documents are told about; the others are counted.
SHOWN = 5


class OpenSearchSink(BatchingSink[Any]):
    """Writes documents: ``document_of`` gives a mapping for each record, ``id_of`` the id, ``index`` is a name or gives one.

    With ids a document that comes again replaces itself, so the index has every record once; ``document_of`` may then give
    None, which deletes the document. Without ids the server makes them, and what comes again is there twice. ``hosts`` are
    URLs, with user and password if need be; ``client_options`` go to ``opensearchpy.OpenSearch``, for certificates and the
    like.
    """

    def __init__(
        self,
        hosts: str | Sequence[str],
        index: str | Callable[[Any], str],
        *,
        document_of: Callable[[Any], Mapping[str, Any] | None] | None = None,
        id_of: Callable[[Any], Any] | None = None,
        client_options: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        batch_size: int = 500,
        linger: float = 1.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.hosts = [hosts] if isinstance(hosts, str) else list(hosts)
        for host in self.hosts:
            if urlsplit(host).scheme not in {"http", "https"}:
                raise InvalidArgumentError(
                    f"an OpenSearchSink needs URLs with http:// or https://, got {shown_url(host)!r}"
                )
        if not self.hosts:
            raise InvalidArgumentError("an OpenSearchSink needs the URL of at least one host; none was given")
        self.index = index
        self.document_of = document_of
        self.id_of = id_of
        self.client_options = dict(client_options or {})
        self.timeout = timeout
        self.batch_size = batch_size
        self.linger = linger
        self.backoff = backoff or Backoff()

    @property
    def place(self) -> str:
        """Where it writes, without what may be secret."""
        return ", ".join(shown_url(host) for host in self.hosts)

    @override
    def describe(self) -> str:
        return f"writing to {self.place}"

    @override
    def connect(self, context: SinkContext) -> BatchClient[Any]:
        return _Bulk(self)


class _Bulk(BatchClient[Any]):
    def __init__(self, sink: OpenSearchSink) -> None:
        self._sink = sink
        # Trying again is the business of the base, which keeps the order of batches.
        options = {"timeout": sink.timeout, "max_retries": 0, **sink.client_options}
        self._client: Any = OpenSearch(hosts=sink.hosts, **options)
        self._ask(self._client.info)

    @override
    def write_batch(self, batch: list[Any]) -> None:
        actions = [self._action(record) for record in batch]
        body = [line for action, document in actions for line in (action, document) if line is not None]
        answer = self._ask(lambda: self._client.bulk(body=body))
        if answer["errors"]:
            self._check([next(iter(item.values())) for item in answer["items"]], batch)

    def _action(self, record: Any) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
        sink = self._sink
        target = {"_index": sink.index if isinstance(sink.index, str) else sink.index(record)}
        if sink.id_of is not None:
            target["_id"] = str(sink.id_of(record))
        document = record if sink.document_of is None else sink.document_of(record)
        if document is None and sink.id_of is not None:
            return {"delete": target}, None
        if not isinstance(document, Mapping):
            raise WrongArgumentError(
                f"a document for OpenSearch is a mapping of names to values, got {short_repr(document)} for the record "
                f"{short_repr(record)}; OpenSearchSink(..., document_of=...) makes one of a record"
            )
        return {"index": target}, document

    def _ask(self, request: Callable[[], Any]) -> Any:
        """What the server answers; what may work later is a RetryError, what will not a sentence."""
        try:
            return request()
        except exceptions.ConnectionError as error:
            raise RetryError(f"{self._sink.place}: {error.error}: {error.info}") from error
        except exceptions.TransportError as error:
            told = f"{self._sink.place} answers {error.status_code}: {error.error}"
            if error.status_code in BUSY:
                raise RetryError(told) from error
            remedy = "; check user and password in the URL, and the user's rights"
            raise JobExecutionError(told + (remedy if error.status_code in {401, 403} else "")) from error

    def _check(self, results: list[dict[str, Any]], batch: list[Any]) -> None:
        """Fail for what is refused for good; have the rest of what was not taken written again."""
        refused = [
            (result, record)
            for result, record in zip(results, batch, strict=True)
            if "error" in result and result["status"] not in BUSY
        ]
        if refused:
            raise self._refusal(refused)
        left = _left(results, batch)
        if left:
            raise RetryError(
                f"{self._sink.place} was too busy for {len(left)} of {len(batch)} documents", left=left
            )

    def _refusal(self, refused: list[tuple[dict[str, Any], Any]]) -> JobExecutionError:
        sentences = [
            f"document {result.get('_id')!r} of the index {result['_index']!r}: {result['status']} {_reason(result['error'])}, "
            f"made of the record {short_repr(record)}"
            for result, record in refused[:SHOWN]
        ]
        more = [f"and {len(refused) - SHOWN} more"] if len(refused) > SHOWN else []
        return JobExecutionError(
            f"{self._sink.place} refuses {len(refused)} documents, and sending them again would not help: "
            + "; ".join(sentences + more)
        )

    @override
    def close(self) -> None:
        self._client.close()


def _left(results: list[dict[str, Any]], batch: list[Any]) -> list[Any]:
    """The records to write again: what was not taken, and what came behind it for the same document, to stay behind it."""
    again: set[tuple[str, str | None]] = set()
    left = []
    for result, record in zip(results, batch, strict=True):
        document = (result["_index"], result.get("_id"))
        if "error" in result:
            again.add(document)
        if document in again:
            left.append(record)
    return left


def _reason(error: Any) -> str:
    """What is wrong with a document; the cause is often what helps.

    >>> _reason({"type": "parsing", "reason": "no number", "caused_by": {"type": "format", "reason": "'a'"}})
    "parsing: no number: format: 'a'"
    """
    if not isinstance(error, Mapping):
        return str(error)
    told = f"{error.get('type')}: {error.get('reason')}"
    return f"{told}: {_reason(error['caused_by'])}" if "caused_by" in error else told
