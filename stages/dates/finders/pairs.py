"""Which numbers may be the time since which dates: told from a table's first rows.

Most pairs of a date and a number are ruled out here, without a scan of their table.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stages.common.sql import quote
from stages.dates.database import Column, Table
from stages.dates.finders.gathered import Gathered
from stages.dates.profile import STARTS, Profile, numbers_of, read_rows

LONGEST = 40_000
"""Days; a larger number counts something else."""

ELAPSED = re.compile(
    r"(^|_)(since|elapsed|age|aged|ago|tenure|active|open|old)(_|$)", re.IGNORECASE
)


@dataclass(frozen=True)
class Unit:
    """A unit of time, known by a word in a column's name."""

    name: str
    words: re.Pattern[str]
    lengths: tuple[float, ...]
    """Days: what is usually divided by."""
    calendar: bool
    """True where it is also counted by the calendar, in steps of its own."""


def _unit(name: str, words: str, lengths: tuple[float, ...], *, calendar: bool = False) -> Unit:
    return Unit(name, re.compile(rf"(^|_)({words})(_|$)", re.IGNORECASE), lengths, calendar)


DAY_UNIT = _unit("day", "days?", (1.0,))
LONG_UNITS = (
    _unit("year", "years?|yrs?|age", (365.0, 365.25, 365.2425), calendar=True),
    _unit("month", "months?|mths?", (30.0, 30.4375, 365 / 12, 30.436875), calendar=True),
    _unit("week", "weeks?|wks?", (7.0,), calendar=True),
)
SHORT_UNITS = (
    _unit("hour", "hours?|hrs?", (1 / 24,)),
    _unit("minute", "minutes?|mins?", (1 / 1440,)),
    _unit("second", "seconds?|secs?", (1 / 86400,)),
)


Rows = list[tuple[float, float, int]]
"""A date in days, a number, and the row's place."""


@dataclass(frozen=True)
class Pair:
    """A date and a number of one table that may add up to one day."""

    start: Profile
    number: Column
    others: tuple[Profile, ...]
    """The table's other dates."""
    unit: Unit
    named: bool
    """True where the number's name tells the unit."""


def pairs(gathered: Gathered) -> Iterator[Pair]:
    """Every pair, and unit, that the first rows allow."""
    for table, times in gathered.catalog.by_table.items():
        starts = [item for item in times if item.lowest != item.highest]
        if not starts or times[0].table_rows < STARTS:
            continue
        numbers = numbers_of(table)
        if numbers:
            yield from _of_table(gathered, table, times, starts, numbers)


def amount(column: Column) -> str:
    """SQL for a number as DOUBLE, an INTERVAL in days."""
    if column.is_interval:
        return f"epoch({quote(column.name)}) / 86400.0"
    return f"{quote(column.name)}::DOUBLE"


def _of_table(
    gathered: Gathered,
    table: Table,
    times: list[Profile],
    starts: list[Profile],
    numbers: list[Column],
) -> Iterator[Pair]:
    head = gathered.catalog.rows.get(table)
    whole = head is not None
    if head is None:
        columns = [item.column for item in times] + numbers
        head = read_rows(gathered.connection, table, columns, sample=True)
    if not head:
        return
    days = {item: [_days(value) for value in head[item.column]] for item in times}
    starts = [item for item in starts if not whole or _different(days[item])]
    for number in numbers if starts else ():
        units = _units(number)
        held = head[number]
        # Different starts with one sum have different numbers.
        if (whole or not units) and len(set(held) - {None}) < STARTS:
            continue
        values = [_number(value) for value in held]
        for start in starts:
            rows = [
                (day, value, i)
                for i, (day, value) in enumerate(zip(days[start], values, strict=True))
                if day is not None and value is not None
            ]
            ends = [days[item] for item in times if item is not start]
            for unit in _allowed(rows, ends, units, whole=whole):
                others = tuple(item for item in times if item is not start)
                yield Pair(start, number, others, unit, unit in units)


def _allowed(
    rows: Rows, ends: list[list[float | None]], units: tuple[Unit, ...], *, whole: bool
) -> Iterator[Unit]:
    """The units in which the rows may add up to one day."""
    different = len({number for _, number, _ in rows if number > 0}) >= STARTS and _different(
        [day for day, _, _ in rows]
    )
    near = [
        unit
        for unit in ((DAY_UNIT, *units) if units else (DAY_UNIT, *LONG_UNITS))
        if (different or not (whole or unit not in units))
        and _near(rows, unit, named=unit in units)
    ]
    needed = STARTS if whole or DAY_UNIT not in units else 0
    if DAY_UNIT not in near and _adds_up(rows, ends, needed, whole=whole):
        yield DAY_UNIT
    yield from dict.fromkeys(near)


def _different(days: list[float | None]) -> bool:
    return len({int(day) for day in days if day is not None}) >= STARTS


def _units(number: Column) -> tuple[Unit, ...]:
    found = tuple(
        unit for unit in (*LONG_UNITS, *SHORT_UNITS, DAY_UNIT) if unit.words.search(number.name)
    )
    return found or ((DAY_UNIT,) if number.is_interval else ())


def _adds_up(rows: Rows, ends: list[list[float | None]], needed: int, *, whole: bool) -> bool:
    """Whether date and number give one day in all rows, or in all whose end is open.

    In the second case the others give their own end.
    """
    if _one_sum(rows, needed):
        return True
    for end in ends:
        still_open = [row for row in rows if end[row[2]] is None]
        if (
            (still_open or not needed)
            and len(still_open) < len(rows)
            and _one_sum(still_open, needed if whole else 0)
            and all(
                int(day) + round(number) == int(end[i] or 0)
                for day, number, i in rows
                if end[i] is not None
            )
        ):
            return True
    return False


def _one_sum(rows: Rows, needed: int) -> bool:
    total: int | None = None
    for day, number, _ in rows:
        here = int(day) + round(number)
        if total is None:
            total = here
        elif here != total:
            return False
    return needed == 0 or len({int(row[0]) for row in rows}) >= needed


def _near(rows: Rows, unit: Unit, *, named: bool) -> bool:
    """Whether the sums meet, or, where the name tells the unit, lie within one unit.

    Months and years of different lengths are given some slack.
    """
    for length in unit.lengths:
        limit = (length if named else 0.0) + (4.0 if unit.calendar else 0.001)
        low, high = math.inf, -math.inf
        for day, number, _ in rows:
            total = day + number * length
            low, high = min(low, total), max(high, total)
            if high - low > limit:
                break
        else:
            return True
    return False


_EPOCH = datetime.datetime(1970, 1, 1)
_ONE_DAY = datetime.timedelta(days=1)


def _days(value: datetime.datetime | None) -> float | None:
    return None if value is None else (value - _EPOCH) / _ONE_DAY


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, str):
        return None
    number = value / _ONE_DAY if isinstance(value, datetime.timedelta) else float(value)
    return number if abs(number) <= LONGEST * 86400 else None
