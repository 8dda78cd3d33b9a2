"""Every mutation of one gold table: which column, which row, and the SQL that makes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from stages.evaluate.controls.models import Kind
from stages.evaluate.controls.numbered import NUMBERED, Mutation, Numbered
from stages.evaluate.strict.kinds import BOOLEAN, MOMENT, NUMBER, TEXT, ZONED, facet

DECIMAL = re.compile(r"DECIMAL\(\d+,(\d+)\)\Z")
FLOATING = ("FLOAT", "DOUBLE")
DIGITS = (6, 5, 4, 3, 2, 1, 0, -1, -2)
SMALL = 0.004
"""Below the official tolerance, and above the strict one for numbers below `SMALL_BELOW`."""
SMALL_BELOW = 1e5
SMALL_BELOW_SINGLE = 1e3
"""The same for FLOAT, which holds about seven digits."""


def counting(test: Callable[[int], str]) -> Callable[[int], str]:
    """SQL that counts the rows that pass a column's test."""
    return lambda at: f"count(*) FILTER ({test(at)})"


@dataclass(frozen=True)
class Mutator:
    """Makes mutations of one table, the same ones every time for the same seed."""

    rows: Numbered
    seed: str
    each: int
    """Of how many columns mutants of one kind are made, at most."""
    ignore_order: bool

    def mutations(self) -> Iterator[Mutation]:
        """All that the table has a column or a row for."""
        if self.rows.rows:
            yield from self._cells()
            yield from self._rows()
            yield from self._columns()
            yield from self._reordered()
        yield from self._passing()

    def _random(self, kind: Kind) -> Random:
        return Random(f"{self.seed}/{kind.name}")

    def _some(self, kind: Kind, families: Sequence[str], count: Callable[[int], str]) -> list[int]:
        """A few graded columns of these kinds of value, of those where a count is not 0."""
        fitting = [
            at for at, column in enumerate(self.rows.columns) if facet(column).kind in families
        ]
        if not fitting:
            return []
        counts = self.rows.ask(", ".join(count(at) for at in fitting))
        there = [at for at, found in zip(fitting, counts, strict=True) if found]
        return sorted(self._random(kind).sample(there, min(self.each, len(there))))

    def _name(self, at: int) -> str:
        return self.rows.columns[at].name

    def _type(self, at: int) -> str:
        return self.rows.columns[at].type

    # One cell

    def _cells(self) -> Iterator[Mutation]:
        for kind, families, test, change in (
            (Kind.NUMBER, (NUMBER,), self._is_finite, self._other_number),
            (Kind.SMALL_NUMBER, (NUMBER,), self._is_small, self._near_number),
            (Kind.TEXT, (TEXT,), self._is_there, self._other_text),
            (Kind.DATE, (MOMENT, ZONED), self._is_day, self._next_day),
            (Kind.BOOLEAN, (BOOLEAN,), self._is_there, self._negated),
        ):
            random = self._random(kind)
            for at in self._some(kind, families, counting(test)):
                row = self.rows.pick(test(at), random)
                kept = f"c{at}"
                if kind is Kind.TEXT:
                    kept = f"CAST(c{at} AS VARCHAR)"  # an ENUM holds no other text, JSON no plain
                sql = f"CASE WHEN n = {row} THEN {change(at)} ELSE {kept} END"
                what = f"{self._name(at)!r} in row {row}"
                yield Mutation(kind, what, self.rows.with_column(at, sql), (at,))

    def _is_there(self, at: int) -> str:
        return f"c{at} IS NOT NULL"

    def _is_finite(self, at: int) -> str:
        return f"isfinite(CAST(c{at} AS DOUBLE))"

    def _is_day(self, at: int) -> str:
        return f"isfinite(c{at})"

    def _is_zero(self, at: int) -> str:
        return f"c{at} = 0"

    def _is_null(self, at: int) -> str:
        return f"c{at} IS NULL"

    def _other_number(self, at: int) -> str:
        """A whole number's neighbour; a floating-point number well beyond the tolerance."""
        name = f"c{at}"
        if self._type(at) in FLOATING:
            other = f"CASE WHEN abs({name}) > 1000 THEN {name} * 0.999 ELSE {name} + 1 END"
        else:
            other = f"CASE WHEN {name} > 0 THEN {name} - 1 ELSE {name} + 1 END"
        return f"CAST({other} AS {self._type(at)})"

    def _is_small(self, at: int) -> str:
        match = DECIMAL.match(self._type(at))
        if self._type(at) not in FLOATING and not (match and int(match[1]) > 2):
            return "false"
        size = f"abs(CAST(c{at} AS DOUBLE))"
        largest = f"(SELECT max(abs(CAST(c{at} AS DOUBLE))) FROM {NUMBERED})"
        below = SMALL_BELOW_SINGLE if self._type(at) == "FLOAT" else SMALL_BELOW
        return f"{size} < {below} AND {largest} < 1e9"

    def _near_number(self, at: int) -> str:
        return f"CAST(c{at} + {SMALL} AS {self._type(at)})"

    def _other_text(self, at: int) -> str:
        return f"CAST(c{at} AS VARCHAR) || '~'"

    def _next_day(self, at: int) -> str:
        return f"CAST(c{at} + INTERVAL 1 DAY AS {self._type(at)})"

    def _negated(self, at: int) -> str:
        return f"NOT c{at}"

    # Rows

    def _rows(self) -> Iterator[Mutation]:
        same, every = self.rows.unchanged(), tuple(range(len(self.rows.columns)))
        random = self._random(Kind.ROW_DROPPED)
        first, second = (random.randrange(self.rows.rows) + 1 for _ in range(2))
        for kind, what, source in (
            (Kind.ROW_DROPPED, f"row {first}", f"{NUMBERED} WHERE n <> {first}"),
            (
                Kind.ROW_DOUBLED,
                f"row {first}",
                f"(FROM {NUMBERED} UNION ALL FROM {NUMBERED} WHERE n = {first})",
            ),
            (Kind.NO_ROWS, f"{self.rows.rows} rows", f"{NUMBERED} WHERE false"),
        ):
            yield Mutation(kind, what, same, every, source)
        if self.rows.rows > 1:
            if first == second:
                second = first % self.rows.rows + 1
            replaced = (
                f"(FROM {NUMBERED} WHERE n <> {first} UNION ALL "
                f"SELECT * REPLACE ({first} AS n) FROM {NUMBERED} WHERE n = {second})"
            )
            what = f"row {first} by row {second}"
            yield Mutation(Kind.ROW_REPLACED, what, same, every, replaced)

    def _reordered(self) -> Iterator[Mutation]:
        kind = Kind.ROWS_REORDERED if self.ignore_order else Kind.ROWS_REORDERED_COUNTS
        changed = () if self.ignore_order else tuple(range(len(self.rows.columns)))
        if self.rows.rows > 1:
            same = self.rows.unchanged()
            yield Mutation(kind, "from last to first", same, changed, order="n DESC")

    # Whole columns

    def _columns(self) -> Iterator[Mutation]:
        yield from self._scrambled()
        yield from self._rounded()
        for kind, families, test, other in (
            (Kind.NULL_FOR_ZERO, (NUMBER,), self._is_zero, "nullif({c}, 0)"),
            (Kind.ZERO_FOR_NULL, (NUMBER,), self._is_null, "coalesce({c}, 0)"),
            (Kind.TEXT_FOR_NUMBER, (NUMBER,), self._is_there, "CAST({c} AS VARCHAR) || ' units'"),
            (Kind.NUMBER_AS_TEXT, (NUMBER,), self._is_there, "CAST({c} AS VARCHAR)"),
            (Kind.DAY_SHIFT, (MOMENT, ZONED), self._is_day, "CAST({c} + INTERVAL 1 DAY AS {t})"),
        ):
            for at in self._some(kind, families, counting(test)):
                yield self._column(kind, at, other.format(c=f"c{at}", t=self._type(at)))
        for at in self._some(Kind.TEXT_AS_NUMBER, (TEXT,), self._only_numbers):
            yield self._column(Kind.TEXT_AS_NUMBER, at, self._as_number(at))

    def _as_number(self, at: int) -> str:
        return f"TRY_CAST(CAST(c{at} AS VARCHAR) AS DOUBLE)"

    def _only_numbers(self, at: int) -> str:
        """How many texts there are, or 0 where any is no number."""
        return f"CASE WHEN count({self._as_number(at)}) = count(c{at}) THEN count(c{at}) END"

    def _column(self, kind: Kind, at: int, sql: str, what: str = "") -> Mutation:
        return Mutation(kind, f"{self._name(at)!r}{what}", self.rows.with_column(at, sql), (at,))

    def _scrambled(self) -> Iterator[Mutation]:
        """Each row gets the value of the row that stands some rows further on."""
        kind, rows = Kind.SCRAMBLED, self.rows.rows
        random = self._random(kind)
        places = range(len(self.rows.columns))
        if rows < 2:
            return
        for at in sorted(random.sample(places, min(self.each, len(places)))):
            by = random.randrange(1, rows)
            source = (
                f"(SELECT ours.* REPLACE (theirs.c{at} AS c{at}) FROM {NUMBERED} AS ours "
                f"JOIN {NUMBERED} AS theirs ON theirs.n = (ours.n - 1 + {by}) % {rows} + 1)"
            )
            what = f"{self._name(at)!r} by {by} rows"
            changed = () if self.ignore_order else (at,)
            yield Mutation(kind, what, self.rows.unchanged(), changed, source)

    def _rounded(self) -> Iterator[Mutation]:
        for at in self._some(Kind.ROUNDED, (NUMBER,), counting(self._is_there)):
            digits = self._telling_digits(at)
            if not digits:
                continue
            whole = 0 in digits and digits[0] > 0
            for kind, places in ((Kind.ROUNDED, digits[0]), *[(Kind.ROUNDED_WHOLE, 0)] * whole):
                sql = f"CAST(round(c{at}, {places}) AS {self._type(at)})"
                yield self._column(kind, at, sql, f" to {places} digits")

    def _telling_digits(self, at: int) -> list[int]:
        """Digits to which rounding changes a value by more than the error of a sum."""
        name, value = f"c{at}", f"CAST(c{at} AS DOUBLE)"
        relative = 1e-6 if self._type(at) == "FLOAT" else 1e-9
        finite = f"isfinite({value})"
        (largest,) = self.rows.ask(f"max(abs({value})) FILTER ({finite})")
        noise = f"2 * greatest({relative} * abs({value}), 1e-12, 1e-13 * {float(largest or 0)!r})"
        found = self.rows.ask(
            ", ".join(
                f"count(*) FILTER ({finite} AND "
                f"abs({value} - CAST(round({name}, {places}) AS DOUBLE)) > {noise})"
                for places in DIGITS
            )
        )
        return [places for places, count in zip(DIGITS, found, strict=True) if count]

    # What must pass

    def _passing(self) -> Iterator[Mutation]:
        same = self.rows.unchanged()
        names = [name for _, name in same]
        if len(same) > 1:
            yield Mutation(Kind.COLUMNS_REORDERED, "from last to first", same[::-1], ())
            if self.rows.rows:
                moved = [(sql, names[at - 1]) for at, (sql, _) in enumerate(same)]
                what = "each with its neighbour's"
                yield Mutation(Kind.NAMES_EXCHANGED, what, tuple(moved), ())
        renamed = tuple((sql, f"renamed {at}") for at, (sql, _) in enumerate(same))
        yield Mutation(Kind.COLUMNS_RENAMED, "all of them", renamed, ())
        extra = "extra"
        while extra in {name.lower() for name in names}:
            extra += "_"
        yield Mutation(Kind.EXTRA_COLUMN, "before the others", (("n", extra), *same), ())
