"""Compares graded gold tables with what the start database holds already."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import duckdb

from stages.common.sql import quote
from stages.suite.tables import Relation, opened, relations, resolve


class Overlap(StrEnum):
    """What a start database holds of a graded table."""

    ABSENT = "absent"
    EQUAL = "equal"
    OTHER = "other"
    """The table is there with other rows, columns or types."""
    UNTOLD = "untold"
    """A view on either side: its content depends on the clock, so it is not looked at."""


def overlaps(
    gold: Path, start: Path, graded: dict[str, tuple[Relation, tuple[str, ...]]]
) -> dict[str, Overlap]:
    """For each graded name, what the start database holds of it.

    `graded` maps the name to gold's relation and its graded columns (none for all). Equal
    means the same rows in any order: as many rows, and none of gold's left after EXCEPT ALL,
    both counted inside DuckDB. Columns are found by name. Raises `duckdb.Error` where either
    file does not read.
    """
    with opened(start) as connection:
        held = relations(connection)
    with duckdb.connect() as connection:
        for path, alias in ((gold, "gold"), (start, "start")):
            place = str(path).replace("'", "''")
            connection.execute(f"ATTACH '{place}' AS {quote(alias)} (READ_ONLY)")
        return {
            name: _overlap(connection, relation, resolve(name, held), names)
            for name, (relation, names) in graded.items()
        }


def _overlap(
    connection: duckdb.DuckDBPyConnection,
    gold: Relation,
    start: Relation | None,
    names: tuple[str, ...],
) -> Overlap:
    if start is None:
        return Overlap.ABSENT
    if gold.is_view or start.is_view:
        return Overlap.UNTOLD
    left, right = f'"gold".{gold.quoted}', f'"start".{start.quoted}'
    if not _same_columns(_types(connection, left), _types(connection, right), names):
        return Overlap.OTHER
    if _count(connection, left) != _count(connection, right):
        return Overlap.OTHER
    listed = ", ".join(quote(name) for name in names or _types(connection, left))
    try:
        # With as many rows on both sides, one direction says it all.
        rest = f"SELECT {listed} FROM {left} EXCEPT ALL SELECT {listed} FROM {right}"
        return Overlap.OTHER if _count(connection, f"({rest})") else Overlap.EQUAL
    except (duckdb.BinderException, duckdb.ConversionException):
        return Overlap.OTHER


def _same_columns(left: dict[str, str], right: dict[str, str], names: tuple[str, ...]) -> bool:
    """True where the start table has each column, and as text where gold has it as text."""
    other = {name.lower(): kind for name, kind in right.items()}
    for name in names or left:
        kind = other.get(name.lower())
        if kind is None or (kind == "VARCHAR") != (left[name] == "VARCHAR"):
            return False
    return True


def _types(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    rows = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
    return {row[0]: row[1] for row in rows}


def _count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0
