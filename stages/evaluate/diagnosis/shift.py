"""Whether a failing table would pass on another date: said only where that explains it all.

A later date makes a calendar longer at its end (or moves it), moves the days that stand for
'today', and adds to counts of elapsed days. All of it has to be by one number of days.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stages.common.sql import quote
from stages.evaluate.diagnosis.align import Pairing
from stages.evaluate.diagnosis.causes import Difference
from stages.evaluate.strict.kinds import MOMENT, NUMBER
from stages.evaluate.strict.sides import Side

Vector = npt.NDArray[Any]

COUNTS_UP = re.compile(
    r"(^|_)(days?|age|aged|since|elapsed|tenure|recency|overdue|dpd|outstanding|inactive|old)(_|$)"
)
COUNTS_DOWN = re.compile(r"(^|_)(until|till|remaining|left|to_go|before|countdown)(_|$)")
"""Names without which a count's shift alone is no sign of the clock: a rank that starts at 0
instead of 1 looks the same."""

DAYS_FROM_CLOCK = 62
"""A calendar that ends further from the result's date, a padded month aside, ends by itself."""

ROWS_TO_TELL = 2
"""So many rows have to hold one and the same shifted day, for it to stand for 'today'."""


@dataclass(frozen=True)
class Failed:
    """A failed column, its nearest in the result, and where they differ."""

    at: int
    other: int
    difference: Difference


def days_off(
    gold: Side,
    result: Side,
    pairing: Pairing | None,
    failed: Sequence[Failed],
    day: datetime.date | None,
) -> int | None:
    """How many days later the result's date should have been; null where that is not it.

    `day` is the date that the result was built on, where it is known.
    """
    if pairing is None:
        return None
    shifts: set[int] = set()
    rest = len(pairing.only_gold) + len(pairing.only_result)
    if rest:
        found = _calendar_shift(gold, result, pairing, day)
        if found is None:
            return None
        shifts.add(found)
    counts: list[tuple[str, int]] = []
    single: list[int] = []
    for item in failed:
        if not len(item.difference.gold):
            continue
        kind = gold.facets[item.at].kind
        if kind != result.facets[item.other].kind:
            return None
        if kind == MOMENT:
            moved = _moved_day(gold, result, item, day)
            if moved is None:
                return None
            (shifts.add if len(item.difference.gold) >= ROWS_TO_TELL else single.append)(moved)
        elif kind == NUMBER:
            count = _moved_count(gold, result, item)
            if count is None:
                return None
            counts.append((gold.name(item.at).lower(), count))
        else:
            return None
    return _agreed(shifts, single, counts)


def _agreed(shifts: set[int], single: list[int], counts: list[tuple[str, int]]) -> int | None:
    for name, count in counts:
        if COUNTS_DOWN.search(name):
            shifts.add(-count)
        elif COUNTS_UP.search(name):
            shifts.add(count)
    if len(shifts) != 1:
        return None
    (days,) = shifts
    fits = all(abs(count) == abs(days) for _, count in counts) and set(single) <= {days}
    return days if fits and days else None


def _calendar_shift(
    gold: Side, result: Side, pairing: Pairing, day: datetime.date | None
) -> int | None:
    """By how many days gold's calendar ends later, where all unpaired rows are its ends."""
    for at, other in pairing.key:
        if gold.facets[at].kind != MOMENT:
            continue
        ours, theirs = _days(gold, at), _days(result, other)
        if ours is None or theirs is None or not len(pairing.gold):
            return None
        common = ours[pairing.gold]
        low, high = int(common.min()), int(common.max())
        if len(np.unique(ours)) != int(ours.max() - ours.min()) + 1:
            return None
        if not _is_near(int(theirs.max()), day):
            return None
        end = _beyond_end(ours[pairing.only_gold], theirs[pairing.only_result], low, high)
        if end is not None:
            return end
    return None


def _beyond_end(ours: Vector, theirs: Vector, low: int, high: int) -> int | None:
    later, earlier = _run_after(ours, high), _run_before(ours, low)
    its_later, its_earlier = _run_after(theirs, high), _run_before(theirs, low)
    if later and (not len(theirs) or its_earlier == later):
        return later
    if its_later and (not len(ours) or earlier == its_later):
        return -its_later
    return None


def _run_after(days: Vector, high: int) -> int:
    """How many days these are, where they follow `high` without a gap; else 0."""
    found = np.unique(days)
    return len(found) if np.array_equal(found, np.arange(high + 1, high + 1 + len(found))) else 0


def _run_before(days: Vector, low: int) -> int:
    found = np.unique(days)
    return len(found) if np.array_equal(found, np.arange(low - len(found), low)) else 0


def _moved_day(gold: Side, result: Side, item: Failed, day: datetime.date | None) -> int | None:
    """Whole days between one gold moment and one result moment, the same in all these rows."""
    ours = np.unique(_microseconds(gold, item.at)[item.difference.gold])
    theirs = np.unique(_microseconds(result, item.other)[item.difference.result])
    if len(ours) != 1 or len(theirs) != 1 or min(ours[0], theirs[0]) == _NONE:
        return None
    if not _is_near(int(theirs[0]) // _DAY, day):
        return None
    days, rest = divmod(int(ours[0]) - int(theirs[0]), _DAY)
    return days if rest == 0 else None


def _is_near(found: int, day: datetime.date | None) -> bool:
    """Whether a day of the result, since 1970, may come from the date that it was built on."""
    if day is None:
        return True
    return abs(found - (day - datetime.date(1970, 1, 1)).days) <= DAYS_FROM_CLOCK


def _moved_count(gold: Side, result: Side, item: Failed) -> int | None:
    """The whole number by which gold's count is larger in all these rows."""
    values, null = gold.numbers(item.at)
    its_values, its_null = result.numbers(item.other)
    rows, others = item.difference.gold, item.difference.result
    if bool(null[rows].any() or its_null[others].any()):
        return None
    apart = np.unique(values[rows] - its_values[others])
    if len(apart) != 1 or not np.isfinite(apart[0]) or apart[0] != np.rint(apart[0]):
        return None
    return int(apart[0])


_DAY = 86_400_000_000
_NONE = -(2**63)


def _microseconds(side: Side, at: int) -> Vector:
    """Microseconds since 1970; `_NONE` for NULL and for what is no moment of the calendar."""
    value = f"TRY_CAST({quote(side.name(at))} AS TIMESTAMP)"
    sql = f"CASE WHEN isfinite({value}) THEN epoch_us({value}) ELSE {_NONE} END"
    found = side.table.connection.execute(
        f"SELECT CAST({sql} AS BIGINT) AS value FROM {side.table.source}"
    ).fetchnumpy()["value"]
    return np.asarray(np.ma.getdata(np.ma.asarray(found)), dtype=np.int64)


def _days(side: Side, at: int) -> Vector | None:
    """Whole days since 1970; null where a row has none, or a time of day."""
    found = _microseconds(side, at)
    if bool((found == _NONE).any() or (found % _DAY).any()):
        return None
    days: Vector = found // _DAY
    return days
