"""Parameters of SQL are found where they are, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common.errors import ProgramError
from firesteel.connectors.jdbc.statement import Statement, upsert_statement


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT ?", "SELECT %s"),
        ("SELECT '?', ?", "SELECT '?', %s"),
        ("SELECT 'it''s ?', ?", "SELECT 'it''s ?', %s"),
        (r"SELECT E'\'?', ?", r"SELECT E'\'?', %s"),
        ('SELECT "a?b", ?', 'SELECT "a?b", %s'),
        ("SELECT ? -- really?\n, ?", "SELECT %s -- really?\n, %s"),
        ("SELECT /* ? /* ? */ ? */ ?", "SELECT /* ? /* ? */ ? */ %s"),
        ("SELECT $$ ? $$, $x$ ? $$ ? $x$, ?", "SELECT $$ ? $$, $x$ ? $$ ? $x$, %s"),
        ("SELECT a ?? 'key', ?", "SELECT a ? 'key', %s"),
        ("SELECT ?::int, a LIKE '5%'", "SELECT %s::int, a LIKE '5%%'"),
        ("SELECT :a, :b::text, ':c'", "SELECT %s, %s::text, ':c'"),
        ("SELECT now()::date", "SELECT now()::date"),
        ("SELECT ?, a[1:n]", "SELECT %s, a[1:n]"),
        ("SELECT 7 % 2", "SELECT 7 %% 2"),
    ],
)
def test_marks_are_translated_for_psycopg(sql: str, expected: str) -> None:
    assert Statement.parse(sql).for_psycopg() == expected


def test_names_say_which_field_each_parameter_is() -> None:
    statement = Statement.parse("INSERT INTO t VALUES (:b, :a, :b)")
    assert statement.names == ("b", "a", "b")
    assert statement.numbered() == "INSERT INTO t VALUES ($1, $2, $3)"


def test_an_empty_statement_is_refused() -> None:
    with pytest.raises(ProgramError, match="not empty"):
        Statement.parse("  ")


PIECES = ["SELECT ", "'a?'", '"?"', "-- ?\n", "/*?*/", "??", "$$?$$", "::int ", " x ", "'it''s'"]


@given(st.lists(st.sampled_from([*PIECES, "?"])))
def test_every_mark_between_pieces_is_a_parameter(pieces: list[str]) -> None:
    text = "a " + " ".join(pieces)
    assert Statement.parse(text).count == pieces.count("?")


def test_an_upsert_of_keys_only_does_nothing_when_they_are_there() -> None:
    assert upsert_statement("a.t", ["k"], ["k"]).endswith('ON CONFLICT ("k") DO NOTHING')
    with pytest.raises(ProgramError, match="keys that are among them"):
        upsert_statement("t", ["a"], ["b"])
