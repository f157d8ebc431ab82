"""Modules that PyFlink has and Firesteel does not have yet: importing one says what there is instead.

When one arrives, its entry here goes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["CONNECTORS", "FORMATS", "MissingModuleError", "missing_name", "refuse_imports"]

_IN_PYTHON = "sources and sinks can be written in Python: see docs/sources_and_sinks.md"


def _connector(system: str) -> str:
    return f"there is no connector for {system} yet; {_IN_PYTHON}"


#: Modules of ``datastream.connectors``, and the names that older programs import from the package itself.
CONNECTORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "kafka": (
        _connector("Kafka"),
        ("FlinkKafkaConsumer", "FlinkKafkaProducer", "KafkaOffsetsInitializer", "KafkaSink", "KafkaSource"),
    ),
    "dynamic_kafka": (_connector("Kafka"), ("DynamicKafkaSource",)),
    "jdbc": (
        _connector("databases"),
        ("JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"),
    ),
    "elasticsearch": (_connector("Elasticsearch"), ("Elasticsearch7SinkBuilder", "ElasticsearchSink")),
    "kinesis": (_connector("Kinesis"), ("FlinkKinesisConsumer", "KinesisStreamsSink")),
    "pulsar": (_connector("Pulsar"), ("PulsarSink", "PulsarSource")),
    "rabbitmq": (_connector("RabbitMQ"), ("RMQConnectionConfig", "RMQSink", "RMQSource")),
    "cassandra": (_connector("Cassandra"), ("CassandraSink",)),
    "hybrid_source": (
        "a source that goes on with another source does not exist yet; union() joins streams of several sources",
        ("HybridSource",),
    ),
}

_LINES = "read lines with StreamFormat.text_line_format() and write them with Encoder.simple_string_encoder()"

#: Modules of ``datastream.formats``.
FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "json": (f"there are no schemas for JSON yet; {_LINES}, and call json.loads and json.dumps in a map", ()),
    "csv": (f"there is no format for CSV yet; {_LINES}, and use Python's csv module in a map", ()),
    "avro": ("there is no format for Avro yet; Parquet and ORC files can be written", ()),
}


class MissingModuleError(ModuleNotFoundError):
    """A module that is not there, with the ``reason`` in words."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"no module named {name!r}: {reason}", name=name)
        self.reason = reason


class _RefusingFinder:
    """Comes last: it is asked only for modules that nobody else has found."""

    def __init__(self, package: str, missing: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
        self._package = package
        self._missing = missing

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Nothing, or the sentence."""
        package, _, name = fullname.rpartition(".")
        if package == self._package and name in self._missing:
            raise MissingModuleError(fullname, self._missing[name][0])
        return None


def refuse_imports(package: str, missing: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
    """Let imports of ``missing`` modules of a package fail with their sentences."""
    sys.meta_path.append(_RefusingFinder(package, missing))


def missing_name(package: str, missing: Mapping[str, tuple[str, tuple[str, ...]]]) -> Callable[[str], Any]:
    """A ``__getattr__`` for the package, which refuses the names of ``missing`` modules in the same way."""
    homes = {name: home for home, (_, names) in missing.items() for name in names}

    def refuse(name: str) -> Any:
        if name in homes:
            raise MissingModuleError(f"{package}.{homes[name]}", missing[homes[name]][0])
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return refuse
