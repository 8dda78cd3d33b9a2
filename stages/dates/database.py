"""Opens a gold database read-only and lists its base tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import duckdb

from stages.common.sql import quote

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"})
_NUMBERS = _INTEGERS | {f"U{name}" for name in _INTEGERS} | {"FLOAT", "DOUBLE", "DECIMAL"}
_EARLIEST, _LATEST = "TIMESTAMP '1900-01-01'", "TIMESTAMP '2199-12-31 23:59:59.999999'"
"""Days outside are placeholders (0001-01-01, 9999-12-31, infinity) and count as NULL."""


@dataclass(eq=False, slots=True)
class Column:
    """A stored column; generated ones are left out, since they are computed when read."""

    name: str
    type: str

    is_time: bool
    """True for DATE and every kind of TIMESTAMP."""
    is_number: bool
    """True for integers, decimals and floats."""
    is_interval: bool
    """True for a length of time."""


@dataclass(frozen=True, eq=False)
class Table:
    """A base table: never a view."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    about: int
    """Its rows, as the database's own statistics tell: near enough to choose how to read it."""

    @property
    def label(self) -> str:
        """How evidence names it: the schema is told where it is not `main`."""
        return self.name if self.schema == "main" else f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        """The quoted, qualified name."""
        return quote(self.schema, self.name)

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns' names, in small letters."""
        return frozenset(column.name.lower() for column in self.columns)


@contextmanager
def open_gold(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database read-only, with UTC as its time zone; raises `duckdb.Error`."""
    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        yield connection


def list_tables(connection: duckdb.DuckDBPyConnection) -> tuple[Table, ...]:
    """The base tables of every schema, by name, with their stored columns in order."""
    columns: dict[int, list[Column]] = {}
    for table, name, kind in connection.execute(
        "SELECT table_oid, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
        "AND NOT is_generated AND database_name = current_database() ORDER BY column_index"
    ).fetchall():
        columns.setdefault(table, []).append(Column(name, kind, *_kind(kind)))
    tables = connection.execute(
        "SELECT schema_name, table_name, table_oid, estimated_size FROM duckdb_tables() "
        "WHERE NOT internal AND NOT temporary AND database_name = current_database() "
        "ORDER BY schema_name, table_name"
    ).fetchall()
    return tuple(
        Table(schema, name, tuple(columns.get(number, ())), about)
        for schema, name, number, about in tables
    )


@cache
def _kind(name: str) -> tuple[bool, bool, bool]:
    """Of a type: whether it is a time, a number, or a length of time."""
    return (
        name == "DATE" or name.startswith("TIMESTAMP"),
        name.partition("(")[0] in _NUMBERS,
        name == "INTERVAL",
    )


def instant(column: Column) -> str:
    """SQL for a column's value as a TIMESTAMP in UTC; NULL where it is a placeholder."""
    value = f"TRY_CAST({quote(column.name)} AS TIMESTAMP)"
    return f"CASE WHEN {value} BETWEEN {_EARLIEST} AND {_LATEST} THEN {value} END"
