"""The dates stage's typed values."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from stages.common.files import Record, read_json, write_json


class DateStatus(StrEnum):
    """How sure a gold date is."""

    PROVED = "proved"
    """Shipped models, built on these days and on no other day beside them, give gold's tables."""
    EXACT = "exact"
    INTERVAL = "interval"
    CONFLICT = "conflict"
    FALLBACK = "fallback"


class Rule(StrEnum):
    """What a finding rests on; docs/dates.md explains each. Strongest first."""

    BUILD_STAMP = "build_stamp"
    """Tables stamped with one instant while they were built from tables without a stamp."""
    ELAPSED_TIME = "elapsed_time"
    """A date plus the time elapsed since then gives the same day, or month, in every row."""
    CLOSED_INTERVAL = "closed_interval"
    """One day stands wherever another column, otherwise the same, has no end yet."""
    PADDED_CALENDAR = "padded_calendar"
    """A calendar runs a round span beyond the day on which filled daily tables end."""
    BUILD_DATE = "build_date"
    """Built tables carry one day in every row, in a column named after the build."""
    DAILY_END = "daily_end"
    """The last day of daily tables that were filled long after their facts had ended."""
    SPINE_PASSED = "spine_passed"
    """Facts reach the day after a spine's last day."""
    SPINE_END = "spine_end"
    """The last day of a calendar with one row a day."""
    WEEK_SPINE = "week_spine"
    """The last week of a calendar with one row a week."""
    MONTH_SPINE = "month_spine"
    """The last month of a calendar with one row a month."""
    RECORDED = "recorded"
    """The latest event that can only have been recorded in the past: an earliest day."""


class Evidence(Record):
    """One finding: where it was found, what was read, and the rule that was applied."""

    table: str
    column: str
    value: str
    rule: Rule
    low: datetime.date | None
    """Earliest build day that this finding allows."""
    high: datetime.date | None
    """Latest build day that this finding allows."""
    best: datetime.date | None = None
    """The day within these bounds that it points to most directly."""


class Rebuild(Record):
    """What building a task's shipped models day by day found."""

    clock_models: tuple[str, ...]
    """Shipped models that gold also holds as tables and that depend on the clock; sorted."""
    tried: dict[str, str]
    """Day to what was found on it."""
    low: datetime.date | None
    """First day on which gold is reproduced; null where none, or no end, was found."""
    high: datetime.date | None
    """Last day on which gold is reproduced."""
    note: str = ""
    """Why nothing was built, what was not compared, or what does not fit."""


class GoldDate(Record):
    """A gold database's build day, with everything that speaks for it."""

    date: datetime.date
    status: DateStatus
    low: datetime.date | None
    high: datetime.date | None
    evidence: tuple[Evidence, ...]
    note: str = ""
    """Why there is no evidence, what is in conflict, or which calendars were not believed."""
    rebuild: Rebuild | None = None
    """Null where none was tried: no project or start database, or switched off."""


def read_gold_build_dates(path: Path) -> dict[str, datetime.date]:
    """Read data/gold_build_dates.json: instance id to day."""
    return {key: datetime.date.fromisoformat(day) for key, day in read_json(path).items()}


def write_gold_dates(map_path: Path, details_path: Path, dates: Mapping[str, GoldDate]) -> None:
    """Write the map of days and, apart, each date with its evidence; both sorted by id."""
    write_json(map_path, {key: found.date.isoformat() for key, found in dates.items()})
    write_json(details_path, dict(dates))


def read_gold_dates(path: Path) -> dict[str, GoldDate]:
    """Read results/dates.json: instance id to the date with its evidence."""
    return {key: GoldDate.model_validate(item) for key, item in read_json(path).items()}
