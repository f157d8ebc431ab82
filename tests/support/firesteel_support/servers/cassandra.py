"""One node of Cassandra on loopback, which asks for a password and forgets nothing when it is killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from firesteel_support.servers import Server, free_port, running
from firesteel_support.servers.maven import jars, java

__all__ = ["PASSWORD", "USER", "VERSION", "CassandraServer", "cassandra_server"]

VERSION = "5.0.5"
#: The user that a new cluster has.
USER = PASSWORD = "cassandra"

_JVM = ["-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]

#: What Cassandra reaches into, as its own start script says for Java 17.
_EXPORTS = """jdk.internal.misc jdk.internal.ref sun.nio.ch java.lang.ref"""
_OPENS = """
    java.lang java.lang.module java.lang.reflect java.math java.net java.io java.nio java.util java.util.concurrent
    java.util.concurrent.atomic jdk.internal.loader jdk.internal.ref jdk.internal.reflect jdk.internal.math
    jdk.internal.module jdk.internal.util.jar sun.nio.ch"""
_OTHERS = [
    "--add-exports=java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.server=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.transport.tcp=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
]

#: Nobody else is there to be waited for.
_SYSTEM = {
    "cassandra-foreground": "yes",
    "cassandra.skip_wait_for_gossip_to_settle": "0",
    "cassandra.ring_delay_ms": "1",
    "cassandra.superuser_setup_delay_ms": "0",
    "cassandra.initial_token": "0",
}

_LOG = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>
%d %level %logger{0} %m%n</pattern></encoder></appender><root level="INFO"><appender-ref ref="out"/></root></configuration>
"""


class CassandraServer:
    """The running node."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port

    def connect(self) -> tuple[Any, Any]:
        """A cluster and a session of the test's own."""
        return _connect(self.port)


def _connect(port: int) -> tuple[Any, Any]:
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import Cluster

    cluster = Cluster(["127.0.0.1"], port=port, auth_provider=PlainTextAuthProvider(USER, PASSWORD))
    try:
        return cluster, cluster.connect()
    except BaseException:
        cluster.shutdown()
        raise


def _answers(port: int) -> bool:
    cluster, _ = _connect(port)
    cluster.shutdown()
    return True


def _settings(folder: Path, port: int, storage_port: int) -> Mapping[str, Any]:
    return {
        "cluster_name": "tests",
        "num_tokens": 1,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "commitlog_sync": "batch",
        "commitlog_segment_size": "8MiB",
        "commitlog_directory": f"{folder}/commitlog",
        "data_file_directories": [f"{folder}/data"],
        "saved_caches_directory": f"{folder}/saved",
        "hints_directory": f"{folder}/hints",
        "cdc_raw_directory": f"{folder}/cdc",
        "endpoint_snitch": "SimpleSnitch",
        "listen_address": "127.0.0.1",
        "rpc_address": "127.0.0.1",
        "storage_port": storage_port,
        "native_transport_port": port,
        "authenticator": "PasswordAuthenticator",
        "authorizer": "CassandraAuthorizer",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": f"127.0.0.1:{storage_port}"}],
            }
        ],
    }


def _command(folder: Path) -> list[str]:
    places = [f"--add-exports=java.base/{name}=ALL-UNNAMED" for name in _EXPORTS.split()]
    places += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENS.split()]
    system = {
        **_SYSTEM,
        "cassandra.config": (folder / "cassandra.yaml").as_uri(),
        "cassandra.storagedir": str(folder),
        "logback.configurationFile": str(folder / "logback.xml"),
    }
    classpath = (
        f"{jars('Cassandra', f'cassandra-{VERSION}', f'org.apache.cassandra:cassandra-all:{VERSION}')}/*"
    )
    options = [f"-D{name}={value}" for name, value in system.items()]
    main = ["-cp", classpath, "org.apache.cassandra.service.CassandraDaemon"]
    return [java("Cassandra"), *_JVM, *places, *_OTHERS, *options, *main]


@pytest.fixture(scope="session")
def cassandra_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraServer]:
    """One server for all tests; each uses tables of its own."""
    import json

    folder, port = tmp_path_factory.mktemp("cassandra"), free_port()
    command = _command(folder)
    (folder / "logback.xml").write_text(_LOG)
    # JSON is YAML.
    (folder / "cassandra.yaml").write_text(json.dumps(_settings(folder, port, free_port())))
    with running("cassandra", command, folder, lambda: _answers(port)) as server:
        yield CassandraServer(server, port)
