"""Reads numbers as weeks, months, years, hours or fractions of days since a date.

A number of whole units was rounded down, up or to the nearest, or counts the borders of the
calendar that were crossed. Each of these readings allows a span of time in each row, and the
build lies where all rows' spans meet. A reading whose spans do not meet is refuted; of those
that are left, the build may be in any.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import duckdb

from stages.dates.database import instant
from stages.dates.finders.pairs import ELAPSED, LONGEST, SHORT_UNITS, Pair, amount
from stages.dates.profile import STARTS

DAY = datetime.timedelta(days=1)
SECOND = 1 / 86400
_EPOCH = datetime.datetime(1970, 1, 1)
_PLACES = 4
"""Decimal places up to which a number may have been rounded; with more it is taken as it is."""


@dataclass(frozen=True)
class Reading:
    """The days that a date and a number of units allow."""

    low: datetime.date
    high: datetime.date
    best: datetime.date
    starts: int
    moment: datetime.datetime | None = None


@dataclass(frozen=True)
class _Span:
    """What one way of counting allows: from `low` to `high`, the last instant of it excluded."""

    low: float
    high: float
    likely: bool
    """False for what is rarely done: rounding up, or whole units to the nearest."""


def read_units(
    connection: duckdb.DuckDBPyConnection, pair: Pair, earliest: datetime.date | None
) -> Reading | None:
    """The days in which all rows meet; None where they do not, or too few rows say so.

    `earliest` is the day of the latest recorded event: a reading that ends before is refuted.
    """
    row = connection.execute(_query(pair)).fetchone()
    assert row is not None
    starts, amounts, edge, *values = row
    if starts < STARTS:
        return None
    places = next((i for i in range(_PLACES + 1) if values[i]), None)
    lengths = len(pair.unit.lengths)
    sums, whole, calendar = (
        values[_PLACES + 1 :][: 2 * lengths],
        values[_PLACES + 1 + 2 * lengths :][: 3 * lengths],
        values[_PLACES + 1 + 5 * lengths :],
    )
    if places != 0:
        for low, high in zip(sums[::2], sums[1::2], strict=True):
            if high - low <= 2 * SECOND:
                moment = _moment((low + high) / 2)
                day = moment.date()
                return Reading(day, day, day, starts, moment)
        for low, high, rest in zip(whole[::3], whole[1::3], whole[2::3], strict=True):
            if low == high and rest < 0.001:
                return Reading(_day(low), _day(low), _day(low), starts)
    elif pair.unit.calendar and calendar[0] is not None and amounts >= STARTS:
        same = _same_day(pair, calendar, edge=edge)
        if same is not None:
            return Reading(same, same, same, starts)
    known = pair.named and ELAPSED.search(pair.number.name)
    if places is None or not known or amounts < STARTS:
        return None
    spans = _spans(pair, sums, places)
    if places == 0 and pair.unit.calendar and calendar[0] is not None:
        spans += _calendar_spans(calendar)
    return _joined([span for span in spans if span.high > span.low], starts, earliest)


def _query(pair: Pair) -> str:
    """One scan for all readings: each needs only the extremes of date plus number."""
    value = amount(pair.number)
    longest = LONGEST * 86400 if pair.unit in SHORT_UNITS else LONGEST / min(pair.unit.lengths)
    parts = [
        "count(DISTINCT s::DATE)",
        "count(DISTINCT n)",
        "bool_and(day(s) = 1) OR bool_and(last_day(s) = s::DATE)"
        if pair.unit.name != "week"
        else "bool_and(isodow(s) = 1) OR bool_and(isodow(s) = 7)",
        *(f"bool_and(abs(n - round(n, {i})) < 1e-9)" for i in range(_PLACES + 1)),
    ]
    for length in pair.unit.lengths:
        parts += [f"min(t + n * {length!r})", f"max(t + n * {length!r})"]
    for length in pair.unit.lengths:
        days = f"round(n * {length!r})"
        parts += [
            f"min(floor(t) + {days})",
            f"max(floor(t) + {days})",
            f"max(abs(n * {length!r} - {days}))",
        ]
    if pair.unit.calendar:
        unit = pair.unit.name
        step = f"to_{unit}s(n::INTEGER)"
        more = f"to_{unit}s(n::INTEGER + 1)"
        less = f"to_{unit}s(n::INTEGER - 1)"
        # Days that some months lack are counted differently everywhere: they prove nothing.
        sure = "FILTER (day(s) <= 28)"
        parts += [
            f"max(s + {step}) {sure}",
            f"min(s + {step}) {sure}",
            f"max(s + {less}) {sure}",
            f"min(s + {more}) {sure}",
            f"max(date_trunc('{unit}', s) + {step})",
            f"min(date_trunc('{unit}', s) + {step})",
            f"min(date_trunc('{unit}', s) + {more})",
        ]
    return (
        f"SELECT {', '.join(parts)} FROM (SELECT *, epoch_us(s) / 86400e6 AS t FROM ("
        f"SELECT {instant(pair.start.column)} AS s, CASE WHEN {value} BETWEEN 1e-9 AND {longest} "
        f"THEN {value} END AS n FROM {pair.start.table.sql}) WHERE s IS NOT NULL AND n IS NOT NULL)"
    )


def _same_day(pair: Pair, calendar: list[datetime.datetime], *, edge: bool) -> datetime.date | None:
    """The one day on which every row's whole units end, if it tells more than a period's edge.

    Not for starts at the edges of periods, nor for a calendar's own steps: their units end
    together whatever the day.
    """
    high, low = calendar[:2]
    steps = pair.start.dense_weeks or pair.start.dense_months
    if edge or steps or high.date() != low.date():
        return None
    return high.date()


def _spans(pair: Pair, sums: list[float], places: int) -> list[_Span]:
    quantum = 10.0**-places
    found = []
    for i, length in enumerate(pair.unit.lengths):
        low, high = sums[2 * i : 2 * i + 2]
        width = quantum * length
        # All rows' spans [sum, sum + width] meet from the largest sum to the smallest + width.
        if places == 0:
            found.append(_Span(high, low + width, True))
            found.append(_Span(high - width, low, False))
        found.append(_Span(high - width / 2, low + width / 2, places > 0))
    return found


def _calendar_spans(calendar: list[datetime.datetime]) -> list[_Span]:
    high, low, less, more, border_high, border_low, border_end = (
        (value - _EPOCH) / DAY for value in calendar
    )
    found = [_Span(high, more, True), _Span(less, low, False)]
    if border_high == border_low:
        found.append(_Span(border_high, border_end, True))
    return found


def _joined(spans: list[_Span], starts: int, earliest: datetime.date | None) -> Reading | None:
    days = [(_day(span.low), _day(span.high - 1e-6), span.likely) for span in spans]
    if earliest is not None:
        days = [(low, high, likely) for low, high, likely in days if high >= earliest]
    if not days:
        return None
    low, high = min(item[0] for item in days), max(item[1] for item in days)
    likely = [item for item in days if item[2]] or days
    tightest = min(likely, key=lambda item: (item[1] - item[0], item[0]))
    return Reading(low, high, tightest[0] + (tightest[1] - tightest[0]) // 2, starts)


def _moment(days: float) -> datetime.datetime:
    """The instant, to the second; sums of long fractions miss midnight by less than that."""
    moment = _EPOCH + DAY * days + datetime.timedelta(seconds=0.5)
    return moment.replace(microsecond=0)


def _day(days: float) -> datetime.date:
    return (_EPOCH + DAY * days).date()
