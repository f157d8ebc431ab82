"""A YARN cluster on loopback: Hadoop's own mini cluster, with two node managers and files of this machine instead of HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firesteel_support.servers import running
from firesteel_support.servers.maven import jars, java

__all__ = ["NODES", "VERSION", "yarn_cluster"]

#: The version of the client that is among PySpark's jars.
VERSION = "3.5.0"
NODES = 2

_JVM = [
    "-Xmx768m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
]
_SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.scheduler.minimum-allocation-mb": "256",
    # What the processes of a container may have is not what is tested here.
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    # A disk of a machine that does other things, too, may be nearly full.
    "yarn.nodemanager.disk-health-checker.enable": "false",
}


@contextmanager
def yarn_cluster(directory: Path, java_home: Path) -> Iterator[Path]:
    """Start it; gives the directory of its settings, for ``HADOOP_CONF_DIR``. Containers use the Java at ``java_home``."""
    modules = (f"org.apache.hadoop:hadoop-client-minicluster:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
    place = jars("YARN", f"hadoop-minicluster-{VERSION}", *modules)
    settings = directory / "conf"
    settings.mkdir(parents=True)
    written = directory / "details.json"
    command = [
        *(java("YARN"), *_JVM, "-cp", f"{place}/*", "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"),
        *("-nodfs", "-nodemanagers", str(NODES)),
        *("-writeConfig", str(settings / "yarn-site.xml"), "-writeDetails", str(written)),
        *(word for key, value in _SETTINGS.items() for word in ("-D", f"{key}={value}")),
    ]
    (settings / "core-site.xml").write_text("<configuration></configuration>\n")
    with running("yarn", command, directory, written.exists, {"JAVA_HOME": str(java_home)}):
        yield settings
