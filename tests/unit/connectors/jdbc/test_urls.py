"""URLs of databases: JDBC's and the drivers' own forms."""

from __future__ import annotations

import pytest

from firesteel.common.errors import ProgramError
from firesteel.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from firesteel.connectors.jdbc.sqlite import SqliteDatabase
from firesteel.connectors.jdbc.urls import database_of, postgres_parameters


@pytest.mark.parametrize("url", ["jdbc:sqlite:/data/a.db", "sqlite:///data/a.db", "sqlite:/data/a.db"])
def test_sqlite_is_a_path(url: str) -> None:
    assert database_of(JdbcConnectionOptions(url)) == SqliteDatabase("/data/a.db")


@pytest.mark.parametrize("url", ["jdbc:sqlite:", "jdbc:sqlite::memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ProgramError, match="can share only a file"):
        database_of(JdbcConnectionOptions(url))


def test_parts_of_a_url_become_parameters() -> None:
    url = "jdbc:postgresql://u%40x:p%2Fw@db1:5433,[::1]:5434/shop?sslmode=require&currentSchema=s"
    found = postgres_parameters(JdbcConnectionOptions(url))
    assert found["host"] == "db1,::1"
    assert found["port"] == "5433,5434"
    assert (found["user"], found["password"]) == ("u@x", "p/w")
    assert (found["dbname"], found["sslmode"], found["options"]) == ("shop", "require", "-c search_path=s")


def test_user_and_password_of_the_options_win() -> None:
    options = JdbcConnectionOptions("postgresql://a:b@h/d", user_name="c", password="secret")
    assert postgres_parameters(options)["user"] == "c"
    assert postgres_parameters(options)["port"] == "5432"
    assert "secret" not in repr(options)
    assert "secret" not in repr(database_of(options))
    assert database_of(options).name == "PostgreSQL c@h:5432/d"


def test_other_databases_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(ProgramError, match="'mysql' cannot be reached yet; there are 'jdbc:postgresql"):
        database_of(JdbcConnectionOptions("jdbc:mysql://h/d"))
    with pytest.raises(ProgramError, match="is no URL of a database"):
        database_of(JdbcConnectionOptions("nonsense"))


def test_options_have_the_defaults_of_flink_and_are_checked() -> None:
    options = JdbcExecutionOptions.builder().with_batch_size(7).build()
    assert (options.get_batch_size(), options.get_batch_interval_ms(), options.get_max_retries()) == (7, 0, 3)
    assert JdbcExecutionOptions.defaults().get_batch_size() == 5000
    with pytest.raises(ProgramError, match="batch_size must be a whole number of at least 1, got 0"):
        JdbcExecutionOptions.builder().with_batch_size(0).build()
    with pytest.raises(ProgramError, match="need its URL"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build()
