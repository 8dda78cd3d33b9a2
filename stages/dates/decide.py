"""The decision: from all findings on one database to its gold date."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from stages.dates.models import DateStatus, Evidence, GoldDate, Rule

CONCLUSIVE = frozenset(
    {Rule.BUILD_STAMP, Rule.ELAPSED_TIME, Rule.CLOSED_INTERVAL, Rule.PADDED_CALENDAR}
)
"""Rules that settle the day on their own."""
_ORDER = list(Rule)
_NEAR = datetime.timedelta(days=1)


def fall_back(fallback: datetime.date, note: str) -> GoldDate:
    """The pinned day, for the reason in `note`."""
    return GoldDate(
        date=fallback, status=DateStatus.FALLBACK, low=None, high=None, evidence=(), note=note
    )


def decide(
    evidence: Sequence[Evidence], remarks: Sequence[str], fallback: datetime.date
) -> GoldDate:
    """Weigh the findings; the rules are written out in docs/dates.md."""
    found, dropped = _believed(sorted(evidence, key=_rank))
    remarks = [*remarks, *dropped]
    events = [item for item in found if item.rule is Rule.RECORDED]
    clock = [item for item in found if item.rule is not Rule.RECORDED]
    if not clock:
        return _from_events(events, remarks, fallback)
    lows = [item.low for item in found if item.low is not None]
    highs = [item.high for item in found if item.high is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    note = "; ".join(remarks)
    if low is not None and high is not None and low > high:
        return _conflict(found, note)
    rules = {item.rule for item in found if low in (item.low,) or high in (item.high,)}
    if low is not None and low == high and (rules & CONCLUSIVE or len(rules) > 1):
        status = DateStatus.EXACT
    else:
        status = DateStatus.INTERVAL
    return GoldDate(
        date=_guess(clock, low, high, fallback),
        status=status,
        low=low,
        high=high,
        evidence=tuple(found),
        note=note,
    )


def _rank(item: Evidence) -> tuple[int, str, str, str]:
    return _ORDER.index(item.rule), item.table, item.column, item.value


def _believed(evidence: list[Evidence]) -> tuple[list[Evidence], list[str]]:
    """Leave out period spines that end before a recorded event: they are not the clock's."""
    lows = [item.low for item in evidence if item.rule is Rule.RECORDED and item.low is not None]
    floor = max(lows, default=None)
    kept, dropped = [], []
    for item in evidence:
        weak = item.rule in (Rule.MONTH_SPINE, Rule.WEEK_SPINE)
        if weak and floor is not None and item.high is not None and item.high < floor:
            dropped.append(f"{item.table}.{item.column} ends before an event of {floor}")
        else:
            kept.append(item)
    return kept, dropped


def _from_events(events: list[Evidence], remarks: list[str], fallback: datetime.date) -> GoldDate:
    note = "; ".join(["nothing in the database depends on the day of its build", *remarks])
    for item in events:
        if item.low is not None and item.low > fallback:
            return GoldDate(
                date=item.low,
                status=DateStatus.INTERVAL,
                low=item.low,
                high=None,
                evidence=(item,),
                note="; ".join(["recorded events are later than the pinned day", *remarks]),
            )
    return fall_back(fallback, note)


def _conflict(found: list[Evidence], note: str) -> GoldDate:
    """The strongest finding's day, between the outermost bounds that any finding gives."""
    days = [day for item in found for day in (item.low, item.high) if day is not None]
    first = found[0]
    latest = max(item.best for item in found if item.rule is first.rule and item.best is not None)
    told = ", ".join(
        f"{item.table}.{item.column} ({item.rule}): {item.low or '...'} to {item.high or '...'}"
        for item in found
    )
    return GoldDate(
        date=latest,
        status=DateStatus.CONFLICT,
        low=min(days),
        high=max(days),
        evidence=tuple(found),
        note="; ".join(part for part in (f"findings exclude each other: {told}", note) if part),
    )


def _guess(
    clock: list[Evidence],
    low: datetime.date | None,
    high: datetime.date | None,
    fallback: datetime.date,
) -> datetime.date:
    """The best single day in the interval: the pinned day if it fits, else the strongest's own."""
    best = next(item.best for item in clock if item.best is not None)
    if low is not None:
        best = max(best, low)
    if high is not None:
        best = min(best, high)
    bounded = any(item.low is not None for item in clock) and high is not None
    inside = low is None or low <= fallback
    inside = inside and (high is None or fallback <= high)
    if inside and (bounded or abs(fallback - best) <= _NEAR):
        return fallback
    return best
