"""The finders: each reads one kind of trace that a build leaves in its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from stages.dates.finders.calendars import (
    calendar_remarks,
    daily_ends,
    padded_calendars,
    spine_ends,
)
from stages.dates.finders.elapsed import elapsed_time
from stages.dates.finders.events import recorded_events
from stages.dates.finders.gathered import Gathered
from stages.dates.finders.open_ends import closed_intervals
from stages.dates.finders.periods import month_spines, period_remarks, week_spines
from stages.dates.finders.stamps import build_dates, build_stamps, find_stamps
from stages.dates.models import Evidence
from stages.dates.profile import Catalog
from stages.dates.shapes import read_shapes

FINDERS: tuple[Callable[[Gathered], list[Evidence]], ...] = (
    build_stamps,
    elapsed_time,
    closed_intervals,
    padded_calendars,
    build_dates,
    daily_ends,
    spine_ends,
    week_spines,
    month_spines,
    recorded_events,
)


@dataclass(frozen=True)
class Findings:
    """The evidence, and the calendars that were looked at and not believed."""

    evidence: tuple[Evidence, ...]
    remarks: tuple[str, ...]


def find_evidence(connection: duckdb.DuckDBPyConnection, catalog: Catalog) -> Findings:
    """Run every finder over one database; raises `duckdb.Error` where it cannot be read."""
    stamps = find_stamps(catalog)
    shapes = read_shapes(connection, catalog, leave_out=stamps)
    gathered = Gathered(connection, catalog, shapes, stamps)
    return Findings(
        evidence=tuple(item for finder in FINDERS for item in finder(gathered)),
        remarks=tuple(dict.fromkeys([*calendar_remarks(gathered), *period_remarks(gathered)])),
    )
