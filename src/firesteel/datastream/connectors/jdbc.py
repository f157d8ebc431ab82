"""SQL databases: PostgreSQL and SQLite, by the names that PyFlink has for its JDBC connector, and more."""

from firesteel.connectors.jdbc.lookup import JdbcLookupFunction
from firesteel.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from firesteel.connectors.jdbc.parameters import (
    JdbcGenericParameterValuesProvider,
    JdbcNumericBetweenParametersProvider,
    JdbcParameterValuesProvider,
)
from firesteel.connectors.jdbc.sink import JdbcSink
from firesteel.connectors.jdbc.source import JdbcSource, JdbcSourceBuilder

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcGenericParameterValuesProvider",
    "JdbcLookupFunction",
    "JdbcNumericBetweenParametersProvider",
    "JdbcParameterValuesProvider",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
]
