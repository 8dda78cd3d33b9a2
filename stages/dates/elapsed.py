"""The finder for elapsed time: ages, days since, tenures, and intervals that are still open."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from stages.common.sql import quote
from stages.dates.database import Column, Profile, Table, instant
from stages.dates.gathered import Gathered, evidence_of
from stages.dates.models import Evidence, Rule
from stages.dates.shapes import DAY, LAYER, ends_with, month_edge, month_end

STARTS = 3
"""A coincidence of fewer different start dates proves nothing."""

LONGEST = 40_000
"""Days; a larger number counts something else."""

HEAD = 64
"""Rows looked at before a table is scanned."""

_ELAPSED = re.compile(
    r"(^|_)(since|elapsed|age|aged|ago|tenure|active|open|old)(_|$)", re.IGNORECASE
)
_AHEAD = re.compile(r"(^|_)(until|till|to|remaining|left|before|ahead)(_|$)", re.IGNORECASE)
"""Time up to something that lies ahead: it gives one day in every row as well, another one."""
_COUNTS = re.compile(
    r"(^|_)(id|key|sk|pk|fk|code|index|idx|rank|rn|row|rownum|no|number|num|position|seq|order)$",
    re.IGNORECASE,
)
"""A number that runs against the date in a sorted table gives one day in every row, too."""
_UNITS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("week", (7.0,)),
    ("month", (30.0, 30.4375, 365 / 12)),
    ("day", (1.0,)),
)
"""Units by a word in the column's name, and their usual lengths in days."""


@dataclass(frozen=True)
class Sum:
    """A start date and an elapsed number of the same table, which add up to one day."""

    start: Profile
    number: Column
    low: datetime.date
    high: datetime.date
    """The same day as `low`, or the end of its month where whole months elapsed."""
    starts: int
    """Different start dates among the rows."""
    of: str
    """Which rows: empty for all."""


def elapsed_time(gathered: Gathered) -> list[Evidence]:
    """Date plus elapsed time that gives one day, or month, in every row of a built table.

    Conclusive, but where the time may have been counted up to the data's end or to the end of
    a month instead of the clock: then the build was on that day or later.
    """
    found = []
    for table in gathered.catalog.tables:
        starts = [item for item in gathered.catalog.profiles if item.table == table]
        for item in _sums(gathered, table, starts):
            if item.starts >= STARTS and _is_built(gathered, item):
                found.append(_judge(gathered, item))
    return found


def _sums(gathered: Gathered, table: Table, starts: list[Profile]) -> Iterator[Sum]:
    numbers = [
        column
        for column in table.columns
        if column.is_number and not _AHEAD.search(column.name) and not _COUNTS.search(column.name)
    ]
    if not starts or not numbers:
        return
    head = _head(gathered, table, starts, numbers)
    for number in numbers:
        for start in starts:
            if _may_add_up(head, start, number, starts):
                yield from _whole_days(gathered, start, number, starts)
            yield from _named_unit(gathered, start, number)


def _head(
    gathered: Gathered, table: Table, starts: list[Profile], numbers: list[Column]
) -> list[dict[str, Any]]:
    """The first rows, by column name: most pairs are ruled out without a scan."""
    names = [item.column.name for item in starts] + [column.name for column in numbers]
    values = [f"{instant(item.column)}::DATE" for item in starts]
    values += [
        f"CASE WHEN abs({quote(column.name)}) <= {LONGEST} THEN {quote(column.name)}::DOUBLE END"
        for column in numbers
    ]
    rows = gathered.connection.execute(
        f"SELECT {', '.join(values)} FROM {table.sql} LIMIT {HEAD}"
    ).fetchall()
    return [dict(zip(names, row, strict=True)) for row in rows]


def _may_add_up(
    head: list[dict[str, Any]], start: Profile, number: Column, others: list[Profile]
) -> bool:
    """Whether the first rows allow that start and number give one day, in all or open rows."""
    rows = [row for row in head if row[start.column.name] and row[number.name] is not None]
    ends = [item.column.name for item in others if item != start]
    # A table shorter than the head is all there: it has to hold the proof already.
    needed = STARTS if len(head) < HEAD else 0
    return any(
        len({row[start.column.name] for row in chosen}) >= needed
        and len({row[start.column.name] + round(row[number.name]) * DAY for row in chosen}) <= 1
        for chosen in (rows, *([row for row in rows if row[end] is None] for end in ends))
    )


