"""The finders for daily calendars, spines, and the daily tables that they carry on."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from stages.dates.finders.gathered import Gathered, evidence_of
from stages.dates.models import Evidence, Rule
from stages.dates.profile import Profile, shown
from stages.dates.shapes import (
    DAY,
    ends_with,
    is_dimension,
    is_loaded,
    month_edge,
    odd_spans,
    round_spans,
    year_edge,
)


def daily_ends(gathered: Gathered) -> list[Evidence]:
    """The last day of filled daily tables: the build day, or the day before it."""
    return [
        evidence_of(item, str(item.last), Rule.DAILY_END, item.last, item.last + DAY, item.last)
        for item in _clock_driven(gathered)
    ]


def padded_calendars(gathered: Gathered) -> list[Evidence]:
    """A calendar that runs a round span beyond the end of two or more filled daily tables."""
    tables = _clock_driven(gathered)
    if len(tables) < 2:
        return []
    end = tables[0].last
    found: list[Evidence] = []
    for item in gathered.shapes.calendars:
        # Being a year after some fact as well is a coincidence here, not a reason to doubt.
        if item.last <= end + DAY or _disbelief(gathered, item, padded=False):
            continue
        ends = {item.last, item.last + DAY}
        days = [day for day in (end, end + DAY) if ends & (round_spans(day) | odd_spans(day))]
        if len(days) == 1 and ends & round_spans(days[0]):
            value = f"{item.last}, daily tables end {end}"
            found.append(evidence_of(item, value, Rule.PADDED_CALENDAR, days[0], days[0], days[0]))
    return found


def spine_ends(gathered: Gathered) -> list[Evidence]:
    """A calendar's last day: no build is later than the day after it."""
    found: list[Evidence] = []
    for item in _believed(gathered):
        after = _passed_by(gathered, item)
        if after:
            found.extend(
                evidence_of(
                    fact, shown(fact.highest), Rule.SPINE_PASSED, fact.last, None, fact.last
                )
                for fact in after
            )
            continue
        found.append(
            evidence_of(item, str(item.last), Rule.SPINE_END, None, item.last + DAY, item.last)
        )
    return found


def calendar_remarks(gathered: Gathered) -> Iterator[str]:
    """The calendars that were not believed, and why."""
    for item in gathered.shapes.calendars:
        reason = _disbelief(gathered, item)
        if reason:
            yield f"{item.table.label}.{item.column.name} {reason}"


def _believed(gathered: Gathered) -> list[Profile]:
    return [item for item in gathered.shapes.calendars if not _disbelief(gathered, item)]


def _disbelief(gathered: Gathered, item: Profile, *, padded: bool = True) -> str:
    """Why a calendar's or daily table's end says nothing of the clock; empty where it does."""
    calendar_like = item in gathered.shapes.calendars
    if year_edge(item.last):
        return "ends with a year"
    if calendar_like and month_edge(item.last):
        if is_dimension(item.table):
            return "is a date dimension that ends with a month"
        if all(other.last != item.last for other in gathered.shapes.filled):
            return "ends with a month, and no daily table with it"
    fact = ends_with(gathered.shapes, item.last, item.last, padded=padded and calendar_like)
    if fact is not None:
        return f"ends with the data ({fact.table.label}.{fact.column.name}: {fact.last})"
    later = [other for other in gathered.shapes.recorded if other.last > item.last + DAY]
    if later:
        other = max(later, key=lambda event: (event.last, event.table.label, event.column.name))
        return f"ends before {other.table.label}.{other.column.name}: {other.last}"
    return ""


def _clock_driven(gathered: Gathered) -> list[Profile]:
    """The filled daily tables that end last, and not where the data or a fixed calendar ends."""
    disbelieved = {item.last for item in gathered.shapes.calendars if _disbelief(gathered, item)}
    tables = [
        item
        for item in gathered.shapes.filled
        if item.last not in disbelieved
        and not _disbelief(gathered, item)
        and not _passed_by(gathered, item)
    ]
    end = max((item.last for item in tables), default=None)
    return [item for item in tables if item.last == end]


def _passed_by(gathered: Gathered, item: Profile) -> list[Profile]:
    """Facts of the day after an end: an exclusive end, be it the clock's or the data's.

    What a loader wrote is none: no calendar ends with that, so the clock it is.
    """
    after = item.last + DAY
    return [
        fact
        for fact in gathered.shapes.facts
        if fact.last == after and not (is_loaded(fact.column) and _carried(gathered, item.last))
    ]


def _carried(gathered: Gathered, end: datetime.date) -> bool:
    return any(item.last == end for item in gathered.shapes.filled)
