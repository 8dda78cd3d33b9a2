"""Sorts a catalog's columns: calendars, filled daily tables, recorded events and plain facts."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from stages.common.sql import quote
from stages.dates.database import Column, Table, instant
from stages.dates.profile import Catalog, Profile

DAY = datetime.timedelta(days=1)
IDLE_DAYS = 28
"""A daily table counts as filled when its measures stop at least this long before it ends."""

LAYER = re.compile(r"^(stg|staging|int|dim|fct|fact|mart|rpt|obt)_+(?P<source>.+)$", re.IGNORECASE)
"""A table that dbt built, by a layer's prefix, and the table that it was built from."""

_SPINE_NAME = re.compile(r"(^|_)(spine|calendar)(_|$)", re.IGNORECASE)
_DATE_TABLE = re.compile(
    r"(^|_)(spine|calendar|dim_(date|day|time|calendar)s?|(date|day|time)s?_dim(ension)?)(_|$)"
    r"|^(all_)?(dates?|days)$",
    re.IGNORECASE,
)
_DATE_PART = re.compile(
    r"year|quarter|month|week|day|date|holiday|season|fiscal|period", re.IGNORECASE
)
_KEY = re.compile(r"(^|_)(id|key|sk|pk|fk|code|index)$", re.IGNORECASE)
_RECORDED = re.compile(
    r"(^|_)(created|creation|updated|modified|inserted|insertion|ingested|ingestion|synced"
    r"|loaded|extracted|recorded)(_|$)|^_airbyte_|^_sdc_|^_dlt_",
    re.IGNORECASE,
)
_LOADED = re.compile(
    r"(^|_)(synced|loaded|ingested|ingestion|inserted|insertion|extracted)(_|$)"
    r"|^_airbyte_|^_sdc_|^_dlt_",
    re.IGNORECASE,
)
"""Written by a loader: nobody ends a calendar with it."""
_NOT_RECORDED = re.compile(r"until|expir|due|_end$|valid_to|next|plan|target", re.IGNORECASE)


@dataclass(frozen=True)
class Shapes:
    """The columns of one database, each in the one role that it plays as evidence."""

    calendars: tuple[Profile, ...]
    """One row a day, no gap, nothing but the day and its parts."""
    weeks: tuple[Profile, ...]
    """One row a week (or a week for each entity), no gap."""
    months: tuple[Profile, ...]
    """One row a month (or a month for each entity), no gap."""
    period_tables: tuple[Profile, ...]
    """Week-wise and month-wise columns of other tables."""
    filled: tuple[Profile, ...]
    """Daily tables that go on for at least `IDLE_DAYS` after their last fact."""
    recorded: tuple[Profile, ...]
    """Columns whose name says that they record a past event."""
    facts: tuple[Profile, ...]
    """Every other column, and the recorded ones: what a calendar may end with."""


def read_shapes(
    connection: duckdb.DuckDBPyConnection, catalog: Catalog, *, leave_out: Iterable[Profile] = ()
) -> Shapes:
    """Sort the profiles; `leave_out` are columns already understood otherwise (stamps)."""
    omitted = set(leave_out)
    rest = [profile for profile in catalog.profiles if profile not in omitted]
    calendars, rest = _split(rest, [profile for profile in rest if _is_calendar(profile)])
    weeks, rest = _split(rest, [p for p in rest if p.dense_weeks and _is_spine(p)])
    months, rest = _split(rest, [p for p in rest if p.dense_months and _is_spine(p)])
    filled = [profile for profile in rest if profile.dense_days and _is_idle(connection, profile)]
    facts = [profile for profile in rest if profile not in filled]
    period_tables = {profile for profile in facts if profile.dense_weeks or profile.dense_months}
    return Shapes(
        calendars=tuple(calendars),
        weeks=tuple(weeks),
        months=tuple(months),
        period_tables=tuple(profile for profile in facts if profile in period_tables),
        filled=tuple(filled),
        recorded=tuple(profile for profile in facts if is_recorded(profile.column)),
        facts=tuple(profile for profile in facts if profile not in period_tables),
    )


def _split(profiles: list[Profile], chosen: list[Profile]) -> tuple[list[Profile], list[Profile]]:
    """The chosen columns, and those of all other tables."""
    tables = {profile.table for profile in chosen}
    return chosen, [profile for profile in profiles if profile.table not in tables]


def is_recorded(column: Column) -> bool:
    """True where the name says that the value is the time of something already done."""
    return bool(_RECORDED.search(column.name)) and not _NOT_RECORDED.search(column.name)


def is_loaded(column: Column) -> bool:
    """True where the name says that a loader wrote the value."""
    return bool(_LOADED.search(column.name))


def is_dimension(table: Table) -> bool:
    """True for a date dimension: a calendar with three or more parts of the date."""
    return len(table.columns) > 3


def year_edge(day: datetime.date) -> bool:
    """True next to New Year, where calendars of a fixed length end."""
    return (day.month, day.day) in ((12, 30), (12, 31), (1, 1))


