"""A YARN of one node on loopback: Hadoop's own mini cluster, which a class of a few lines starts, with containers as processes.

It is the Hadoop that PySpark speaks to, and the default file system is that of the machine, so there is no HDFS to start.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from firesteel._java import find_java, quiet_home
from firesteel_support.servers import Server, missing, running
from firesteel_support.servers.maven import jars, java

__all__ = ["YarnCluster", "yarn_cluster"]

_SPARK_JARS = Path(pyspark.__file__).parent / "jars"

_JVM = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]

_SETTINGS = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    # Small applications may all have their masters at once.
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.minimum-allocation-mb": "128",
    # What there is room for is not what this machine has: nobody uses what he asks for here.
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "16384",
    "yarn.nodemanager.resource.cpu-vcores": "32",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    # A disk that is nearly full is no reason to refuse containers.
    "yarn.nodemanager.disk-health-checker.enable": "false",
}

_LOG = """log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""

_SOURCE = """
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

public class Start {
    public static void main(String[] arguments) throws Exception {
        try {
            start(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);  // some of its threads would stay
        }
        new CountDownLatch(1).await();
    }

    private static void start(String[] arguments) throws Exception {
        YarnConfiguration settings = new YarnConfiguration();
        for (int n = 1; n < arguments.length; n++) {
            String[] pair = arguments[n].split("=", 2);
            settings.set(pair[0], pair[1]);
        }
        MiniYARNCluster cluster = new MiniYARNCluster("tests", 1, 1, 1);
        cluster.init(settings);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(60_000)) {
            throw new IllegalStateException("the node has not registered");
        }
        Configuration site = new Configuration(false);  // for clients: where it is, and nothing else
        for (String name : new String[] {"address", "scheduler.address", "webapp.address"}) {
            String key = "yarn.resourcemanager." + name;
            site.set(key, cluster.getConfig().get(key));
        }
        Path written = Path.of(arguments[0], "yarn-site.part");
        try (OutputStream out = new FileOutputStream(written.toFile())) {
            site.writeXml(out);
        }
        Files.move(written, Path.of(arguments[0], "yarn-site.xml"));
    }
}
"""


class YarnCluster:
    """``configuration``: the directory that HADOOP_CONF_DIR has to name."""

    def __init__(self, server: Server, configuration: Path) -> None:
        self.server = server
        self.configuration = configuration

    def container_logs(self) -> str:
        """What all containers have written: for the message of a test that fails."""
        files = [
            path
            for name in ("stdout", "stderr")
            for path in self.server.directory.rglob(f"container_*/{name}")
        ]
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(files))


def _hadoop_version() -> str:
    found = sorted(_SPARK_JARS.glob("hadoop-client-api-*.jar"))
    if not found:
        missing("YARN", "this PySpark comes without Hadoop")
    return found[0].stem.removeprefix("hadoop-client-api-")


def _class_path() -> str:
    version = _hadoop_version()
    place = jars(
        "YARN",
        f"hadoop-minicluster-{version}",
        f"org.apache.hadoop:hadoop-client-minicluster:{version}",
        # What its classes need, and it does not bring.
        "org.junit.jupiter:junit-jupiter-api:5.13.3",
        "org.bouncycastle:bcpkix-jdk18on:1.82",
        "org.slf4j:slf4j-reload4j:1.7.36",
    )
    return f"{place}/*"


@pytest.fixture(scope="session")
def yarn_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    """One cluster for all tests."""
    folder = tmp_path_factory.mktemp("yarn")
    class_path = _class_path()
    (folder / "Start.java").write_text(_SOURCE)
    (folder / "log4j.properties").write_text(_LOG)
    compiler = [java("YARN", "javac"), "-cp", class_path, "-d", str(folder), str(folder / "Start.java")]
    done = subprocess.run(compiler, capture_output=True, text=True)
    if done.returncode:
        missing("YARN", f"the class that starts it cannot be compiled: {done.stderr.strip()[-300:]}")
    configuration = folder / "configuration"
    configuration.mkdir()
    command = [java("YARN"), *_JVM, f"-Dlog4j.configuration=file:{folder}/log4j.properties"]
    command += ["-cp", f"{folder}:{class_path}", "Start", str(configuration)]
    command += [f"{name}={value}" for name, value in _SETTINGS.items()]
    # Containers start Java from there.
    environment = {"JAVA_HOME": str(quiet_home(find_java()))}
    is_there = (configuration / "yarn-site.xml").exists
    with running("yarn", command, folder, is_there, environment) as server:
        yield YarnCluster(server, configuration)
