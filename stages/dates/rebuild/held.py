"""What the databases of a task hold that a rebuild compares with, or takes from gold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from stages.common.sql import quote, quote_text
from stages.dates.rebuild.shipped import CLOCK
from stages.suite.storage import OLDEST


def base_tables(gold: Path) -> list[tuple[str, str]]:
    """Schema and name of every base table: a view of gold shows today, not what was built."""
    with duckdb.connect(str(gold), read_only=True) as connection:
        rows = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() "
            "WHERE NOT internal AND NOT temporary AND database_name = current_database() "
            "ORDER BY ALL"
        ).fetchall()
    return [(schema, table) for schema, table in rows]


def has_clock_view(start: Path) -> bool:
    """Whether a view of the start database reads the clock; raises `duckdb.Error`."""
    with duckdb.connect(str(start), read_only=True) as connection:
        rows = connection.execute("SELECT sql FROM duckdb_views() WHERE NOT internal").fetchall()
    return any(CLOCK.search(str(sql)) for (sql,) in rows)


def place_of(
    tables: Sequence[tuple[str, str]], schema: str | None, name: str
) -> tuple[str, str] | None:
    """Where gold holds a table: in that schema, else in `main`, else in the only other one."""
    alike = [place for place in tables if place[1].lower() == name.lower()]
    for wanted in (schema, "main"):
        for place in alike:
            if wanted is not None and place[0].lower() == wanted.lower():
                return place
    return alike[0] if len(alike) == 1 else None


def copy_stubs(
    connection: duckdb.DuckDBPyConnection,
    names: Iterable[str],
    tables: Sequence[tuple[str, str]],
    place: Path,
) -> None:
    """Copy gold's tables to a file that every stack's DuckDB opens; gold may be of a newer one."""
    connection.execute(f"ATTACH {quote_text(str(place))} AS stubs (STORAGE_VERSION '{OLDEST}')")
    for name in sorted({name.lower() for name in names}):
        source = quote("gold", *(place_of(tables, None, name) or ("main", name)))
        connection.execute(f"CREATE TABLE {quote('stubs', name)} AS SELECT * FROM {source}")
    connection.execute("DETACH stubs")
