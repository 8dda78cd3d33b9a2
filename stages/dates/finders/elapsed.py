"""The finder for elapsed time: ages, days since, tenures, and intervals that are still open."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stages.dates.database import Column, instant
from stages.dates.finders.gathered import Gathered, evidence_of, is_built
from stages.dates.finders.pairs import DAY_UNIT, LONGEST, Pair, amount, pairs
from stages.dates.finders.units import read_units
from stages.dates.models import Evidence, Rule
from stages.dates.profile import STARTS, Profile
from stages.dates.shapes import counted_to


@dataclass(frozen=True)
class Sum:
    """A start date and an elapsed number of the same table, which add up to one day."""

    start: Profile
    number: Column
    low: datetime.date
    high: datetime.date
    """The same day as `low`, or later where the unit is longer than a day."""
    best: datetime.date
    starts: int
    """Different start dates among the rows."""
    of: str = ""
    """Which rows, and in which unit: empty for all, in days."""
    moment: datetime.datetime | None = None
    """The instant, where it is known to the second."""


def elapsed_time(gathered: Gathered) -> list[Evidence]:
    """Date plus elapsed time that gives one day, or period, in every row of a built table.

    Conclusive, but where the time may have been counted up to the data's end or to the end of
    a month instead of the clock: then the build was on that day or later.
    """
    found: dict[tuple[Profile, Column], list[Sum]] = {}
    for pair in pairs(gathered):
        key = (pair.start, pair.number)
        if pair.unit is DAY_UNIT:
            found.setdefault(key, []).extend(_whole_days(gathered, pair))
        if not found.get(key):
            found.setdefault(key, []).extend(_in_units(gathered, pair))
    return [
        _judge(gathered, item)
        for items in found.values()
        for item in items
        if item.starts >= STARTS and is_built(gathered, item.start, item.number.name)
    ]


def _in_units(gathered: Gathered, pair: Pair) -> Iterator[Sum]:
    latest = gathered.latest
    reading = read_units(gathered.connection, pair, latest.last if latest else None)
    if reading is not None:
        yield Sum(
            pair.start,
            pair.number,
            reading.low,
            reading.high,
            reading.best,
            reading.starts,
            f" {pair.unit.name}s",
            reading.moment,
        )


def _whole_days(gathered: Gathered, pair: Pair) -> Iterator[Sum]:
    """Start plus whole days: one day in all rows, or in all whose end is still open.

    In the second case the other rows must add up to their own end, every one of them.
    """
    start, number = pair.start, pair.number
    ends = [item for item in pair.others if item.values < item.table_rows]
    parts = ["bool_and(n = round(n))", "min(e)", "max(e)", "count(DISTINCT d)"]
    for i in range(len(ends)):
        parts += [
            f"bool_and(e = x{i}) FILTER (x{i} IS NOT NULL)",
            f"min(e) FILTER (x{i} IS NULL)",
            f"max(e) FILTER (x{i} IS NULL)",
            f"count(DISTINCT d) FILTER (x{i} IS NULL)",
        ]
    columns = "".join(f", {instant(end.column)}::DATE AS x{i}" for i, end in enumerate(ends))
    value = amount(number)
    row = gathered.connection.execute(
        f"SELECT {', '.join(parts)} FROM (SELECT *, d + round(n)::INTEGER AS e FROM ("
        f"SELECT {instant(start.column)}::DATE AS d, "
        f"CASE WHEN abs({value}) <= {LONGEST} THEN {value} END "
        f"AS n{columns} FROM {start.table.sql})) WHERE e IS NOT NULL"
    ).fetchone()
    assert row is not None
    whole, low, high, different = row[:4]
    if not whole:
        return
    if low == high:
        yield Sum(start, number, low, low, low, different)
        return
    for i, end in enumerate(ends):
        closed, low, high, different = row[4 + 4 * i : 8 + 4 * i]
        if closed and low is not None and low == high:
            of = f" where {end.column.name} is open"
            yield Sum(start, number, low, low, low, different, of)


def _judge(gathered: Gathered, item: Sum) -> Evidence:
    return evidence_of(
        replace(item.start, column=item.number),
        f"{item.start.column.name} + {item.number.name}{item.of}, {item.starts} different days",
        Rule.ELAPSED_TIME,
        item.low,
        None if _may_end_elsewhere(gathered, item) else item.high,
        item.best,
    )


def _may_end_elsewhere(gathered: Gathered, item: Sum) -> bool:
    """Whether the time may have been counted up to the data's end or a year's end."""
    if item.moment is not None and item.moment.time() != datetime.time():
        second = datetime.timedelta(seconds=2)
        return any(abs(fact.highest - item.moment) <= second for fact in gathered.shapes.facts)
    if item.high > item.low:
        return any(
            item.low <= fact.last <= item.high
            for fact in gathered.shapes.facts
            if fact is not item.start
        )
    return counted_to(gathered.shapes, item.low, item.start) is not None