def month_edge(day: datetime.date) -> bool:
    """True for the first or last day of a month."""
    return day.day == 1 or (day + DAY).day == 1


def add_months(day: datetime.date, months: int) -> datetime.date:
    """The same day `months` later, or that month's last day where it is shorter."""
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return datetime.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def round_spans(day: datetime.date) -> set[datetime.date]:
    """The days a round span after `day`: whole weeks, months, quarters or years."""
    spans = {day + DAY * days for days in (7, 14, 28, 30, 60, 90, 180, 365)}
    return spans | {add_months(day, months) for months in (1, 2, 3, 6, 12, 24)}


def odd_spans(day: datetime.date) -> set[datetime.date]:
    """Days that a calendar may run to as well, though seldom: they make a reading doubtful."""
    return {day + DAY * n for n in (10, 15, 21, 31, 45, 61, 91, 92, 100, 120, 181, 183, 366)}


def month_end(day: datetime.date) -> datetime.date:
    """The last day of the day's month."""
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def ends_with(
    shapes: Shapes, end: datetime.date, first: datetime.date, *, padded: bool = False
) -> Profile | None:
    """The facts that a span's end can be derived from, if there are any.

    They end within `first` to `end`, or in the month that `end` closes, or, where the span
    may be `padded`, a week, a month or a year before its end.
    """
    closes = (end + DAY).day == 1
    for fact in shapes.facts:
        last = fact.last
        if first <= last <= end or (closes and end.replace(day=1) <= last <= end):
            return fact
        ahead = {last + 7 * DAY, add_months(last, 1), add_months(last, 12)}
        if padded and ahead & {end, end + DAY}:
            return fact
    return None


def counted_to(shapes: Shapes, end: datetime.date, counted: Profile) -> Profile | None:
    """The facts that time may have been counted up to, if it gives `end` in every row.

    They end on that day, or in the month or year that ends on it or on the day before; or, in
    another time zone, less than a day before. In a month or year they may not be the `counted`
    starts themselves, which a later build continues, nor what a loader wrote.
    """
    closed = end if (end + DAY).day == 1 else end - DAY if end.day == 1 else None
    since = closed and closed.replace(day=1, month=1 if closed.month == 12 else closed.month)
    name = counted.column.name.lower()
    for fact in shapes.facts:
        last = fact.last
        if fact is counted:
            continue
        if last == end or (last == end - DAY and fact.column.type == "TIMESTAMP WITH TIME ZONE"):
            return fact
        doubtful = fact.column.name.lower() == name or is_loaded(fact.column)
        if closed and since and since <= last <= closed and not doubtful:
            return fact
    return None


def _is_calendar(profile: Profile) -> bool:
    if not profile.dense_days:
        return False
    others = [column for column in profile.table.columns if column != profile.column]
    if profile.unique:
        named = bool(_DATE_TABLE.search(profile.table.name))
        return named or all(_DATE_PART.search(column.name) for column in others)
    return bool(_SPINE_NAME.search(profile.table.name)) and not any(
        column.is_number and not _KEY.search(column.name) and not _DATE_PART.search(column.name)
        for column in others
    )


def _is_spine(profile: Profile) -> bool:
    if _SPINE_NAME.search(profile.table.name):
        return True
    others = [column for column in profile.table.columns if column != profile.column]
    return profile.unique and all(_DATE_PART.search(column.name) for column in others)


def _is_idle(connection: duckdb.DuckDBPyConnection, profile: Profile) -> bool:
    """Tell whether a daily table was filled up beyond its facts.

    A column that is zero or NULL throughout the last four weeks is a measure whose facts had
    ended. Any other must be an entity's attribute: never zero nor NULL, and on the last day
    of the same range as over all; else it is a fact that reaches the end.
    """
    columns = [
        column
        for column in profile.table.columns
        if column.is_number and not _KEY.search(column.name)
    ]
    if not columns:
        return False
    day = f"{instant(profile.column)}::DATE"
    tail = profile.last - IDLE_DAYS * DAY
    parts = ", ".join(f"bool_or({quote(column.name)} <> 0)" for column in columns)
    row = connection.execute(
        f"SELECT {parts} FROM {profile.table.sql} WHERE {day} > DATE '{tail}'"
    ).fetchone()
    assert row is not None
    alive = [column for column, value in zip(columns, row, strict=True) if value]
    if len(alive) == len(columns):
        return False
    if not alive:
        return True
    at_end = f"FILTER ({day} = DATE '{profile.last}')"
    parts = ", ".join(
        f"count(*) = count(nullif({v}, 0)) AND min({v}) = min({v}) {at_end} "
        f"AND max({v}) = max({v}) {at_end}"
        for v in (quote(column.name) for column in alive)
    )
    row = connection.execute(f"SELECT {parts} FROM {profile.table.sql}").fetchone()
    assert row is not None
    return all(row)
