"""How two columns differ: on which rows, and what the differences have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stages.common.sql import quote
from stages.evaluate.diagnosis.align import Pairing
from stages.evaluate.models import Cause
from stages.evaluate.strict.kinds import BOOLEAN, MOMENT, NUMBER, TEXT, ZONED
from stages.evaluate.strict.sides import Side
from stages.evaluate.strict.tolerance import clusters, tolerance

Vector = npt.NDArray[Any]

DIGITS = range(7)
"""Precisions, in digits after the point, at which numbers are tried to agree."""
SMALL = 1e-4
"""Numbers that are no further apart than this share of their size differ by rounding."""
HUNDREDTH = 1e-2
KEPT_ROWS = 500_000
"""Codes are kept while tables have at most so many rows."""


@dataclass(frozen=True)
class Difference:
    """The cells of two columns that differ."""

    share: float
    """The share of rows that are equal, of the longer table's."""
    gold: Vector
    result: Vector
    """Row numbers: pairs of rows or, without a pairing, what is left over on either side."""


class Columns:
    """Compares single columns of the two tables, their rows paired or not."""

    def __init__(self, gold: Side, result: Side, pairing: Pairing | None) -> None:
        self.gold = gold
        self.result = result
        self.pairing = pairing
        self._codes: dict[tuple[bool, str], Vector] = {}

    def difference(self, at: int, other: int) -> Difference:
        """Where gold's column and the result's differ, by the strict rules."""
        size = max(self.gold.rows, self.result.rows)
        if self.pairing is None:
            return self._left_over(*self._labels(at, other), size)
        rows, others = self.pairing.gold, self.pairing.result
        equal = self._equal(at, other, rows, others)
        return Difference(float(equal.sum()) / size, rows[~equal], others[~equal])

    def cause(self, at: int, other: int, found: Difference) -> Cause:
        """What explains all these differing cells."""
        if len(found.gold) != len(found.result) or not len(found.gold):
            return Cause.VALUES_DIFFER
        ours, theirs = self._missing(self.gold, at), self._missing(self.result, other)
        missing, missing_too = ours[found.gold], theirs[found.result]
        if self.pairing is None:
            one_sided = bool(missing.all() or missing_too.all())
        else:
            one_sided = bool((missing | missing_too).all())
        if one_sided:
            return Cause.NULL_HANDLING
        if self._same_in_another_form(at, other, found):
            return Cause.TYPE_OR_FORMAT
        if self._same_when_rounded(at, other, found, bool(missing.any() or missing_too.any())):
            return Cause.ROUNDING
        return Cause.VALUES_DIFFER

    def _tolerant(self, at: int, other: int) -> bool:
        ours, theirs = self.gold.facets[at], self.result.facets[other]
        return ours.kind == theirs.kind == NUMBER and not (ours.exact and theirs.exact)

    def _code(self, side: Side, code: str) -> Vector:
        key = (side is self.gold, code)
        if key in self._codes:
            return self._codes[key]
        found = side.codes(code)
        if side.rows <= KEPT_ROWS:
            self._codes[key] = found
        return found

    def _equal(self, at: int, other: int, rows: Vector, others: Vector) -> Vector:
        ours, theirs = self.gold.facets[at], self.result.facets[other]
        if self._tolerant(at, other):
            values, null = self.gold.numbers(at)
            its_values, its_null = self.result.numbers(other)
            allowed = tolerance(_reach(values), ours.single or theirs.single)
            agree = allowed.agree(values[rows], its_values[others])
            equal: Vector = agree & (null[rows] == its_null[others])
            return equal
        left = self._code(self.gold, ours.text_code)[rows]
        right = self._code(self.result, theirs.text_code)[others]
        if ours.kind != theirs.kind:
            empty = self._missing(self.gold, at)[rows] & self._missing(self.result, other)[others]
            both: Vector = empty & (left == right)
            return both
        same: Vector = left == right
        return same

    def _labels(self, at: int, other: int) -> tuple[Vector, Vector]:
        """One number for each row, the same for equal values of the two columns."""
        ours, theirs = self.gold.facets[at], self.result.facets[other]
        if not self._tolerant(at, other):
            left = self._code(self.gold, ours.text_code)
            right = self._code(self.result, theirs.text_code)
            if ours.kind != theirs.kind:
                right = np.where(self._missing(self.result, other), right, right ^ np.uint64(1))
            return left, right
        values, null = self.gold.numbers(at)
        its_values, its_null = self.result.numbers(other)
        allowed = tolerance(_reach(values), ours.single or theirs.single)
        left, right, _ = clusters(values, its_values, allowed)
        last = np.uint64(2**64 - 1)
        return np.where(null, last, left), np.where(its_null, last, right)

    def _left_over(self, ours: Vector, theirs: Vector, size: int) -> Difference:
        """What remains when equal values of both sides are taken away one against one."""
        left, right = _beyond(ours, theirs), _beyond(theirs, ours)
        return Difference((len(ours) - len(left)) / size, left, right)

    def _missing(self, side: Side, at: int) -> Vector:
        """Which rows hold NULL or NaN."""
        name, known = quote(side.name(at)), side.facets[at]
        test = f"{name} IS NULL"
        if known.kind == NUMBER and not known.exact:
            test = f"({test} OR isnan({name}))"
        return self._code(side, f"CAST({test} AS UBIGINT)").astype(bool)

    def _same_in_another_form(self, at: int, other: int, found: Difference) -> bool:
        kinds = {self.gold.facets[at].kind, self.result.facets[other].kind}
        if kinds == {NUMBER}:
            return False
        for form in _forms(kinds):
            ours = self._code(self.gold, form.format(x=quote(self.gold.name(at))))
            theirs = self._code(self.result, form.format(x=quote(self.result.name(other))))
            left, right = ours[found.gold], theirs[found.result]
            if form is DAY and not self._cut_to_the_day(at, other, left, right, found):
                continue
            if self.pairing is None:
                left, right = np.sort(left), np.sort(right)
            if bool((left == right).all()):
                return True
        return False

    def _cut_to_the_day(
        self, at: int, other: int, left: Vector, right: Vector, found: Difference
    ) -> bool:
        """Whether one side holds whole days only, so that the other's time was cut off."""
        ours = self._code(self.gold, self.gold.facets[at].code)[found.gold]
        theirs = self._code(self.result, self.result.facets[other].code)[found.result]
        whole = (bool((ours == left).all()), bool((theirs == right).all()))
        kinds = (self.gold.facets[at].kind, self.result.facets[other].kind)
        return any(whole) or TEXT in kinds

    def _same_when_rounded(self, at: int, other: int, found: Difference, any_missing: bool) -> bool:
        ours, theirs = self.gold.facets[at], self.result.facets[other]
        if any_missing or not ours.kind == theirs.kind == NUMBER:
            return False
        left = self.gold.numbers(at)[0][found.gold]
        right = self.result.numbers(other)[0][found.result]
        if self.pairing is None:
            left, right = np.sort(left), np.sort(right)
        return same_when_rounded(left, right)


