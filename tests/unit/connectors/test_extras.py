"""Connectors whose client is not installed say what to install, and nobody else needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from firesteel.common.errors import WrongArgumentError
from firesteel.datastream import connectors
from firesteel.datastream.connectors import NumberSequenceSource
from firesteel.testing import simulated_environment

CLIENTS = [
    ("redis", "redis", "Redis", "redis"),
    ("rabbitmq", "pika", "RabbitMQ", "rabbitmq"),
    ("mqtt", "paho", "MQTT", "mqtt"),
    ("http", "httpx", "HTTP", "http"),
    ("websocket", "websockets", "websockets", "websocket"),
    ("opensearch", "opensearchpy", "OpenSearch", "opensearch"),
    ("cassandra", "cassandra", "Cassandra", "cassandra"),
    ("nats", "nats", "NATS", "nats"),
]


@pytest.mark.parametrize(("module", "client", "system", "extra"), CLIENTS)
def test_a_missing_client_is_named_with_its_extra(module: str, client: str, system: str, extra: str) -> None:
    program = f"import sys; sys.modules[{client!r}] = None; import firesteel.datastream.connectors.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"SetupError: the connector for {system} needs the package" in done.stderr
    assert f"pip install 'firesteel[{extra}]'" in done.stderr


def test_no_client_is_imported_before_somebody_asks_for_it() -> None:
    names = [client for _, client, _, _ in CLIENTS]
    program = f"""import sys
import firesteel.datastream.connectors.base, firesteel.testing
print([name for name in {names!r} if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_names_of_pyflinks_package_are_there_when_somebody_asks() -> None:
    assert connectors.RMQSource.__module__ == "firesteel.datastream.connectors.rabbitmq"
    assert {"RMQSink", "RMQConnectionConfig"} & set(vars(connectors)) == set()
    with pytest.raises(AttributeError, match="has no attribute 'RMQThing'"):
        connectors.RMQThing  # type: ignore[attr-defined]  # noqa: B018


def test_add_source_takes_only_sources_that_pyflink_has_as_functions() -> None:
    env = simulated_environment()
    config = connectors.RMQConnectionConfig.Builder().set_host("localhost").build()
    stream = env.add_source(connectors.RMQSource(config, "orders", False, None), "orders")  # type: ignore[arg-type]
    assert stream.get_name() == "orders"
    with pytest.raises(WrongArgumentError, match=r"use from_source\(\) for a Source"):
        env.add_source(NumberSequenceSource(1, 2))  # type: ignore[arg-type]
