"""Cassandra: rows, as they come and written ahead, against a real server that is killed and started again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from firesteel.common.errors import (
    InvalidArgumentError,
    JobExecutionError,
    UnsupportedOperationError,
    UserCodeError,
)
from firesteel.connectors.staging_sink import StagedBatch, StagingSink
from firesteel.datastream.connectors import DeliveryGuarantee
from firesteel.datastream.connectors.base import Backoff
from firesteel.datastream.connectors.cassandra import CassandraSink
from firesteel.testing import CheckpointHarness, check_sink
from firesteel_support.servers.cassandra import PASSWORD, USER, CassandraServer

NAMES = itertools.count()
QUICK = Backoff(first=0.01, most=0.02, tries=1)
LONG = Backoff(0.05, 0.5, tries=1000)


@pytest.fixture(scope="module")
def session(cassandra_server: CassandraServer) -> Iterator[Any]:
    cluster, session = cassandra_server.connect()
    session.execute(
        "CREATE KEYSPACE tests WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.default_timeout = 60
    yield session
    cluster.shutdown()


def new_table(session: Any) -> str:
    name = f"tests.numbers{next(NAMES)}"
    session.execute(f"CREATE TABLE {name} (k int PRIMARY KEY, v int, note text)")
    return name


def sink_of(server: CassandraServer, table: str, **options: Any) -> CassandraSink:
    query = options.pop("query", f"INSERT INTO {table} (k, v) VALUES (?, ?)")
    values_of = options.pop("values_of", lambda n: (n, n))
    options = {"user": USER, "password": PASSWORD, **options}
    return CassandraSink("127.0.0.1", query, values_of=values_of, port=server.port, **options)


def rows_of(session: Any, table: str) -> dict[int, int]:
    return {row.k: row.v for row in session.execute(f"SELECT k, v FROM {table}")}


@pytest.mark.parametrize("write_ahead", [None, "tests"])
def test_rows_pass_the_check(
    cassandra_server: CassandraServer, session: Any, write_ahead: str | None
) -> None:
    table = new_table(session)

    def make() -> CassandraSink:
        session.execute(f"TRUNCATE {table}")
        return sink_of(cassandra_server, table, write_ahead=write_ahead, batch_size=4)

    exactly = DeliveryGuarantee.EXACTLY_ONCE
    check_sink(
        make,
        lambda: list(rows_of(session, table)),
        guarantee=DeliveryGuarantee.AT_LEAST_ONCE if write_ahead is None else exactly,
        idempotent=write_ahead is None,
        seeds=range(3),
    )


def test_the_last_row_of_a_key_stays_and_none_may_leave_a_column_as_it_is(
    cassandra_server: CassandraServer, session: Any
) -> None:
    table = new_table(session)
    query = f"INSERT INTO {table} (k, v, note) VALUES (?, ?, ?)"
    sink = sink_of(cassandra_server, table, query=query, values_of=None, ignore_null_fields=True)
    harness = CheckpointHarness(sink)
    harness[0].process([(1, number, None if number else "kept") for number in range(200)])
    harness.checkpoint(1)
    harness.close()
    (row,) = session.execute(f"SELECT k, v, note FROM {table}")
    assert tuple(row) == (1, 199, "kept")


def test_a_batch_that_comes_again_late_replaces_nothing_newer(
    cassandra_server: CassandraServer, session: Any
) -> None:
    table = new_table(session)
    sink = sink_of(cassandra_server, table, values_of=None, write_ahead="tests")
    inner: Any = sink._sink
    assert isinstance(inner, StagingSink)
    client = inner.connect(None)
    old, new = StagedBatch("old", [(1, 1)]), StagedBatch("new", [(1, 2)])
    client.write_once(old)
    session.execute("UPDATE tests.firesteel_batches SET written = false WHERE id = 'old'")  # as after a crash
    client.write_once(new)
    client.write_once(old)
    client.close()
    assert rows_of(session, table) == {1: 2}


@pytest.mark.parametrize("write_ahead", [None, "tests"])
def test_what_will_not_get_better_is_told_at_once(
    cassandra_server: CassandraServer, session: Any, write_ahead: str | None
) -> None:
    table = new_table(session)
    with pytest.raises(JobExecutionError, match="check user and password") as caught:
        CheckpointHarness(sink_of(cassandra_server, table, password="wrong", write_ahead=write_ahead))
    assert "wrong" not in str(caught.value)
    with pytest.raises(JobExecutionError, match=r"preparing 'INSERT .*answers: .*nowhere"):
        CheckpointHarness(sink_of(cassandra_server, "tests.nowhere", write_ahead=write_ahead))


def test_a_server_that_is_not_there_fails_the_job_with_its_address() -> None:
    sink = CassandraSink("127.0.0.1", "INSERT", port=1, backoff=QUICK)
    with pytest.raises(
        JobExecutionError, match=r"writing to Cassandra at 127.0.0.1 \(port 1\) .*failed in 2 tries"
    ):
        CheckpointHarness(sink)


def test_what_cannot_be_a_row_or_a_keyspace_is_refused(
    cassandra_server: CassandraServer, session: Any
) -> None:
    harness = CheckpointHarness(sink_of(cassandra_server, new_table(session), values_of=None))
    harness[0].process([7])
    with pytest.raises(UserCodeError, match=r"a tuple, list or Row, got 7 .*values_of"):
        harness.checkpoint(1)
    harness.close()
    with pytest.raises(InvalidArgumentError, match="the name of a keyspace, got 'a b'"):
        CassandraSink("a", "INSERT", write_ahead="a b")
    with pytest.raises(
        UnsupportedOperationError, match=r"use stream.sink_to\(CassandraSink\(hosts, query\)\)"
    ):
        CassandraSink.add_sink(None)


def test_writing_goes_on_when_the_server_comes_back(cassandra_server: CassandraServer, session: Any) -> None:
    table = new_table(session)
    harness = CheckpointHarness(sink_of(cassandra_server, table, backoff=LONG))
    harness[0].process([1])
    harness.checkpoint(1)
    cassandra_server.server.kill()
    cassandra_server.server.start()
    harness[0].process([2])
    harness.checkpoint(2)
    harness.close()
    cluster, again = cassandra_server.connect()
    assert rows_of(again, table) == {1: 1, 2: 2}
    cluster.shutdown()