def _whole_days(
    gathered: Gathered, start: Profile, number: Column, others: list[Profile]
) -> Iterator[Sum]:
    """Start plus whole days: one day in all rows, or in all whose end is still open.

    In the second case the other rows must add up to their own end, every one of them.
    """
    ends = [item for item in others if item != start and item.values < item.table_rows]
    parts = ["bool_and(n = round(n))", "min(e)", "max(e)", "count(DISTINCT d)"]
    for i in range(len(ends)):
        parts += [
            f"bool_and(e = x{i}) FILTER (x{i} IS NOT NULL)",
            f"min(e) FILTER (x{i} IS NULL)",
            f"max(e) FILTER (x{i} IS NULL)",
            f"count(DISTINCT d) FILTER (x{i} IS NULL)",
        ]
    columns = "".join(f", {instant(end.column)}::DATE AS x{i}" for i, end in enumerate(ends))
    row = gathered.connection.execute(
        f"SELECT {', '.join(parts)} FROM (SELECT *, d + round(n)::INTEGER AS e FROM ("
        f"SELECT {instant(start.column)}::DATE AS d, "
        f"CASE WHEN abs({quote(number.name)}) <= {LONGEST} THEN {quote(number.name)}::DOUBLE END "
        f"AS n{columns} FROM {start.table.sql})) WHERE e IS NOT NULL"
    ).fetchone()
    assert row is not None
    whole, low, high, different = row[:4]
    if not whole:
        return
    if low == high:
        yield Sum(start, number, low, low, different, "")
        return
    for i, end in enumerate(ends):
        closed, low, high, different = row[4 + 4 * i : 8 + 4 * i]
        if closed and low is not None and low == high:
            yield Sum(start, number, low, low, different, f" where {end.column.name} is open")


def _named_unit(gathered: Gathered, start: Profile, number: Column) -> Iterator[Sum]:
    """Start plus weeks or months, whole or fractional, where the column's name says so."""
    unit, lengths = _unit(number)
    if unit == "day":
        return
    row = gathered.connection.execute(
        "SELECT count(DISTINCT d), bool_and(n = round(n)), "
        "min(date_trunc('month', d) + to_months(round(n)::INTEGER))::DATE, "
        "max(date_trunc('month', d) + to_months(round(n)::INTEGER))::DATE"
        + "".join(
            f", min(d + round(n * {length})::INTEGER), max(d + round(n * {length})::INTEGER), "
            f"max(abs(n * {length} - round(n * {length})))"
            for length in lengths
        )
        + f" FROM (SELECT {instant(start.column)}::DATE AS d, "
        f"CASE WHEN {quote(number.name)} BETWEEN 0 AND {LONGEST} "
        f"THEN {quote(number.name)}::DOUBLE END AS n FROM {start.table.sql}) "
        f"WHERE d IS NOT NULL AND n IS NOT NULL"
    ).fetchone()
    assert row is not None
    starts, whole, month, last_month = row[:4]
    if unit == "month" and whole:
        if month == last_month:
            yield Sum(start, number, month, month_end(month), starts, "")
        return
    for i in range(len(lengths)):
        low, high, rest = row[4 + 3 * i : 7 + 3 * i]
        if low is not None and low == high and rest < 0.001:
            yield Sum(start, number, low, low, starts, "")
            return


def _unit(column: Column) -> tuple[str, tuple[float, ...]]:
    if _ELAPSED.search(column.name):
        for name, lengths in _UNITS:
            if re.search(rf"(^|_){name}s?(_|$)", column.name, re.IGNORECASE):
                return name, lengths
    return "day", (1.0,)


def _is_built(gathered: Gathered, item: Sum) -> bool:
    """Tell a table that was built here from a raw one, whose ages were counted elsewhere.

    By its name, or because it is a gapless daily table, or because another table without that
    number holds all of its start dates: what it was built from.
    """
    table, start = item.start.table, item.start
    if LAYER.match(table.name) or "__" in table.name or start.dense_days:
        return True
    for other in gathered.catalog.profiles:
        named = {column.name.lower() for column in other.table.columns}
        if (
            other.table != table
            and item.number.name.lower() not in named
            and other.first <= start.first
            and start.last <= other.last
            and _holds(gathered, other, start)
        ):
            return True
    return False


def _holds(gathered: Gathered, other: Profile, start: Profile) -> bool:
    row = gathered.connection.execute(
        f"SELECT count(*) FROM (SELECT DISTINCT {instant(start.column)}::DATE AS d "
        f"FROM {start.table.sql}) WHERE d IS NOT NULL AND d NOT IN (SELECT x FROM (SELECT "
        f"{instant(other.column)}::DATE AS x FROM {other.table.sql}) WHERE x IS NOT NULL)"
    ).fetchone()
    assert row is not None
    return bool(row[0] == 0)


def _judge(gathered: Gathered, item: Sum) -> Evidence:
    whole_month = item.high > item.low
    after = item.low if whole_month else item.low - DAY
    edge = not whole_month and month_edge(item.low)
    open_ended = edge or ends_with(gathered.shapes, item.high, after) is not None
    return evidence_of(
        replace(item.start, column=item.number),
        f"{item.start.column.name} + {item.number.name}{item.of}, {item.starts} different days",
        Rule.ELAPSED_TIME,
        item.low,
        None if open_ended else item.high,
        item.low + (item.high - item.low) // 2,
    )
