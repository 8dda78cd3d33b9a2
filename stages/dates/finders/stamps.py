"""The finder for build stamps: columns that got one instant when their table was built."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from stages.dates.database import Table
from stages.dates.finders.gathered import Gathered, evidence_of, named_as_built
from stages.dates.models import Evidence, Rule
from stages.dates.profile import Catalog, Profile, shown
from stages.dates.shapes import LAYER, month_edge

ONE_RUN = datetime.timedelta(hours=6)
"""Stamps no further apart may be of one run that went on over midnight."""

_STAMP = re.compile(
    r"(^|_)(dbt|run|etl|elt|load|loaded|inserted|insertion|ingested|ingestion|built|build"
    r"|refreshed|processed|generated|transformed|materialized|materialised|computed|calculated"
    r"|snapshot|snapshotted|as_of|executed|execution|published)(_|$)",
    re.IGNORECASE,
)
_OF_DBT = re.compile(r"^_?dbt_|^_(run|model|build|built|etl)_", re.IGNORECASE)


def find_stamps(catalog: Catalog) -> tuple[Profile, ...]:
    """Constant columns of built tables whose source has no such column.

    A loader's stamp is in the source too, so it does not count, nor does one whose name begins
    with an underscore, as loaders' columns do, nor a value that begins or ends another column:
    that one may be computed from the data. In a single table its name has to say what it is.
    """
    sources: dict[str, list[Table]] = {}
    for table in catalog.tables:
        sources.setdefault(table.name.lower(), []).append(table)
    constant = [item for item in catalog.profiles if item.constant]
    found = [
        item
        for item in constant
        if (item.column.name[0] != "_" or _OF_DBT.search(item.column.name))
        and (not _is_day(item) or _STAMP.search(item.column.name))
        and any(
            item.column.name.lower() not in source.names
            for source in _built_from(catalog, sources, item.table)
        )
    ]
    others = {
        edge
        for item in catalog.profiles
        if not item.constant or _is_source(item, found)
        for edge in (item.lowest, item.highest)
    }
    found = [item for item in found if item.highest not in others]
    if len({item.table for item in found}) < 2:
        found = [item for item in found if _STAMP.search(item.column.name) and item.values > 1]
    return tuple(found)


def build_stamps(gathered: Gathered) -> list[Evidence]:
    """Instants that tables were given when they were built from tables without one."""
    instants = [item for item in gathered.stamps if not _is_day(item)]
    days = sorted(item.highest for item in instants)
    one_run = bool(days) and days[-1] - days[0] <= ONE_RUN
    found = []
    for item in instants:
        low, high = (days[0].date(), days[-1].date()) if one_run else (item.last, item.last)
        found.append(evidence_of(item, shown(item.highest), Rule.BUILD_STAMP, low, high, low))
    return found


def build_dates(gathered: Gathered) -> list[Evidence]:
    """Whole days given likewise: the clock's, or a report's day that was set by hand."""
    return [
        evidence_of(item, str(item.last), Rule.BUILD_DATE, item.last, item.last, item.last)
        for item in gathered.stamps
        if _is_day(item) and not month_edge(item.last)
    ]


def _is_source(item: Profile, found: list[Profile]) -> bool:
    """Whether a constant may be what the stamps found were copied from, or is another's."""
    if item in found or named_as_built(item.table):
        return False
    alike = [other for other in found if other.column.name.lower() == item.column.name.lower()]
    return not alike or any(item.table.names <= other.table.names for other in alike)


def _is_day(item: Profile) -> bool:
    return item.highest.time() == datetime.time()


def _built_from(catalog: Catalog, sources: dict[str, list[Table]], table: Table) -> Iterator[Table]:
    """The tables that this one may have been built from: they hold nothing that it has not."""
    layer = LAYER.match(table.name)
    by_name = sources.get(layer["source"].lower(), []) if layer else []
    yield from (source for source in by_name if source.names < table.names)
    raw = (f"raw_{table.name.lower()}", f"{table.name.lower()}_raw")
    built = named_as_built(table)
    for source in catalog.tables:
        known = built or source.name.lower() in raw
        if known and len(source.names) > 1 and source.names < table.names:
            yield source
