"""Modules that PyFlink has and Firesteel does not have yet: importing one says what there is instead.

When one arrives, its entry here goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from firesteel.common.errors import MissingModuleError

__all__ = ["MODULES", "MissingModule", "missing_name", "refuse"]

_IN_PYTHON = "sources and sinks can be written in Python: see docs/sources_and_sinks.md"
_CONNECTORS = "firesteel.datastream.connectors"
_TABLE = "firesteel.table"


class MissingModule(NamedTuple):
    """Why it is not there, with what there is instead, and the names that programs import from the package above it."""

    reason: str
    names: tuple[str, ...] = ()


def _table(*names: str) -> MissingModule:
    return MissingModule(
        "the Table API and SQL are not part of Firesteel yet, only their types (firesteel.table.DataTypes); use the DataStream "
        "API (firesteel.datastream)",
        names,
    )


def _connector(system: str, *names: str) -> MissingModule:
    return MissingModule(f"there is no connector for {system} yet; {_IN_PYTHON}", names)


def _client(system: str, instead: str, *names: str) -> MissingModule:
    return MissingModule(
        f"there is no connector for {system} yet; {instead}its Python client and about a hundred lines make one: see "
        "docs/write_a_connector.md",
        names,
    )


MODULES: dict[str, MissingModule] = {
    f"{_TABLE}.table_environment": _table("StreamTableEnvironment", "TableEnvironment"),
    f"{_TABLE}.environment_settings": _table("EnvironmentSettings"),
    f"{_TABLE}.table": _table("GroupWindowedTable", "GroupedTable", "OverWindowedTable", "Table", "WindowGroupedTable"),
    f"{_TABLE}.table_config": _table("TableConfig"),
    f"{_TABLE}.table_descriptor": _table("FormatDescriptor", "TableDescriptor"),
    f"{_TABLE}.table_result": _table("TableResult"),
    f"{_TABLE}.table_schema": _table("TableSchema"),
    f"{_TABLE}.schema": _table("Schema"),
    f"{_TABLE}.statement_set": _table("StatementSet"),
    f"{_TABLE}.expression": _table("Expression"),
    f"{_TABLE}.expressions": _table(),
    f"{_TABLE}.udf": _table(
        "AggregateFunction", "AsyncScalarFunction", "FunctionContext", "ScalarFunction", "TableAggregateFunction",
        "TableFunction",
    ),
    f"{_TABLE}.data_view": _table("DataView", "ListView", "MapView"),
    f"{_TABLE}.module": _table("Module", "ModuleEntry"),
    f"{_TABLE}.window": _table(),
    f"{_TABLE}.catalog": _table(),
    "firesteel.cep": MissingModule(
        "patterns (CEP) are not part of Firesteel yet; a KeyedProcessFunction with state and timers can look for them: see "
        "docs/state.md"
    ),
    "firesteel.java_gateway": MissingModule("Firesteel has no Flink JVM to talk to"),
    "firesteel.fn_execution": MissingModule("these are PyFlink's internals, and Firesteel has its own"),
    "firesteel.shell": MissingModule("there is no shell of its own; programs run in Python's and in notebooks"),
    f"{_CONNECTORS}.dynamic_kafka": _connector(
        "Kafka", "DynamicKafkaSource", "DynamicKafkaSourceBuilder", "KafkaMetadataService",
        "KafkaRecordDeserializationSchema", "KafkaStreamSetSubscriber", "KafkaStreamSubscriber",
        "SingleClusterTopicMetadataService", "StreamPatternSubscriber",
    ),
    f"{_CONNECTORS}.elasticsearch": _client(
        "Elasticsearch",
        "HttpSink of firesteel.datastream.connectors.http can write to its bulk interface (docs/connectors.md), or ",
        "Elasticsearch7SinkBuilder", "ElasticsearchSink",
    ),
    f"{_CONNECTORS}.kinesis": _client("Kinesis", "", "FlinkKinesisConsumer", "KinesisStreamsSink"),
    f"{_CONNECTORS}.pulsar": _client(
        "Pulsar", "", "PulsarSink", "PulsarSource", "PulsarSourceBuilder", "StartCursor", "StopCursor"
    ),
}  # fmt: skip


def refuse(name: str) -> None:
    """Raise if a module is known to be missing."""
    if name in MODULES:
        raise MissingModuleError(name, MODULES[name].reason)


def missing_name(package: str, homes: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package, which refuses the names of missing modules below ``homes`` in the same way."""
    home_of = {
        name: home
        for home, missing in MODULES.items()
        if home.startswith(f"{homes}.")
        for name in missing.names
    }

    def missed(name: str) -> Any:
        if name in home_of:
            refuse(home_of[name])
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return missed