def same_when_rounded(left: Vector, right: Vector) -> bool:
    """Whether all pairs of numbers agree at a coarser precision.

    Whole numbers never do. Others do where all pairs are apart by no more than `SMALL`, or by no
    more than a hundredth and a hundredth of the largest; where one side has fewer digits after
    the point and is the other, rounded or cut; or where both have two digits or more and are
    one unit of the last digit apart, by at most a hundredth of their size.
    """
    if not bool(np.isfinite(left).all() and np.isfinite(right).all()):
        return False
    with np.errstate(over="ignore"):
        apart = np.abs(left - right)
        size = np.maximum(np.abs(left), np.abs(right))
    if bool((left == np.rint(left)).all() and (right == np.rint(right)).all()):
        return False
    if bool((apart <= SMALL * size).all()):
        return True
    if bool((apart <= min(HUNDREDTH, HUNDREDTH * float(size.max()))).all()):
        return True
    for digits in DIGITS:
        unit = 10.0**-digits
        coarse = (_has_digits(left, digits), _has_digits(right, digits))
        slack = unit * 1e-6 + 1e-12 * size
        if coarse[0] != coarse[1]:
            return bool((apart <= unit + slack).all())
        if all(coarse):
            close = (apart <= unit + slack) & (apart <= HUNDREDTH * size)
            return digits >= 2 and bool(close.all())
    return False


def _has_digits(values: Vector, digits: int) -> bool:
    """Whether all numbers have no more than so many digits after the point."""
    scaled = values * 10.0**digits
    return bool((np.abs(scaled - np.rint(scaled)) <= 1e-6 + 1e-12 * np.abs(scaled)).all())


def _reach(values: Vector) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if len(finite) else 0.0


def _beyond(ours: Vector, theirs: Vector) -> Vector:
    """Row numbers of values that occur more often here than there, as often as they do."""
    order = np.argsort(ours, kind="stable")
    ranked = ours[order]
    if not len(ranked):
        return order
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    group = np.cumsum(np.append(False, ranked[1:] != ranked[:-1]))
    rank = np.arange(len(ranked)) - starts[group]
    other = np.sort(theirs)
    low, high = (np.searchsorted(other, ranked[starts], side=side) for side in ("left", "right"))
    return np.sort(order[rank >= (high - low)[group]])


def _form(sql: str) -> str:
    """SQL of a code of the value in another form; what does not take that form keeps its own."""
    own = "hash('?' || CAST({x} AS VARCHAR))"
    return f"CASE WHEN {sql} IS NULL THEN {own} ELSE hash({sql}) END"


FOLDED = _form("lower(trim(CAST({x} AS VARCHAR)))")
AS_NUMBER = _form("TRY_CAST(CAST({x} AS VARCHAR) AS DOUBLE)")
AS_MOMENT = _form("TRY_CAST(CAST({x} AS VARCHAR) AS TIMESTAMP)")
DAY = _form("CAST(CAST(TRY_CAST(CAST({x} AS VARCHAR) AS TIMESTAMP) AS DATE) AS TIMESTAMP)")


TRUTH = _form(
    "CASE lower(trim(CAST({x} AS VARCHAR))) WHEN '1' THEN true WHEN '1.0' THEN true "
    "WHEN 'true' THEN true WHEN 't' THEN true WHEN 'yes' THEN true WHEN 'y' THEN true "
    "WHEN '0' THEN false WHEN '0.0' THEN false WHEN 'false' THEN false WHEN 'f' THEN false "
    "WHEN 'no' THEN false WHEN 'n' THEN false END"
)
"""Truth in words and digits."""


def _forms(kinds: set[str]) -> list[str]:
    found = [FOLDED]
    if TEXT in kinds or len(kinds) > 1:
        found += [AS_NUMBER, AS_MOMENT]
    if BOOLEAN in kinds:
        found.append(TRUTH)
    if kinds & {MOMENT, ZONED, TEXT}:
        found.append(DAY)
    return found
