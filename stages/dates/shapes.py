"""Sorts a catalog's columns: calendars, filled daily tables, recorded events and plain facts."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from stages.common.sql import quote
from stages.dates.database import Catalog, Column, Profile, Table, instant

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
_NOT_RECORDED = re.compile(r"until|expir|due|_end$|valid_to|next|plan|target", re.IGNORECASE)


@dataclass(frozen=True)
class Shapes:
    """The columns of one database, each in the one role that it plays as evidence."""

    calendars: tuple[Profile, ...]
    """One row a day, no gap, nothing but the day and its parts."""
    months: tuple[Profile, ...]
    """One row a month (or a month for each entity), no gap."""
    month_tables: tuple[Profile, ...]
    """Month-wise columns of other tables."""
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
    profiles = [profile for profile in catalog.profiles if profile not in omitted]
    calendars = [profile for profile in profiles if _is_calendar(profile)]
    of_calendars = {profile.table for profile in calendars}
    rest = [profile for profile in profiles if profile.table not in of_calendars]
    months = [profile for profile in rest if _is_month_spine(profile)]
    of_months = {profile.table for profile in months}
    rest = [profile for profile in rest if profile.table not in of_months]
    filled = [profile for profile in rest if profile.dense_days and _is_idle(connection, profile)]
    facts = [profile for profile in rest if profile not in filled]
    month_tables = [profile for profile in facts if profile.dense_months]
    return Shapes(
        calendars=tuple(calendars),
        months=tuple(months),
        month_tables=tuple(month_tables),
        filled=tuple(filled),
        recorded=tuple(profile for profile in facts if is_recorded(profile.column)),
        facts=tuple(profile for profile in facts if profile not in month_tables),
    )


def is_recorded(column: Column) -> bool:
    """True where the name says that the value is the time of something already done."""
    return bool(_RECORDED.search(column.name)) and not _NOT_RECORDED.search(column.name)


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


def _is_month_spine(profile: Profile) -> bool:
    if not profile.dense_months:
        return False
    if _SPINE_NAME.search(profile.table.name):
        return True
    others = [column for column in profile.table.columns if column != profile.column]
    return profile.unique and all(_DATE_PART.search(column.name) for column in others)


def _is_idle(connection: duckdb.DuckDBPyConnection, profile: Profile) -> bool:
    """Tell whether a daily table was filled up beyond its facts.

    A column that is zero or NULL somewhere is a measure, and its last day is the last on
    which it is neither. A column that never is must look on the last day as it does over
    all (an entity's attribute), else it is a fact that reaches the end.
    """
    columns = [
        column
        for column in profile.table.columns
        if column.is_number and not _KEY.search(column.name)
    ]
    if not columns:
        return False
    values = ", ".join(f"{quote(column.name)} AS v{i}" for i, column in enumerate(columns))
    at_end = f"d = DATE '{profile.last}'"
    parts = ", ".join(
        f"max(d) FILTER (v{i} <> 0), count(*) FILTER (v{i} IS NULL OR v{i} = 0), "
        f"coalesce(min(v{i}) = min(v{i}) FILTER ({at_end}) "
        f"AND max(v{i}) = max(v{i}) FILTER ({at_end}), false)"
        for i in range(len(columns))
    )
    row = connection.execute(
        f"SELECT {parts} FROM (SELECT {instant(profile.column)}::DATE AS d, {values} "
        f"FROM {profile.table.sql})"
    ).fetchone()
    assert row is not None
    measures = 0
    for i in range(len(columns)):
        active, empty, attribute = row[3 * i : 3 * i + 3]
        if empty:
            measures += 1
            if active is not None and (profile.last - active).days < IDLE_DAYS:
                return False
        elif not attribute:
            return False
    return measures > 0
