"""One shipped model beside gold's table: which columns can be compared, and on which days match."""

from __future__ import annotations

import datetime

import duckdb

from stages.dates.rebuild.compare import (
    Compared,
    Kind,
    Number,
    Relation,
    common_columns,
    equal_columns,
    equal_rows,
    statistics,
)

SHOWN = 3
"""Columns named in a finding before the rest is counted."""


class Watched:
    """A model that gold also holds, and what was built of it on each day (null: it failed)."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, gold: Relation) -> None:
        self.connection = connection
        self.name = name
        self.gold = gold
        self.built: dict[datetime.date, Relation | None] = {}
        self.depends = False
        self.left_out: dict[str, str] = {}
        """Columns that are not compared, with the reason."""
        self._columns: list[Compared] = []
        self._clock: set[str] = set()
        self._held: dict[datetime.date, bool] = {}
        self._gold_numbers: dict[Number, float] = {}
        self._numbers: dict[datetime.date, dict[Number, float]] = {}

    def good_days(self) -> list[datetime.date]:
        """The days on which it could be built, in the order of their builds."""
        return [day for day, relation in self.built.items() if relation is not None]

    def learn(self, again: Relation | None) -> None:
        """Tell what depends on the clock, from all builds so far and a second one of the first.

        What differs between two builds of one day is not the clock's: a running time of day is
        compared by its day, other such columns are left out.
        """
        days = self.good_days()
        if not days:
            return
        first = self.built[days[0]]
        assert first is not None
        columns = common_columns(self.gold, first)
        if again is not None:
            columns = self._settle(columns, first, again)
        others = [relation for day in days[1:] if (relation := self.built[day]) is not None]
        same = {column.name for column in columns}
        for other in others:
            same &= equal_columns(self.connection, first, other, columns)
        self._clock = {column.name for column in columns if column.name not in same}
        self.depends = bool(self._clock) or len(days) < len(self.built)
        if not others:
            self._clock = {column.name for column in columns}
        fixed = [column for column in columns if column.name not in self._clock]
        equal = equal_columns(self.connection, self.gold, first, fixed)
        if fixed and self.gold.rows == first.rows:
            for column in fixed:
                if column.name not in equal:
                    self.left_out[column.name] = "differs from gold on every day alike"
        self._columns = [column for column in columns if column.name not in self.left_out]

    def holds(self, day: datetime.date) -> bool:
        """Whether gold's table is what was built on that day."""
        relation = self.built.get(day)
        if relation is None or not self._clock - self.left_out.keys():
            return False
        if day not in self._held:
            self._held[day] = equal_rows(self.connection, self.gold, relation, self._columns)
        return self._held[day]

    def relax(self) -> bool:
        """Leave out the clock's columns that match on no day, where others match on some.

        Such a column differs for another reason than the day. True where anything was left out;
        never for half of the columns or more.
        """
        matched: set[str] = set()
        clock = [column for column in self._columns if column.name in self._clock]
        for day in self.good_days():
            relation = self.built[day]
            assert relation is not None
            matched |= equal_columns(self.connection, self.gold, relation, clock)
        never = {column.name for column in clock} - matched
        if not matched or not never or 2 * len(never) >= len(self._columns):
            return False
        self.left_out |= dict.fromkeys(sorted(never), "differs from gold on every day tried")
        self._columns = [column for column in self._columns if column.name not in never]
        self._held.clear()
        return True

    def wanted(self) -> dict[Number, float]:
        """Gold's numbers that move with the clock."""
        if not self._gold_numbers:
            self._gold_numbers = self._moving(self.gold)
        return self._gold_numbers

    def seen(self) -> dict[datetime.date, dict[Number, float]]:
        """The same numbers on each day that was built."""
        for day, relation in self.built.items():
            if relation is not None and day not in self._numbers:
                self._numbers[day] = self._moving(relation)
        return dict(self._numbers)

    def finding(self, day: datetime.date) -> str:
        """What was found on a day, in a few words."""
        relation = self.built.get(day)
        if relation is None:
            return f"{self.name} does not build"
        if self.holds(day):
            return f"{self.name} reproduces gold"
        if relation.rows != self.gold.rows:
            return f"{self.name} has {relation.rows} rows, gold {self.gold.rows}"
        equal = equal_columns(self.connection, self.gold, relation, self._columns)
        differ = [column.name for column in self._columns if column.name not in equal]
        more = f" and {len(differ) - SHOWN} more" if len(differ) > SHOWN else ""
        return f"{self.name} differs in {', '.join(differ[:SHOWN]) or 'its rows'}{more}"

    def _moving(self, relation: Relation) -> dict[Number, float]:
        clock = [column for column in self._columns if column.name in self._clock]
        return dict(statistics(self.connection, relation, clock))

    def _settle(self, columns: list[Compared], first: Relation, again: Relation) -> list[Compared]:
        """The columns that two builds of one day agree on, times by their day if need be."""
        equal = equal_columns(self.connection, first, again, columns)
        settled = []
        for column in columns:
            if column.name in equal:
                settled.append(column)
            elif column.kind is Kind.TIME and equal_columns(
                self.connection, first, again, [column.by_day()]
            ):
                settled.append(column.by_day())
            else:
                self.left_out[column.name] = "differs between two builds of one day"
        return settled
