"""Searches for the days on which something holds, with as few tries as possible."""

from __future__ import annotations

import calendar
import datetime
from collections import Counter
from collections.abc import Callable, Mapping

DAY = datetime.timedelta(days=1)
FARTHEST = 400
"""How many days from a day that holds the last one is sought."""


def edges(
    day: datetime.date, holds: Callable[[datetime.date], bool]
) -> tuple[datetime.date | None, datetime.date | None]:
    """The first and last day of the run of days around `day`, on which it holds.

    The days between are taken to hold as well. Months are tried first, then doubling steps and
    halving; null where no end is found within `FARTHEST` days.
    """
    return (
        _edge(day, holds, -1, day.replace(day=1)),
        _edge(day, holds, +1, day.replace(day=calendar.monthrange(day.year, day.month)[1])),
    )


def _edge(
    day: datetime.date,
    holds: Callable[[datetime.date], bool],
    sign: int,
    month: datetime.date,
) -> datetime.date | None:
    step = sign * DAY
    if not holds(day + step):
        return day
    inside = day + step
    if (month - inside).days * sign > 0:
        if not holds(month):
            return _halve(inside, month, holds)
        inside = month
    if inside == month and not holds(month + step):
        return month
    reach = 1
    while reach <= FARTHEST:
        outside = inside + reach * step
        if not holds(outside):
            return _halve(inside, outside, holds)
        inside = outside
        reach *= 4
    return None


def _halve(
    inside: datetime.date, outside: datetime.date, holds: Callable[[datetime.date], bool]
) -> datetime.date:
    while abs((outside - inside).days) > 1:
        middle = inside + (outside - inside) // 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def estimates(
    wanted: Mapping[tuple[str, str], float],
    seen: Mapping[datetime.date, Mapping[tuple[str, str], float]],
) -> list[datetime.date]:
    """The days at which numbers that move with the day would be as wanted, most agreed first.

    Each number gives the day on the straight line through the two days nearest to it.
    """
    votes: Counter[datetime.date] = Counter()
    for name, value in wanted.items():
        points = sorted((day, found[name]) for day, found in seen.items() if name in found)
        points.sort(key=lambda point: abs(point[1] - value))
        for other in points[1:]:
            (first, at_first), (second, at_second) = points[0], other
            if at_first == at_second:
                continue
            days = (value - at_first) * (second - first).days / (at_second - at_first)
            if abs(days) < 36500:
                votes[first + datetime.timedelta(days=round(days))] += 1
            break
    ranked = sorted(votes.items(), key=lambda item: (-item[1], item[0]))
    return [day for day, _ in ranked if datetime.date(1971, 1, 2) < day < datetime.date(2199, 1, 1)]
