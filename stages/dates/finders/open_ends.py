"""The finder for intervals that are still open and were closed with the build day.

A model often writes `coalesce(ended_at, current_date)`. The column that it reads has NULLs; the
one that it writes holds the same values and, for the NULLs, one and the same day.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from stages.dates.database import instant
from stages.dates.finders.gathered import Gathered, evidence_of, named_as_built
from stages.dates.models import Evidence, Rule
from stages.dates.profile import Profile
from stages.dates.shapes import counted_to, year_edge

OPEN = 2
"""Rows that have to be closed alike."""
CLOSED = 2
"""Rows that have to agree with their own end."""


def closed_intervals(gathered: Gathered) -> list[Evidence]:
    """The one day that stands wherever the end was missing."""
    found = []
    for item, source in _candidates(gathered):
        day = (
            _within(gathered, item, source)
            if item.table == source.table
            else _between(gathered, item, source)
        )
        if day is None or year_edge(day):
            continue
        high = None if counted_to(gathered.shapes, day, item) is not None else day
        where = f"{source.table.label}.{source.column.name}"
        value = f"{day} in {source.table_rows - source.values} rows that are open in {where}"
        found.append(evidence_of(item, value, Rule.CLOSED_INTERVAL, day, high, day))
    return found


def _candidates(gathered: Gathered) -> Iterator[tuple[Profile, Profile]]:
    """A column without NULLs, and one with NULLs that it may have been filled from."""
    full = [
        item
        for item in gathered.catalog.profiles
        if item.values == item.table_rows >= OPEN + CLOSED and not item.constant
    ]
    gaps: dict[int, list[Profile]] = {}
    for item in gathered.catalog.profiles:
        if item.values >= CLOSED and item.table_rows - item.values >= OPEN:
            gaps.setdefault(item.table_rows, []).append(item)
    for item in full:
        for source in gaps.get(item.table_rows, ()):
            same_table = item.table == source.table
            same_name = item.column.name.lower() == source.column.name.lower()
            if not (source.lowest >= item.lowest and source.highest <= item.highest):
                continue
            if (same_table and named_as_built(item.table)) or (same_name and not same_table):
                yield item, source


def _refuted(gathered: Gathered, item: Profile, source: Profile) -> bool:
    """Whether the rows of a small table, which are at hand, say no already."""
    held = gathered.catalog.rows.get(item.table)
    if held is None:
        return False
    rows = list(zip(held[item.column], held[source.column], strict=True))
    return (
        any(end is not None and end != filled for filled, end in rows)
        or len({filled.date() for filled, end in rows if end is None}) > 1
        or len({end for _, end in rows if end is not None}) < CLOSED
    )


def _within(gathered: Gathered, item: Profile, source: Profile) -> datetime.date | None:
    if _refuted(gathered, item, source):
        return None
    row = gathered.connection.execute(
        "SELECT bool_and(x = y) FILTER (y IS NOT NULL), count(DISTINCT y), "
        "min(x::DATE) FILTER (y IS NULL), max(x::DATE) FILTER (y IS NULL) "
        f"FROM (SELECT {instant(item.column)} AS x, {instant(source.column)} AS y "
        f"FROM {item.table.sql})"
    ).fetchone()
    assert row is not None
    same, ends, low, high = row
    return low if same and ends >= CLOSED and low == high else None


def _between(gathered: Gathered, item: Profile, source: Profile) -> datetime.date | None:
    """The day whose rows are all that one table has and the other has not, told by sums."""
    here = gathered.connection.execute(
        f"SELECT sum(hash(x)), mode(x), max(x) FROM (SELECT {instant(item.column)} AS x "
        f"FROM {item.table.sql}) WHERE x IS NOT NULL"
    ).fetchone()
    there = gathered.connection.execute(
        f"SELECT sum(hash(x)), count(DISTINCT x) FROM (SELECT {instant(source.column)} AS x "
        f"FROM {source.table.sql}) WHERE x IS NOT NULL"
    ).fetchone()
    assert here is not None and there is not None
    if there[1] < CLOSED:
        return None
    still_open = source.table_rows - source.values
    for moment in dict.fromkeys(here[1:]):
        hashed = gathered.connection.execute("SELECT hash(?::TIMESTAMP)", [moment]).fetchone()
        assert hashed is not None
        if here[0] - there[0] == still_open * hashed[0]:
            day: datetime.date = moment.date()
            return day
    return None
