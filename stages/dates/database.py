"""Opens a gold database read-only and reads its base tables' shape by aggregates only."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from stages.common.sql import quote

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"})
_NUMBERS = _INTEGERS | {f"U{name}" for name in _INTEGERS} | {"FLOAT", "DOUBLE", "DECIMAL"}
_EARLIEST, _LATEST = "TIMESTAMP '1900-01-01'", "TIMESTAMP '2199-12-31 23:59:59.999999'"
"""Days outside are placeholders (0001-01-01, 9999-12-31, infinity) and count as NULL."""


@dataclass(frozen=True)
class Column:
    """A stored column; generated ones are left out, since they are computed when read."""

    name: str
    type: str

    @property
    def is_time(self) -> bool:
        """True for DATE and every kind of TIMESTAMP."""
        return self.type == "DATE" or self.type.startswith("TIMESTAMP")

    @property
    def is_number(self) -> bool:
        """True for integers, decimals and floats."""
        return self.type.split("(")[0] in _NUMBERS


@dataclass(frozen=True)
class Table:
    """A base table: never a view."""

    schema: str
    name: str
    columns: tuple[Column, ...]

    @property
    def label(self) -> str:
        """How evidence names it: the schema is told where it is not `main`."""
        return self.name if self.schema == "main" else f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        """The quoted, qualified name."""
        return quote(self.schema, self.name)


@dataclass(frozen=True)
class Profile:
    """What one date or timestamp column holds (in UTC)."""

    table: Table
    column: Column
    table_rows: int
    values: int
    """Rows with a plausible value."""
    lowest: str
    highest: str
    first: datetime.date
    last: datetime.date
    midnight: bool
    """True where every value is a whole day."""
    month_edge: bool
    """True where all values are first days, or all are last days, of a month."""
    days: int
    """Distinct days; counted only where the column may be a daily or monthly calendar."""

    @property
    def constant(self) -> bool:
        """True where every row carries one and the same instant."""
        return self.lowest == self.highest and self.values == self.table_rows

    @property
    def dense_days(self) -> bool:
        """True for at least four weeks of days without a gap."""
        span = (self.last - self.first).days + 1
        return self.midnight and span >= 28 and self.days == span

    @property
    def dense_months(self) -> bool:
        """True for at least six months without a gap, each as its first or its last day."""
        months = _months(self.first, self.last)
        return self.midnight and self.month_edge and months >= 6 and self.days == months

    @property
    def unique(self) -> bool:
        """True where the table has one row a day (or month) and no other."""
        return self.values == self.days == self.table_rows


@dataclass(frozen=True)
class Catalog:
    """The base tables, and a profile of each of their date and timestamp columns."""

    tables: tuple[Table, ...]
    profiles: tuple[Profile, ...]


@contextmanager
def open_gold(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database read-only, with UTC as its time zone; raises `duckdb.Error`."""
    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def read_catalog(connection: duckdb.DuckDBPyConnection) -> Catalog:
    """List the base tables of every schema and profile their date and timestamp columns."""
    rows = connection.execute(
        "SELECT c.table_schema, c.table_name, c.column_name, c.data_type "
        "FROM information_schema.columns c JOIN duckdb_tables() t "
        "ON t.database_name = c.table_catalog AND t.schema_name = c.table_schema "
        "AND t.table_name = c.table_name "
        "WHERE NOT t.internal AND NOT t.temporary AND t.database_name = current_database() "
        "AND c.is_generated = 'NEVER' "
        "ORDER BY c.table_schema, c.table_name, c.ordinal_position"
    ).fetchall()
    grouped: dict[tuple[str, str], list[Column]] = {}
    for schema, table, column, kind in rows:
        grouped.setdefault((schema, table), []).append(Column(column, kind))
    tables = tuple(Table(schema, name, tuple(cols)) for (schema, name), cols in grouped.items())
    return Catalog(tables, tuple(item for table in tables for item in _profiles(connection, table)))


def instant(column: Column) -> str:
    """SQL for a column's value as a TIMESTAMP in UTC; NULL where it is a placeholder."""
    value = f"TRY_CAST({quote(column.name)} AS TIMESTAMP)"
    return f"CASE WHEN {value} BETWEEN {_EARLIEST} AND {_LATEST} THEN {value} END"


def _profiles(connection: duckdb.DuckDBPyConnection, table: Table) -> Iterator[Profile]:
    columns = [column for column in table.columns if column.is_time]
    if not columns:
        return
    inner = ", ".join(f"{instant(column)} AS x{i}" for i, column in enumerate(columns))
    outer = ", ".join(
        f"count(x{i}), min(x{i})::VARCHAR, max(x{i})::VARCHAR, "
        f"bool_and(x{i} = date_trunc('day', x{i})), "
        f"bool_and(day(x{i}) = 1) OR bool_and(last_day(x{i}) = x{i}::DATE)"
        for i in range(len(columns))
    )
    row = connection.execute(
        f"SELECT count(*), {outer} FROM (SELECT {inner} FROM {table.sql})"
    ).fetchone()
    assert row is not None
    for i, column in enumerate(columns):
        values, lowest, highest, midnight, month_edge = row[1 + 5 * i : 6 + 5 * i]
        if not values:
            continue
        first = datetime.date.fromisoformat(lowest[:10])
        last = datetime.date.fromisoformat(highest[:10])
        span = (last - first).days + 1
        days = 0
        if midnight and (span <= values or (month_edge and _months(first, last) <= values)):
            counted = connection.execute(
                f"SELECT count(DISTINCT {instant(column)}) FROM {table.sql}"
            ).fetchone()
            assert counted is not None
            days = counted[0]
        yield Profile(
            table=table,
            column=column,
            table_rows=row[0],
            values=values,
            lowest=lowest,
            highest=highest,
            first=first,
            last=last,
            midnight=midnight,
            month_edge=month_edge,
            days=days,
        )


def _months(first: datetime.date, last: datetime.date) -> int:
    return (last.year - first.year) * 12 + last.month - first.month + 1
