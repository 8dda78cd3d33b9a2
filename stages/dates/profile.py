"""Reads what each date and timestamp column holds: small tables whole, others by aggregates."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb

from stages.common.sql import quote
from stages.dates.database import Column, Table, instant, list_tables

SMALL = 2048
"""Values (rows by columns wanted) up to which a table is read whole, in one go."""

SAMPLE = 64
"""Rows of a longer table that are looked at, at even distances, before it is scanned."""

STARTS = 3
"""A table with fewer rows cannot show that a number counts the time since a date."""

_AHEAD = re.compile(
    r"(^|_)(until|till|to|remaining|left|before|ahead|term|terms|contract)(_|$)", re.IGNORECASE
)
"""Time up to something that lies ahead: it gives one day in every row as well, another one."""
_COUNTS = re.compile(
    r"(^|_)(id|key|sk|pk|fk|code|index|idx|rank|rn|row|rownum|no|number|num|position|seq)$"
    r"|^((sort|row|line|item|display)_?)?order$",
    re.IGNORECASE,
)
"""A number that runs against the date in a sorted table gives one day in every row, too."""

_MIDNIGHT = datetime.time()
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, eq=False)
class Profile:
    """What one date or timestamp column holds (in UTC)."""

    table: Table
    column: Column
    table_rows: int
    values: int
    """Rows with a plausible value."""
    lowest: datetime.datetime
    highest: datetime.datetime
    steps: Steps
    """How its values follow one another; looked at only where it may be a calendar."""

    @property
    def first(self) -> datetime.date:
        """The earliest day."""
        return self.lowest.date()

    @property
    def last(self) -> datetime.date:
        """The latest day."""
        return self.highest.date()

    @property
    def constant(self) -> bool:
        """True where every row carries one and the same instant."""
        return self.lowest == self.highest and self.values == self.table_rows

    @property
    def dense_days(self) -> bool:
        """True for at least four weeks of days without a gap."""
        span = (self.last - self.first).days + 1
        return self.steps.midnight and span >= 28 and self.steps.days == span

    @property
    def dense_weeks(self) -> bool:
        """True for at least eight weeks without a gap, each by the same day of the week."""
        weeks = (self.last - self.first).days // 7 + 1
        return self.steps.midnight and self.steps.weekly and 8 <= weeks == self.steps.days

    @property
    def dense_months(self) -> bool:
        """True for at least six months without a gap, each by the same day, or its last."""
        months = months_between(self.first, self.last)
        return self.steps.midnight and self.steps.monthly and 6 <= months == self.steps.days

    @property
    def unique(self) -> bool:
        """True where the table has one row a day (week, month) and no other."""
        return self.values == self.steps.days == self.table_rows


@dataclass(frozen=True)
class Steps:
    """How a column's values follow one another."""

    midnight: bool = False
    """Every value is a whole day."""
    days: int = 0
    """Different days."""
    weekly: bool = False
    """All are one day of the week."""
    monthly: bool = False
    """All are one day of the month, or all are last days of one."""


@dataclass(frozen=True, eq=False)
class Catalog:
    """The base tables, what their date and timestamp columns hold, and small ones whole."""

    tables: tuple[Table, ...]
    profiles: tuple[Profile, ...]
    by_table: dict[Table, list[Profile]]
    rows: dict[Table, dict[Column, list[Any]]]
    """The rows of small tables, by column: dates and timestamps as datetimes, and numbers."""


def read_catalog(connection: duckdb.DuckDBPyConnection, *, small: int = SMALL) -> Catalog:
    """Profile every base table; `small` is for tests that compare the two ways of reading."""
    catalog = Catalog(list_tables(connection), (), {}, {})
    for table in catalog.tables:
        times = [column for column in table.columns if column.is_time]
        if not times or not table.about:
            continue
        wanted = times + (numbers_of(table) if table.about >= STARTS else [])
        if table.about * len(wanted) <= small:
            catalog.rows[table] = read_rows(connection, table, wanted)
            found = _profiles_of(table, catalog.rows[table])
        else:
            found = _read_aggregates(connection, table, times)
        if found:
            catalog.by_table[table] = found
    profiles = tuple(item for found in catalog.by_table.values() for item in found)
    return Catalog(catalog.tables, profiles, catalog.by_table, catalog.rows)


def read_rows(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    columns: Sequence[Column],
    *,
    sample: bool = False,
) -> dict[Column, list[Any]]:
    """A table's rows, or a sample of them at even distances; by column.

    Implausible dates are None.
    """
    names = ", ".join(quote(column.name) for column in columns)
    query = f"SELECT {names} FROM {table.sql}"
    if sample and table.about > SAMPLE:
        query += f" WHERE rowid % {table.about // SAMPLE} = 0"
    rows = connection.execute(query).fetchall()
    return {
        column: [plain(value) for value in values] if column.is_time else list(values)
        for column, values in zip(columns, zip(*rows, strict=True), strict=False)
    }


