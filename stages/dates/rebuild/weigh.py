"""Weighs a rebuild against the evidence that the database holds."""

from __future__ import annotations

import datetime

from stages.dates.models import DateStatus, GoldDate, Rebuild


def weigh(found: GoldDate, rebuild: Rebuild) -> GoldDate:
    """The gold date with what a rebuild adds; a proof overrides all but conclusive evidence.

    Without a proof only the rebuild is noted. Conclusive evidence of another day is a conflict:
    its date is the day that was reproduced.
    """
    low, high = rebuild.low, rebuild.high
    if low is None or high is None:
        return found.model_copy(update={"rebuild": rebuild})
    if found.status is DateStatus.EXACT and not low <= found.date <= high:
        told = (
            f"the database says {found.date}, and the shipped models give gold {_span(low, high)}"
        )
        return found.model_copy(
            update={
                "status": DateStatus.CONFLICT,
                "date": high,
                "low": min(low, found.date),
                "high": max(high, found.date),
                "note": _joined(told, found.note),
                "rebuild": rebuild,
            }
        )
    inner_low = max(low, found.low or low)
    inner_high = min(high, found.high or high)
    note = found.note
    if inner_low > inner_high:
        inner_low, inner_high = low, high
        note = _joined("the database's evidence allows other days; the proof overrides it", note)
    return found.model_copy(
        update={
            "status": DateStatus.PROVED,
            "date": min(max(found.date, inner_low), inner_high),
            "low": inner_low,
            "high": inner_high,
            "note": note,
            "rebuild": rebuild,
        }
    )


def _span(low: datetime.date, high: datetime.date) -> str:
    return f"on {low}" if low == high else f"from {low} to {high}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
