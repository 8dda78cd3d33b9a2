"""What the finders work on, and how they say what they found."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import duckdb

from stages.dates.database import Catalog, Profile
from stages.dates.models import Evidence, Rule
from stages.dates.shapes import Shapes


@dataclass(frozen=True)
class Gathered:
    """The connection, the catalog, and each column's role."""

    connection: duckdb.DuckDBPyConnection
    catalog: Catalog
    shapes: Shapes
    stamps: tuple[Profile, ...]


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
