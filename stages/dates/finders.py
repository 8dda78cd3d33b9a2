"""The finders: each reads one kind of trace that a build leaves in its tables."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import duckdb

from stages.dates.database import Catalog, Profile, Table
from stages.dates.elapsed import elapsed_time
from stages.dates.gathered import Gathered, evidence_of
from stages.dates.models import Evidence, Rule
from stages.dates.shapes import (
    DAY,
    LAYER,
    add_months,
    ends_with,
    is_dimension,
    month_edge,
    month_end,
    read_shapes,
    round_spans,
    year_edge,
)


@dataclass(frozen=True)
class Findings:
    """The evidence, and the calendars that were looked at and not believed."""

    evidence: tuple[Evidence, ...]
    remarks: tuple[str, ...]


def find_evidence(connection: duckdb.DuckDBPyConnection, catalog: Catalog) -> Findings:
    """Run every finder over one database; raises `duckdb.Error` where it cannot be read."""
    stamps = tuple(_stamped(catalog))
    shapes = read_shapes(connection, catalog, leave_out=stamps)
    gathered = Gathered(connection, catalog, shapes, stamps)
    return Findings(
        evidence=tuple(item for finder in FINDERS for item in finder(gathered)),
        remarks=tuple(dict.fromkeys(_remarks(gathered))),
    )


def build_stamps(gathered: Gathered) -> list[Evidence]:
    """Instants that tables were given when they were built from tables without one."""
    return [
        evidence_of(item, item.highest, Rule.BUILD_STAMP, item.last, item.last, item.last)
        for item in gathered.stamps
    ]


def daily_ends(gathered: Gathered) -> list[Evidence]:
    """The last day of filled daily tables: the build day, or the day before it."""
    tables = _clock_driven(gathered)
    return [
        evidence_of(item, str(item.last), Rule.DAILY_END, item.last, item.last + DAY, item.last)
        for item in tables
    ]


def padded_calendars(gathered: Gathered) -> list[Evidence]:
    """A calendar that runs a round span beyond the end of two or more filled daily tables."""
    tables = _clock_driven(gathered)
    if len(tables) < 2:
        return []
    end = tables[0].last
    found: list[Evidence] = []
    for item in _believed(gathered):
        if item.last <= end + DAY:
            continue
        days = [d for d in (end, end + DAY) if {item.last, item.last + DAY} & round_spans(d)]
        if len(days) == 1:
            value = f"{item.last}, daily tables end {end}"
            found.append(evidence_of(item, value, Rule.PADDED_CALENDAR, days[0], days[0], days[0]))
    return found


def spine_ends(gathered: Gathered) -> list[Evidence]:
    """A calendar's last day: no build is later than the day after it."""
    found: list[Evidence] = []
    for item in _believed(gathered):
        after = [fact for fact in gathered.shapes.facts if fact.last == item.last + DAY]
        if after and not _reached(gathered, item.last):
            found.extend(
                evidence_of(fact, fact.highest, Rule.SPINE_PASSED, fact.last, None, fact.last)
                for fact in after
            )
            continue
        found.append(
            evidence_of(item, str(item.last), Rule.SPINE_END, None, item.last + DAY, item.last)
        )
    return found


def month_spines(gathered: Gathered) -> list[Evidence]:
    """A month-wise calendar's last month: the build's month, or the month before it."""
    found: list[Evidence] = []
    for item in gathered.shapes.months:
        first = item.last.replace(day=1)
        if _month_disbelief(gathered, item):
            continue
        reached = any(other.last.replace(day=1) == first for other in gathered.shapes.month_tables)
        found.append(
            evidence_of(
                item,
                str(item.last),
                Rule.MONTH_SPINE,
                first if reached else None,
                month_end(add_months(first, 1)),
                month_end(first),
            )
        )
    return found


def recorded_events(gathered: Gathered) -> list[Evidence]:
    """The latest event whose column says that it was recorded: no build is earlier."""
    columns = gathered.shapes.recorded
    if not columns:
        return []
    latest = max(columns, key=lambda item: (item.last, item.table.label, item.column.name))
    return [evidence_of(latest, latest.highest, Rule.RECORDED, latest.last, None, None)]


