"""How to reach a database and how to write to it, by the names that PyFlink has for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from firesteel.common.errors import InvalidArgumentError, ProgramError

__all__ = ["JdbcConnectionOptions", "JdbcExactlyOnceOptions", "JdbcExecutionOptions"]


@dataclass(frozen=True)
class JdbcConnectionOptions:
    """Where a database is and who asks. Made by ``JdbcConnectionOptions.JdbcConnectionOptionsBuilder``.

    >>> options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/tmp/a.db").build()
    >>> options.get_db_url()
    'jdbc:sqlite:/tmp/a.db'
    """

    url: str
    driver_name: str | None = None
    user_name: str | None = None
    password: str | None = field(default=None, repr=False)
    connect_timeout_seconds: float = 30.0

    def get_db_url(self) -> str:
        """The URL as it was given."""
        return self.url

    def get_driver_name(self) -> str | None:
        """The name of a Java class, which is not needed here."""
        return self.driver_name

    def get_user_name(self) -> str | None:
        """Who connects; None: whom the URL names."""
        return self.user_name

    def get_password(self) -> str | None:
        """How he proves it."""
        return self.password

    class JdbcConnectionOptionsBuilder:
        """Collects the options; ``with_url`` is the only one that is needed."""

        def __init__(self) -> None:
            self._options: dict[str, Any] = {}

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """``jdbc:postgresql://host:port/database``, ``jdbc:sqlite:/path``; also without ``jdbc:``."""
            self._options["url"] = url
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """The name of a Java class: kept, and not needed."""
            self._options["driver_name"] = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Who connects."""
            self._options["user_name"] = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """The password. It travels to the tasks with the program, and is never part of a message."""
            self._options["password"] = password
            return self

        def with_connection_check_timeout_seconds(
            self, seconds: float
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """How long connecting may take; 30 seconds unless told."""
            self._options["connect_timeout_seconds"] = float(seconds)
            return self

        def build(self) -> JdbcConnectionOptions:
            """The options; refused without a URL."""
            if "url" not in self._options:
                raise ProgramError(
                    "the options of a database need its URL: call with_url(), for example with "
                    "'jdbc:postgresql://localhost:5432/shop' or 'jdbc:sqlite:/data/shop.db'"
                )
            return JdbcConnectionOptions(**self._options)


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """When rows are written and how often that is tried. Made by ``JdbcExecutionOptions.builder()``."""

    batch_interval_ms: int = 0
    batch_size: int = 5000
    max_retries: int = 3

    def __post_init__(self) -> None:
        _at_least("batch_interval_ms", self.batch_interval_ms, 0)
        _at_least("batch_size", self.batch_size, 1)
        _at_least("max_retries", self.max_retries, 0)

    def get_batch_interval_ms(self) -> int:
        """How long a row may wait for others; 0: until the batch is full or a checkpoint comes."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """How many rows are written together."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """How often writing is tried again."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Batches of 5000 rows, no interval, three retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Collects other values."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Collects what differs from the defaults."""

        def __init__(self) -> None:
            self._options: dict[str, int] = {}

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """How many rows are written together."""
            self._options["batch_size"] = size
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """How long a row may wait for others."""
            self._options["batch_interval_ms"] = interval_ms
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """How often writing is tried again, after a lost connection or a deadlock."""
            self._options["max_retries"] = max_retries
            return self

        def build(self) -> JdbcExecutionOptions:
            """The options: what was set, and defaults for the rest."""
            return JdbcExecutionOptions(**self._options)


@dataclass(frozen=True)
class JdbcExactlyOnceOptions:
    """Where an exactly-once sink notes what it has written: a table in the same database, made when it is missing."""

    commit_table: str = "firesteel_commits"

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """The table ``firesteel_commits``, where names without a schema are looked for."""
        return JdbcExactlyOnceOptions()

    @staticmethod
    def builder() -> JdbcExactlyOnceOptions.Builder:
        """Collects other values."""
        return JdbcExactlyOnceOptions.Builder()

    class Builder:
        """Collects what differs from the defaults."""

        def __init__(self) -> None:
            self._table = "firesteel_commits"

        def with_commit_table(self, name: str) -> JdbcExactlyOnceOptions.Builder:
            """The table's name, with a schema if it has one: ``audit.commits``."""
            self._table = name
            return self

        def build(self) -> JdbcExactlyOnceOptions:
            """The options, with the table ``firesteel_commits`` unless another one was set."""
            return JdbcExactlyOnceOptions(self._table)


def _at_least(name: str, value: int, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise InvalidArgumentError(f"{name} must be a whole number of at least {least}, got {value!r}")
