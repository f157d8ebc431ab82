"""Which packages and modules are for users: read from the architecture page, which has the only list."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PYFLINK", "SOURCE", "is_public", "public_packages"]

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"
_ROW = re.compile(r"^\| `(firesteel[\w.]*)` \|(.*)\|(.*)\|$", re.MULTILINE)

_PYFLINK = {
    "firesteel.common": """
        completable_future config_options configuration constants execution_config execution_mode
        input_dependency_constraint io job_client job_execution_result job_id job_status restart_strategy serialization
        serializer time typeinfo types watermark_strategy""",
    "firesteel.datastream": """
        async_data_stream async_retry_predicates async_retry_strategies checkpoint_config checkpoint_storage
        checkpointing_mode data_stream execution_mode externalized_checkpoint_retention functions output_tag
        slot_sharing_group state state_backend stream_execution_environment time_characteristic time_domain timerservice
        utils window""",
    "firesteel.datastream.connectors": """
        base cassandra dynamic_kafka elasticsearch file_system hybrid_source jdbc kafka kinesis number_seq pulsar
        rabbitmq""",
    "firesteel.datastream.formats": "avro csv json orc parquet",
    "firesteel.metrics": "metricbase",
    "firesteel.table": """
        catalog changelog_mode compiled_plan data_view descriptors environment_settings explain_detail expression
        expressions functions module result_kind schema sql_dialect statement_set table table_config table_descriptor
        table_environment table_result table_schema types udf window""",
}
#: The modules that PyFlink has, also those of Flink 1.x; not all of them are there yet.
PYFLINK = {package: set(names.split()) for package, names in _PYFLINK.items()}


def public_packages() -> dict[str, set[str]]:
    """Every public package with its modules that PyFlink does not have, as the page lists them."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return {package: set(re.findall(r"`(\w+)`", modules)) for package, _, modules in _ROW.findall(page)}


def is_public(module: str) -> bool:
    """Whether users may import this package or module."""
    packages = public_packages()
    package, _, name = module.rpartition(".")
    return module in {"firesteel", *packages} or name in packages.get(package, set()) | PYFLINK.get(
        package, set()
    )