def numbers_of(table: Table) -> list[Column]:
    """Columns that can hold the time since a date: no keys, ranks, or time up to something."""
    return [
        column
        for column in table.columns
        if (column.is_number or column.is_interval) and _is_amount(column.name)
    ]


@cache
def _is_amount(name: str) -> bool:
    return not _COUNTS.search(name) and not _AHEAD.search(name)


def plain(value: Any) -> datetime.datetime | None:
    """A date or timestamp as a datetime in UTC; None for NULL and placeholders."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    elif isinstance(value, datetime.date):
        value = datetime.datetime(value.year, value.month, value.day)
    else:  # None, or text for a year beyond Python's
        return None
    return value if 1900 <= value.year <= 2199 else None


def months_between(first: datetime.date, last: datetime.date) -> int:
    """Months from the first one to the last, both counted."""
    return (last.year - first.year) * 12 + last.month - first.month + 1


def _profiles_of(table: Table, rows: dict[Column, list[Any]]) -> list[Profile]:
    found = []
    for column, held in rows.items():
        values = [value for value in held if value is not None] if column.is_time else ()
        if values:
            low, high = min(values), max(values)
            found.append(
                Profile(table, column, len(held), len(values), low, high, _steps_of(values))
            )
    return found


def _steps_of(values: list[datetime.datetime]) -> Steps:
    if len(values) < 6 or any(value.time() != _MIDNIGHT for value in values):
        return Steps()
    days = set(values)
    return Steps(
        midnight=True,
        days=len(days),
        weekly=len({day.weekday() for day in days}) == 1,
        monthly=len({day.day for day in days}) == 1 or all((day + _DAY).day == 1 for day in days),
    )


def _read_aggregates(
    connection: duckdb.DuckDBPyConnection, table: Table, times: list[Column]
) -> list[Profile]:
    """Two scans at most, and of the second only what may be a calendar.

    The first asks for what the file's own statistics often hold; where they hold a
    placeholder, the column is read again without it.
    """
    parts = [f"count({q}), min({q}), max({q})" for q in (quote(item.name) for item in times)]
    row = _one(connection, f"SELECT count(*), {', '.join(parts)} FROM {table.sql}")
    found: dict[Column, tuple[int, datetime.datetime, datetime.datetime]] = {}
    clean = set(times)
    for i, column in enumerate(times):
        values, low, high = row[1 + 3 * i : 4 + 3 * i]
        if not values:
            continue
        low, high = plain(low), plain(high)
        if low is None or high is None:
            clean.discard(column)
            x = instant(column)
            values, low, high = _one(
                connection, f"SELECT count(x), min(x), max(x) FROM (SELECT {x} x FROM {table.sql})"
            )
        if values:
            found[column] = (values, low, high)
    steps = _read_steps(
        connection,
        table,
        {column: held for column, held in found.items() if _may_be_calendar(*held)},
        clean,
    )
    return [
        Profile(table, column, row[0], *held, steps.get(column, Steps()))
        for column, held in found.items()
    ]


def _may_be_calendar(values: int, low: datetime.datetime, high: datetime.datetime) -> bool:
    if low.time() != _MIDNIGHT or high.time() != _MIDNIGHT or values < 6:
        return False
    days = (high - low).days
    weekly = days % 7 == 0 and days // 7 < values
    monthly = _at_month_s_day(low, high) and months_between(low, high) <= values
    return days < values or weekly or monthly


def _read_steps(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    held: dict[Column, tuple[int, datetime.datetime, datetime.datetime]],
    clean: set[Column],
) -> dict[Column, Steps]:
    """How the values of these columns follow one another; `clean` hold no placeholder.

    Different days are counted as bits, one for each day from the first to the last: that
    needs no hash table, however many rows there are.
    """
    if not held:
        return {}
    inner, outer = [], []
    for i, (column, (_, low, high)) in enumerate(held.items()):
        whole = column.type == "DATE" and column in clean
        inner.append(f"{quote(column.name) if whole else instant(column)} AS x{i}")
        days = (high.date() - low.date()).days
        outer += [
            "true" if whole else f"bool_and(x{i} = date_trunc('day', x{i}))",
            f"bit_count(bitstring_agg((x{i}::DATE - DATE '{low.date()}')::INTEGER, 0, {days}))",
            f"min(dayofweek(x{i})) = max(dayofweek(x{i}))" if days % 7 == 0 else "false",
            f"min(day(x{i})) = max(day(x{i})) OR bool_and(last_day(x{i}) = x{i}::DATE)"
            if _at_month_s_day(low, high)
            else "false",
        ]
    row = _one(
        connection, f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM {table.sql})"
    )
    return {column: Steps(*row[4 * i : 4 * i + 4]) for i, column in enumerate(held)}


def _at_month_s_day(low: datetime.datetime, high: datetime.datetime) -> bool:
    """Whether both may be of one series of months: the same day, or a last one."""
    return low.day == high.day or (low + _DAY).day == (high + _DAY).day == 1


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row


def shown(value: datetime.datetime) -> str:
    """An instant as evidence tells it: without a fraction's trailing zeros."""
    text = value.isoformat(" ")
    return text.rstrip("0") if "." in text else text