FINDERS: tuple[Callable[[Gathered], list[Evidence]], ...] = (
    build_stamps,
    elapsed_time,
    padded_calendars,
    daily_ends,
    spine_ends,
    month_spines,
    recorded_events,
)


def _stamped(catalog: Catalog) -> Iterable[Profile]:
    """Constant instants in two or more built tables whose source has no such column.

    A loader's stamp is in the source too, so it does not count, nor does one whose name
    begins with an underscore, as loaders' columns do, nor an instant that ends another
    column: that one may be computed from the data.
    """
    names: dict[str, list[Table]] = {}
    for table in catalog.tables:
        names.setdefault(table.name.lower(), []).append(table)
    found: list[Profile] = []
    for item in catalog.profiles:
        layer = LAYER.match(item.table.name)
        if not item.constant or item.midnight or layer is None or item.column.name[0] == "_":
            continue
        sources = names.get(layer["source"].lower(), [])
        here = {column.name.lower() for column in item.table.columns}
        for source in sources:
            there = {column.name.lower() for column in source.columns}
            if item.column.name.lower() not in there and there and there < here:
                found.append(item)
                break
    instants = {item.highest for item in catalog.profiles if not item.constant}
    found = [item for item in found if item.highest not in instants]
    return found if len({item.table for item in found}) >= 2 else []


def _believed(gathered: Gathered) -> list[Profile]:
    return [item for item in gathered.shapes.calendars if not _disbelief(gathered, item)]


def _disbelief(gathered: Gathered, item: Profile) -> str:
    """Why a calendar's or daily table's end says nothing of the clock; empty where it does."""
    calendar_like = item in gathered.shapes.calendars
    if year_edge(item.last):
        return "ends with a year"
    if calendar_like and month_edge(item.last):
        if is_dimension(item.table):
            return "is a date dimension that ends with a month"
        if all(other.last != item.last for other in gathered.shapes.filled):
            return "ends with a month, and no daily table with it"
    fact = ends_with(gathered.shapes, item.last, item.last, padded=calendar_like)
    if fact is not None:
        return f"ends with the data ({fact.table.label}.{fact.column.name}: {fact.last})"
    later = [other for other in gathered.shapes.recorded if other.last > item.last + DAY]
    if later:
        other = max(later, key=lambda event: (event.last, event.table.label, event.column.name))
        return f"ends before {other.table.label}.{other.column.name}: {other.last}"
    return ""


def _month_disbelief(gathered: Gathered, item: Profile) -> str:
    """Why a month spine's end says nothing of the clock; empty where it does."""
    if item.last.month == 12:
        return "ends with a year"
    first = item.last.replace(day=1)
    fact = ends_with(gathered.shapes, month_end(add_months(first, 1)), first)
    if fact is not None:
        return f"ends with the data ({fact.table.label}.{fact.column.name}: {fact.last})"
    return ""


def _clock_driven(gathered: Gathered) -> list[Profile]:
    """The filled daily tables that end last, and not where the data or a fixed calendar ends."""
    disbelieved = {item.last for item in gathered.shapes.calendars if _disbelief(gathered, item)}
    tables = [
        item
        for item in gathered.shapes.filled
        if item.last not in disbelieved and not _disbelief(gathered, item)
    ]
    end = max((item.last for item in tables), default=None)
    return [item for item in tables if item.last == end]


def _reached(gathered: Gathered, day: datetime.date) -> bool:
    return any(item.last == day for item in _clock_driven(gathered))


def _remarks(gathered: Gathered) -> Iterable[str]:
    for item in gathered.shapes.calendars:
        reason = _disbelief(gathered, item)
        if reason:
            yield f"{item.table.label}.{item.column.name} {reason}"
    for item in gathered.shapes.months:
        reason = _month_disbelief(gathered, item)
        if reason:
            yield f"{item.table.label}.{item.column.name} {reason}"
