"""The finders for calendars with one row a week or a month."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator

from stages.dates.finders.gathered import Gathered, evidence_of
from stages.dates.models import Evidence, Rule
from stages.dates.profile import Profile
from stages.dates.shapes import DAY, add_months, ends_with, month_end

WEEK = 7 * DAY


def week_spines(gathered: Gathered) -> list[Evidence]:
    """A weekly calendar's last week: the build's week, or the week before it."""
    return [
        _evidence(gathered, item, Rule.WEEK_SPINE, lambda day: day, lambda day: day + WEEK)
        for item in gathered.shapes.weeks
        if not _week_disbelief(gathered, item)
    ]


def month_spines(gathered: Gathered) -> list[Evidence]:
    """A month-wise calendar's last month: the build's month, or the month before it."""
    return [
        _evidence(
            gathered,
            item,
            Rule.MONTH_SPINE,
            lambda day: day.replace(day=1),
            lambda day: add_months(day, 1),
        )
        for item in gathered.shapes.months
        if not _month_disbelief(gathered, item)
    ]


def period_remarks(gathered: Gathered) -> Iterator[str]:
    """The weekly and monthly calendars that were not believed, and why."""
    for items, why in (
        (gathered.shapes.weeks, _week_disbelief),
        (gathered.shapes.months, _month_disbelief),
    ):
        for item in items:
            reason = why(gathered, item)
            if reason:
                yield f"{item.table.label}.{item.column.name} {reason}"


def _evidence(
    gathered: Gathered,
    item: Profile,
    rule: Rule,
    begin: Callable[[datetime.date], datetime.date],
    following: Callable[[datetime.date], datetime.date],
) -> Evidence:
    """From the last period (if another table reaches it) to the end of the next.

    Padded spines reach further than that, but only tables filled from them show it.
    """
    first = begin(item.last)
    reached = any(
        begin(other.last) == first and other.steps.weekly == item.steps.weekly
        for other in gathered.shapes.period_tables
    )
    after = following(first)
    end = following(after) - DAY
    return evidence_of(item, str(item.last), rule, first if reached else None, end, after - DAY)


def _week_disbelief(gathered: Gathered, item: Profile) -> str:
    """Why a weekly spine's end says nothing of the clock; empty where it does."""
    if (item.last + WEEK).year != item.last.year:
        return "ends with a year"
    return _data_end(gathered, item.last, item.last + 2 * WEEK - DAY)


def _month_disbelief(gathered: Gathered, item: Profile) -> str:
    """Why a month spine's end says nothing of the clock; empty where it does."""
    if item.last.month == 12:
        return "ends with a year"
    first = item.last.replace(day=1)
    return _data_end(gathered, first, month_end(add_months(first, 1)))


def _data_end(gathered: Gathered, first: datetime.date, end: datetime.date) -> str:
    fact = ends_with(gathered.shapes, end, first)
    if fact is None:
        return ""
    return f"ends with the data ({fact.table.label}.{fact.column.name}: {fact.last})"
