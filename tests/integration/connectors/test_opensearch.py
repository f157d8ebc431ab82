"""OpenSearch: documents, against a real server that is killed and started again."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from firesteel.common.errors import JobExecutionError
from firesteel.datastream.connectors import DeliveryGuarantee
from firesteel.datastream.connectors.base import Backoff
from firesteel.datastream.connectors.opensearch import OpenSearchSink
from firesteel.testing import CheckpointHarness, check_sink
from firesteel_support.servers.opensearch import OpenSearchServer

NAMES = itertools.count()
LONG = Backoff(0.05, 0.5, tries=1000)


def new_index() -> str:
    return f"numbers-{next(NAMES)}"


def sink_of(server: OpenSearchServer, index: str, **options: Any) -> OpenSearchSink:
    return OpenSearchSink(
        server.url, index, document_of=lambda n: {"n": n}, id_of=lambda n: n, batch_size=4, **options
    )


def numbers_in(server: OpenSearchServer, index: str) -> list[int]:
    return sorted(document["n"] for document in server.documents(index).values())


def test_documents_with_ids_pass_the_check(opensearch_server: OpenSearchServer) -> None:
    indices: list[str] = []

    def make() -> OpenSearchSink:
        indices.append(new_index())
        return sink_of(opensearch_server, indices[-1])

    check_sink(
        make,
        lambda: numbers_in(opensearch_server, indices[-1]),
        guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
        idempotent=True,
        seeds=range(3),
    )


def test_a_document_is_replaced_and_deleted_by_its_id(opensearch_server: OpenSearchServer) -> None:
    index = new_index()
    harness = CheckpointHarness(
        OpenSearchSink(
            opensearch_server.url,
            lambda change: index,
            id_of=lambda change: change[0],
            document_of=lambda change: change[1],
        )
    )
    harness[0].process(
        [("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3}), ("b", None), ("never there", None)]
    )
    harness.checkpoint(1)
    harness.close()
    assert opensearch_server.documents(index) == {"a": {"n": 3}}


def test_refused_documents_are_told_one_by_one(opensearch_server: OpenSearchServer) -> None:
    index = new_index()
    opensearch_server.ask("PUT", f"/{index}", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    harness = CheckpointHarness(sink_of(opensearch_server, index))
    with pytest.raises(
        JobExecutionError,
        match=rf"refuses 2 documents.*document 'x' of the index '{index}': 400 .*document 'y'",
    ):
        harness[0].process([1, "x", "y", 4])
    harness.close()
    assert numbers_in(opensearch_server, index) == [1, 4]


def test_writing_goes_on_when_the_server_comes_back(opensearch_server: OpenSearchServer) -> None:
    index = new_index()
    harness = CheckpointHarness(sink_of(opensearch_server, index, backoff=LONG))
    harness[0].process([1])
    harness.checkpoint(1)
    opensearch_server.server.kill()
    opensearch_server.server.start()
    harness[0].process([2])
    harness.checkpoint(2)
    harness.close()
    assert numbers_in(opensearch_server, index) == [1, 2]
