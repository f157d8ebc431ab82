"""SQL with parameters, written once for every driver: ``?`` as in JDBC, or names (``:price``).

A question mark in a text, in a quoted name or in a comment is no parameter, and ``??`` is a question mark (PostgreSQL has
operators with one). A name is taken for a parameter only in a statement without ``?``; ``::`` is a cast.

>>> Statement.parse("INSERT INTO t VALUES (?, '?', ?::int) -- why?").count
2
>>> named = Statement.parse("UPDATE t SET a = :a WHERE b = :b AND c = :a")
>>> named.names, named.with_marks("?")
(('a', 'b', 'a'), 'UPDATE t SET a = ? WHERE b = ? AND c = ?')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from firesteel.common.errors import ProgramError

__all__ = ["Statement", "quoted", "upsert_statement"]

#: What ends a piece of plain SQL; the order matters where two begin alike.
_TOKEN = re.compile(
    r"""
      (?P<text> [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' )
    | (?P<name> "(?:[^"]|"")*" | `[^`]*` )
    | (?P<dollar> (?<![\w$]) \$(?P<tag>(?:[A-Za-z_]\w*)?)\$ .*? \$(?P=tag)\$ )
    | (?P<line> --[^\n]* )
    | (?P<block> /\* )
    | (?P<double> \?\? )
    | (?P<mark> \? )
    | (?P<cast> :: | := )
    | (?P<named> (?<!\w):[A-Za-z_]\w* )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Statement:
    """SQL cut at its parameters. ``names`` says which field each one is, None when they are counted."""

    pieces: tuple[str, ...]
    names: tuple[str, ...] | None

    @property
    def count(self) -> int:
        """How many parameters there are."""
        return len(self.pieces) - 1

    def with_marks(self, mark: str) -> str:
        """The SQL with a driver's mark for every parameter."""
        return mark.join(self.pieces)

    def for_psycopg(self) -> str:
        """The SQL as psycopg wants it: ``%s``, and every other ``%`` doubled."""
        return "%s".join(piece.replace("%", "%%") for piece in self.pieces)

    def numbered(self) -> str:
        """The SQL with ``$1``, ``$2`` ..., as PostgreSQL's server sees it."""
        text = self.pieces[0]
        for number, piece in enumerate(self.pieces[1:], 1):
            text += f"${number}{piece}"
        return text

    @staticmethod
    def parse(sql: str) -> Statement:
        """Find the parameters: ``?``, or ``:name`` where there is no ``?``; not in texts and comments."""
        if not isinstance(sql, str) or not sql.strip():
            raise ProgramError(f"an SQL statement is a text that is not empty, got {sql!r}")
        tokens = list(_tokens(sql))
        counted = any(kind == "mark" for kind, _ in tokens)
        pieces, names, plain = [], [], ""
        for kind, text in tokens:
            if kind == "mark" or (kind == "named" and not counted):
                pieces.append(plain)
                names.append(text[1:])
                plain = ""
            else:
                plain += "?" if kind == "double" else text
        return Statement((*pieces, plain), None if counted or not names else tuple(names))


def _tokens(sql: str) -> Iterator[tuple[str, str]]:
    position = 0
    while match := _TOKEN.search(sql, position):
        yield "plain", sql[position : match.start()]
        kind, end = match.lastgroup or "plain", match.end()
        if match["dollar"] is not None:
            kind = "dollar"
        elif kind == "block":
            end = _end_of_comment(sql, end)
        yield kind, sql[match.start() : end]
        position = end
    yield "plain", sql[position:]


def _end_of_comment(sql: str, position: int) -> int:
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(sql, position)
        if edge is None:
            return len(sql)
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return position


def quoted(name: str) -> str:
    """A name as SQL has it; a point separates schema and table.

    >>> quoted("shop.Order")
    '"shop"."Order"'
    """
    return ".".join(_column(part) for part in name.split("."))


def _column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def upsert_statement(table: str, columns: list[str], keys: list[str]) -> str:
    """INSERT that replaces the row with the same keys; for PostgreSQL and SQLite.

    >>> print(upsert_statement("prices", ["item", "price"], ["item"]))
    INSERT INTO "prices" ("item", "price") VALUES (?, ?) ON CONFLICT ("item") DO UPDATE SET "price" = EXCLUDED."price"
    """
    strange = [key for key in keys if key not in columns]
    if not columns or not keys or strange:
        raise ProgramError(
            f"an upsert needs columns and keys that are among them, got columns {columns} and keys {keys}"
        )
    rest = [column for column in columns if column not in keys]
    names = ", ".join(_column(column) for column in columns)
    sets = ", ".join(f"{_column(column)} = EXCLUDED.{_column(column)}" for column in rest)
    action = f"DO UPDATE SET {sets}" if rest else "DO NOTHING"
    marks = ", ".join("?" for _ in columns)
    conflict = ", ".join(_column(key) for key in keys)
    return f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks}) ON CONFLICT ({conflict}) {action}"
