"""What the finders work on, and how they say what they found."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cached_property

import duckdb

from stages.dates.database import Table, instant
from stages.dates.models import Evidence, Rule
from stages.dates.profile import Catalog, Profile
from stages.dates.shapes import LAYER, Shapes


@dataclass(frozen=True)
class Gathered:
    """The connection, the catalog, and each column's role."""

    connection: duckdb.DuckDBPyConnection
    catalog: Catalog
    shapes: Shapes
    stamps: tuple[Profile, ...]

    @cached_property
    def latest(self) -> Profile | None:
        """The latest recorded event; of several, the last by name."""
        key = lambda item: (item.last, item.table.label, item.column.name)  # noqa: E731
        return max(self.shapes.recorded, key=key, default=None)


def evidence_of(
    item: Profile,
    value: str,
    rule: Rule,
    low: datetime.date | None,
    high: datetime.date | None,
    best: datetime.date | None,
) -> Evidence:
    """A finding in one column, and the days that it allows."""
    return Evidence(
        table=item.table.label,
        column=item.column.name,
        value=value,
        rule=rule,
        low=low,
        high=high,
        best=best,
    )


def named_as_built(table: Table) -> bool:
    """True for names that dbt projects give to what they build, and for dbt's snapshots."""
    return bool(LAYER.match(table.name)) or "__" in table.name or "dbt_scd_id" in table.names


def is_built(gathered: Gathered, start: Profile, added: str) -> bool:
    """Tell a table that was built here from a raw one, whose numbers were counted elsewhere.

    By its name, or because it is a gapless daily table, or because another table without the
    column `added` holds all of its start dates: what it was built from. A calendar holds any date.
    """
    if named_as_built(start.table) or start.dense_days:
        return True
    return any(
        other.table != start.table
        and not other.dense_days
        and added.lower() not in other.table.names
        and other.first <= start.first
        and start.last <= other.last
        and _holds(gathered, other, start)
        for other in gathered.catalog.profiles
    )


def _holds(gathered: Gathered, other: Profile, start: Profile) -> bool:
    row = gathered.connection.execute(
        f"SELECT count(*) FROM (SELECT DISTINCT {instant(start.column)}::DATE AS d "
        f"FROM {start.table.sql}) WHERE d IS NOT NULL AND d NOT IN (SELECT x FROM (SELECT "
        f"{instant(other.column)}::DATE AS x FROM {other.table.sql}) WHERE x IS NOT NULL)"
    ).fetchone()
    assert row is not None
    return bool(row[0] == 0)
