"""One node of OpenSearch on loopback, without plugins: a class of a few lines starts it with its network module."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel_support.servers import Server, free_port, missing, running
from firesteel_support.servers.maven import jars, java

__all__ = ["VERSION", "OpenSearchServer", "opensearch_server"]

VERSION = "2.19.1"

_MODULES = (
    f"org.opensearch:opensearch:{VERSION}",
    f"org.opensearch.plugin:transport-netty4-client:{VERSION}",
    "org.apache.logging.log4j:log4j-core:2.21.0",  # of that release
)

_JVM = ["-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]

_SOURCE = """
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

public class Start extends Node {
    Start(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "tests"),
            List.of(Netty4Plugin.class), false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings.Builder settings = Settings.builder();
        for (String argument : arguments) {
            settings.put(argument.substring(0, argument.indexOf('=')), argument.substring(argument.indexOf('=') + 1));
        }
        new Start(settings.build()).start();
        new CountDownLatch(1).await();
    }
}
"""


class OpenSearchServer:
    """The running node."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What the server answers to a request."""
        return _ask(self.url, method, path, body)

    def documents(self, index: str) -> dict[str, Any]:
        """All documents of an index by their ids; none if there is no such index."""
        self.ask("POST", f"/{index}/_refresh?ignore_unavailable=true")
        found = self.ask("GET", f"/{index}/_search?size=10000&ignore_unavailable=true")
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


def _ask(url: str, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{url}{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def _compiled(classpath: str, folder: Path) -> None:
    (folder / "Start.java").write_text(_SOURCE)
    compiler = [java("OpenSearch", "javac"), "-cp", classpath, "-d", str(folder), str(folder / "Start.java")]
    done = subprocess.run(compiler, capture_output=True, text=True)
    if done.returncode:
        missing("OpenSearch", f"the class that starts it cannot be compiled: {done.stderr.strip()[-300:]}")


@pytest.fixture(scope="session")
def opensearch_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearchServer]:
    """One server for all tests; each uses indices of its own."""
    executable = java("OpenSearch")
    classpath = f"{jars('OpenSearch', f'opensearch-{VERSION}', *_MODULES)}/*"
    folder, port = tmp_path_factory.mktemp("opensearch"), free_port()
    _compiled(classpath, folder)
    (folder / "config").mkdir()
    settings = {
        "path.home": str(folder),
        "http.port": str(port),
        "transport.port": str(free_port()),
        "network.host": "127.0.0.1",
        "discovery.type": "single-node",
        "transport.type": "netty4",
        "http.type": "netty4",
        "node.name": "tests",
        "cluster.routing.allocation.disk.threshold_enabled": "false",
    }
    command = [executable, *_JVM, "-cp", f"{folder}:{classpath}", "Start"]
    command += [f"{name}={value}" for name, value in settings.items()]
    health = "/_cluster/health?wait_for_status=yellow"
    with running(
        "opensearch", command, folder, lambda: bool(_ask(f"http://127.0.0.1:{port}", "GET", health))
    ) as server:
        yield OpenSearchServer(server, port)
