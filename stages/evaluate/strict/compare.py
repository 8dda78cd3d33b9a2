"""The strict comparison of two tables: rows as rows, and each column of gold its own partner.

Two passes. First values are compared exactly, by sums of hashes that DuckDB computes where
the tables lie. Only where that fails, and a floating-point column is graded, the rows are
compared within the tolerance (`stages.evaluate.strict.near`).

The hashes have 64 bits and their sums 128: an unequal pair of tables that nobody contrived is
taken for equal with a chance of about 1 in 2^64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from stages.evaluate.strict.assign import Pair, UndecidedError, assign, injective, likeliest
from stages.evaluate.strict.kinds import NUMBER
from stages.evaluate.strict.near import Near
from stages.evaluate.strict.sides import Side, reach
from stages.evaluate.strict.tolerance import Tolerance, tolerance
from stages.evaluate.table import Table


class Fault(Enum):
    """What a strict comparison fails on."""

    NONE = "none"
    ROWS = "the numbers of rows"
    EMPTY = "the columns of empty tables"
    COLUMN = "a column without a partner"
    SHARED = "columns that share a partner"
    PAIRING = "the pairing of values in rows"
    UNDECIDED = "too many alike columns"


@dataclass(frozen=True)
class Strict:
    """The strict verdict on two tables."""

    matched: bool
    fault: Fault
    unmatched: tuple[int, ...]
    """Positions, in gold, of the columns that no column of the result equals by itself."""
    detail: str
    exactly: bool = False
    """Whether it took no tolerance."""


def graded_positions(gold: Table, columns: Sequence[int]) -> tuple[int, ...] | None:
    """Graded positions from 0, each once, in the config's order; null where one does not fit."""
    width = len(gold.columns)
    if any(not -width <= at < width for at in columns):
        return None
    return tuple(dict.fromkeys(at % width for at in columns)) or tuple(range(width))


def compare_strictly(
    gold: Table, result: Table, columns: Sequence[int], ignore_order: bool
) -> Strict:
    """Look for an assignment of result columns under which the rows are the same.

    Args:
        gold: The gold table.
        result: The trial's table.
        columns: Graded positions in gold, as `graded_positions` gives them.
        ignore_order: Compare the rows as a multiset, not as a sequence.
    """
    count = f"gold has {gold.rows} rows, the result {result.rows}"
    if gold.rows != result.rows:
        return Strict(False, Fault.ROWS, (), f"the number of rows differs: {count}")
    if gold.rows == 0:
        return _compare_empty(gold, result, columns)
    if not result.columns:
        return Strict(False, Fault.COLUMN, tuple(columns), "the result has no columns")
    return Comparison(gold, result, columns, ignore_order).run()


def _compare_empty(gold: Table, result: Table, columns: Sequence[int]) -> Strict:
    """No value tells columns apart, so that name and kind have to."""
    wanted, offered = Side(gold, False), Side(result, False)
    there = {
        (column.name.lower(), known.kind)
        for column, known in zip(result.columns, offered.facets, strict=True)
    }
    missing = [
        at for at in columns if (wanted.name(at).lower(), wanted.facets[at].kind) not in there
    ]
    if not missing:
        return Strict(True, Fault.NONE, (), "both tables are empty, with the same columns", True)
    name = wanted.name(missing[0])
    detail = (
        f"both tables are empty, and the result has no column {name!r} "
        f"of the kind {wanted.facets[missing[0]].kind}"
    )
    return Strict(False, Fault.EMPTY, tuple(missing), detail)


