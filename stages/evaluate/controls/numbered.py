"""The graded columns of a gold table with their rows numbered, and mutants made of them.

Both lie in temporary tables of the connection that reads gold, which is open read-only: they
are kept in memory, and gold's file is neither written nor copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from stages.common.sql import quote
from stages.evaluate.controls.models import Kind
from stages.evaluate.table import Column, Table, open_table

NUMBERED = quote("temp", "main", "numbered rows of gold")
MUTANT = quote("temp", "main", "mutant of gold")

FEW = 100_000
"""Fewer rows are read faster by a single thread: there are many short queries."""


@dataclass(frozen=True)
class Mutation:
    """How a mutant is selected from the numbered rows, where columns are n, c0, c1, …"""

    kind: Kind
    what: str
    """Column, row and change, in one phrase."""
    select: tuple[tuple[str, str], ...]
    """SQL and name of each of the mutant's columns."""
    changed: tuple[int, ...]
    """Graded columns whose values are others, in some order: 0 for the first graded."""
    source: str = NUMBERED
    """What stands after FROM."""
    order: str = "n"

    @property
    def sql(self) -> str:
        """The mutant as a query without its columns' names, which the order could take for n."""
        asked = ", ".join(sql for sql, _ in self.select)
        return f"SELECT {asked} FROM {self.source} ORDER BY {self.order}"

    @property
    def names(self) -> str:
        """The columns' names, quoted."""
        return ", ".join(quote(name) for _, name in self.select)


class Numbered:
    """The numbered rows of one gold table; one at a time on a connection."""

    def __init__(self, gold: Table, positions: Sequence[int]) -> None:
        """Number the rows. `positions` are those of the graded columns, each once."""
        self.gold = gold
        self.positions = tuple(positions)
        self.columns: tuple[Column, ...] = tuple(gold.columns[at] for at in positions)
        self.rows = gold.rows
        asked = ", ".join(
            f"{quote(column.name)} AS c{at}" for at, column in enumerate(self.columns)
        )
        self._run("SET threads = 1" if self.rows < FEW else "RESET threads")
        self._run(
            f"CREATE OR REPLACE TEMP TABLE {NUMBERED} AS "
            f"SELECT row_number() OVER () AS n, {asked} FROM {gold.source}"
        )

    def unchanged(self) -> tuple[tuple[str, str], ...]:
        """The columns as they are."""
        return tuple((f"c{at}", column.name) for at, column in enumerate(self.columns))

    def with_column(self, at: int, sql: str) -> tuple[tuple[str, str], ...]:
        """The columns, one of them computed."""
        same = self.unchanged()
        return (*same[:at], (sql, self.columns[at].name), *same[at + 1 :])

    def ask(self, asked: str) -> tuple[Any, ...]:
        """One row of aggregates over the numbered rows."""
        (found,) = self._run(f"SELECT {asked} FROM {NUMBERED}")
        return tuple(found)

    def pick(self, test: str, random: Random) -> int:
        """The number of one of the rows that pass a test, of which there must be one."""
        (count,) = self.ask(f"count(*) FILTER ({test})")
        ((row,),) = self._run(
            f"SELECT n FROM {NUMBERED} WHERE {test} "
            f"ORDER BY n LIMIT 1 OFFSET {random.randrange(count)}"
        )
        return int(row)

    def make(self, mutation: Mutation) -> Table:
        """The mutant, which replaces the one before; raises `duckdb.Error` as its SQL does."""
        self._run(f"CREATE OR REPLACE TEMP TABLE {MUTANT} ({mutation.names}) AS {mutation.sql}")
        return open_table(self.gold.connection, MUTANT)

    def same(self, mutant: Table, *, in_order: bool) -> bool:
        """Whether the mutant made last holds the same rows in columns of the same types.

        Rows are compared as DuckDB's EXCEPT ALL compares them: exactly, NULL with NULL and NaN
        with NaN.
        """
        if [column.type for column in mutant.columns] != [item.type for item in self.columns]:
            return False
        if mutant.rows != self.rows:
            return False
        number = "row_number() OVER (), " if in_order else ""
        ours = ", ".join(f"c{at}" for at in range(len(self.columns)))
        theirs = ", ".join(quote(column.name) for column in mutant.columns)
        ((apart,),) = self._run(
            f"SELECT count(*) FROM (SELECT {'n, ' if in_order else ''}{ours} FROM {NUMBERED} "
            f"EXCEPT ALL SELECT {number}{theirs} FROM {MUTANT})"
        )
        return bool(apart == 0)

    def drop(self) -> None:
        """Free both temporary tables."""
        for name in (MUTANT, NUMBERED):
            self._run(f"DROP TABLE IF EXISTS {name}")

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        return self.gold.connection.execute(sql).fetchall()
