"""Builds gold databases at random known days, dates them, and counts how often that was right."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb

from benchmarks.gold.data import DECOYS
from benchmarks.gold.kinds import KINDS, Tells
from stages.common.files import Record
from stages.dates.find import find_gold_date
from stages.dates.models import DateStatus, GoldDate

PINNED = datetime.date(2024, 9, 8)
FIRST = datetime.date(2018, 1, 2)
DAYS = 3000
ODD = (
    datetime.date(2020, 2, 29),
    datetime.date(2024, 2, 29),
    datetime.date(2023, 2, 28),
    datetime.date(2021, 3, 1),
    datetime.date(2022, 1, 31),
    datetime.date(2023, 4, 30),
    datetime.date(2025, 5, 1),
    datetime.date(2021, 10, 31),
)
"""Leap days and the edges of months: one database in seven is built on one of them."""


class Dated(Record):
    """One generated database: what it was built as and when, and what was found."""

    number: int
    kind: str
    tells: Tells
    built: datetime.date
    found: GoldDate

    @property
    def exact(self) -> bool:
        """A day was claimed, and it is the right one."""
        return self.found.status is DateStatus.EXACT and self.found.date == self.built

    @property
    def wrong(self) -> bool:
        """A day was claimed that is not the build's."""
        return self.found.status is DateStatus.EXACT and self.found.date != self.built

    @property
    def outside(self) -> bool:
        """Bounds were told that exclude the build's day."""
        low, high = self.found.low, self.found.high
        return (low is not None and self.built < low) or (high is not None and high < self.built)


class Count(Record):
    """How the databases of one kind were dated."""

    kind: str
    tells: Tells
    databases: int
    exact: int
    interval: int
    fallback: int
    conflict: int
    outside: int
    wrong: int

    def row(self) -> tuple[str, ...]:
        """The values, as text."""
        return tuple(str(value) for value in self.model_dump().values())


def build_all(folder: Path, count: int, seed: int) -> Iterator[Dated]:
    """Build and date `count` databases, every kind in turn, each with some decoys."""
    names = list(KINDS)
    for number in range(count):
        kind = names[number % len(names)]
        yield build_one(folder / "gold.duckdb", number, kind, seed)


def build_one(path: Path, number: int, kind: str, seed: int) -> Dated:
    """Build one database anew, and date it; the same numbers give the same database."""
    rng = random.Random(f"{seed} {number} {kind}")
    built = (
        rng.choice(ODD)
        if rng.random() < 0.15
        else FIRST + datetime.timedelta(days=rng.randrange(DAYS))
    )
    tells, maker = KINDS[kind]
    statements = maker(rng, built)
    for decoy in rng.sample(DECOYS, rng.choice([0, 1, 2, 4])):
        statements += decoy(rng, built)
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for statement in statements:
            connection.execute(statement)
    found = find_gold_date(path, PINNED)
    return Dated(number=number, kind=kind, tells=tells, built=built, found=found)


def by_kind(all_dated: Iterable[Dated]) -> list[Count]:
    """One line a kind, in the order in which they are built."""
    grouped: dict[str, list[Dated]] = {}
    for item in all_dated:
        grouped.setdefault(item.kind, []).append(item)
    return [
        Count(
            kind=kind,
            tells=items[0].tells,
            databases=len(items),
            exact=sum(item.exact for item in items),
            interval=sum(item.found.status is DateStatus.INTERVAL for item in items),
            fallback=sum(item.found.status is DateStatus.FALLBACK for item in items),
            conflict=sum(item.found.status is DateStatus.CONFLICT for item in items),
            outside=sum(item.outside for item in items),
            wrong=sum(item.wrong for item in items),
        )
        for kind, items in grouped.items()
    ]