class Comparison:
    """Two tables of equally many rows, at least one."""

    def __init__(
        self, gold: Table, result: Table, columns: Sequence[int], ignore_order: bool
    ) -> None:
        self.gold = Side(gold, not ignore_order)
        self.result = Side(result, not ignore_order)
        self.columns = tuple(columns)
        self.ignore_order = ignore_order
        self._of_gold = self.gold.measures(self.columns)
        self._of_result = self.result.measures(range(len(result.columns)))
        self._alike: dict[Pair, bool] = {}
        measured = (*self._of_gold.values(), *self._of_result.values())
        self._by_digits = any(measure.wide for measure in measured)

    def run(self) -> Strict:
        """The verdict: exactly if that will do, else within the tolerance."""
        exact = {at: [r for r in self._possible(at) if self._equal(at, r)] for at in self.columns}
        if all(exact.values()):
            found = self._search(exact, self._rows_equal, exactly=True)
            if found.matched:
                return found
        possible = {at: self._possible(at) for at in self.columns}
        if not any(self.tolerant(at, r) for at, items in possible.items() for r in items):
            return found if all(exact.values()) else self._lacking(exact)
        near = Near(self)
        if self._guess_holds(near, possible, exact):
            return self._passed(exactly=False)
        close = {
            at: [r for r in items if (r in exact[at] and self.ignore_order) or near.column(at, r)]
            for at, items in possible.items()
        }
        if not all(close.values()):
            return self._lacking(close)
        return self._search(close, near.rows, exactly=False)

    def tolerant(self, at: int, other: int) -> bool:
        """Whether these two columns are compared within the tolerance."""
        ours, theirs = self.gold.facets[at], self.result.facets[other]
        numbers = ours.kind == theirs.kind == NUMBER and self._of_gold[at].filled > 0
        return numbers and not (ours.exact and theirs.exact)

    def tolerance(self, at: int, other: int) -> Tolerance:
        """The tolerance between these two columns."""
        single = self.gold.facets[at].single or self.result.facets[other].single
        return tolerance(reach(self._of_gold[at]), single)

    def codes(self, at: int, other: int) -> tuple[str, str]:
        """SQL of codes that are equal for exactly equal values of these two columns."""
        ours, theirs = self.gold.facets[at], self.result.facets[other]
        if self._of_gold[at].filled == 0:
            return "0", "0"
        if ours.exact and theirs.exact and self._by_digits:
            return ours.text_code, theirs.text_code
        return ours.code, theirs.code

    def _possible(self, at: int) -> list[int]:
        """Columns of the result that the measures do not rule out, the likeliest first."""
        name = self.gold.name(at).lower()
        found = [other for other in self._of_result if self._fits(at, other)]
        return sorted(found, key=lambda other: self.result.name(other).lower() != name)

    def _fits(self, at: int, other: int) -> bool:
        ours, theirs = self._of_gold[at], self._of_result[other]
        if ours.filled != theirs.filled:
            return False
        if ours.filled == 0:
            return True
        if self.gold.facets[at].kind != self.result.facets[other].kind:
            return False
        if not self.tolerant(at, other):
            return self._equal(at, other)
        edges = (np.array([side.low, side.high]) for side in (ours, theirs))
        return ours.odd == theirs.odd and bool(self.tolerance(at, other).agree(*edges).all())

    def _equal(self, at: int, other: int) -> bool:
        """Whether two columns that fit are exactly equal, each by itself."""
        ours, theirs = self._of_gold[at], self._of_result[other]
        if ours.filled == 0:
            return theirs.filled == 0
        if self._by_digits and not self.tolerant(at, other):
            code, its_code = self.codes(at, other)
            return self.gold.total((code,)) == self.result.total((its_code,))
        return ours.total == theirs.total

    def _rows_equal(self, pairs: tuple[Pair, ...]) -> bool:
        if not self.ignore_order:
            return True  # the measures have compared each column row by row
        codes = [self.codes(at, other) for at, other in pairs]
        ours, theirs = zip(*codes, strict=True)
        return self.gold.total(ours) == self.result.total(theirs)

    def _same(self, one: int, other: int) -> bool:
        key = (one, other)
        if key not in self._alike:
            self._alike[key] = self.result.same(one, other)
        return self._alike[key]

    def _search(
        self,
        candidates: dict[int, list[int]],
        holds: Callable[[tuple[Pair, ...]], bool],
        *,
        exactly: bool,
    ) -> Strict:
        if injective(candidates) is None:
            detail = "several graded columns equal one and the same column of the result"
            return Strict(False, Fault.SHARED, (), detail)
        try:
            found = assign(candidates, holds, self._same)
        except UndecidedError:
            detail = "too many columns are alike: no assignment of columns was found"
            return Strict(False, Fault.UNDECIDED, (), detail)
        if found is None:
            detail = "each graded column equals one of the result, but the rows do not"
            return Strict(False, Fault.PAIRING, (), detail)
        return self._passed(exactly=exactly)

    def _guess_holds(
        self, near: Near, possible: dict[int, list[int]], exact: dict[int, list[int]]
    ) -> bool:
        """Whether the likeliest partners will do: spares labels where columns are equal."""
        guess = likeliest(possible) if self.ignore_order else None
        if guess is None:
            return False
        pairs = tuple(guess.items())
        exactly = {(at, other) for at, other in pairs if other in exact[at]}
        return near.rows(pairs, exactly)

    def _passed(self, *, exactly: bool) -> Strict:
        how = "" if exactly else ", within the tolerance"
        detail = (
            f"all {len(self.columns)} graded columns agree row by row{how}; {self.gold.rows} rows"
        )
        return Strict(True, Fault.NONE, (), detail, exactly)

    def _lacking(self, candidates: dict[int, list[int]]) -> Strict:
        lacking = tuple(at for at in self.columns if not candidates[at])
        detail = (
            f"{len(lacking)} of {len(self.columns)} graded columns equal no column of the result, "
            f"first {self.gold.name(lacking[0])!r} (position {lacking[0]})"
        )
        return Strict(False, Fault.COLUMN, lacking, detail)
