"""Rows compared within the tolerance.

1. Where the order counts, rows are paired by their number, and each pair of columns is
   compared by itself.
2. Else, where the exactly compared columns tell all rows apart, they pair the rows.
3. Else numbers get labels such that numbers that agree share one (`tolerance.clusters`), and
   the rows are compared as a multiset of labels and codes. Where a label spans more than the
   tolerance, sharing it does not prove agreement: rows with the same labels are then paired in
   the order of their numbers and, where that fails, by a maximum matching.

A pass is always proved. A failure is too, but for one case: more than `MATCHED_AT_ONCE` rows
that share all their labels, which no pairing by order fits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from stages.evaluate.strict.assign import Pair
from stages.evaluate.strict.tolerance import clusters

if TYPE_CHECKING:
    from stages.evaluate.strict.compare import Comparison

Vector = npt.NDArray[Any]

MATCHED_AT_ONCE = 2000
"""Rows of equal labels at most, for a matching of every row with every other."""

KEPT_CELLS = 20_000_000
"""Labels are kept for so many cells; tables of more compute them anew."""

NULL_LABEL = np.uint64(2**64 - 1)


class Near:
    """The comparison within the tolerance, for `assign`."""

    def __init__(self, comparison: Comparison) -> None:
        self._with = comparison
        self._labels: dict[Pair, tuple[Vector, Vector, bool]] = {}
        self._columns: dict[Pair, bool] = {}

    def column(self, at: int, other: int) -> bool:
        """Whether two columns may agree, each by itself; in order, whether they do."""
        key = (at, other)
        if key not in self._columns:
            if not self._with.ignore_order:
                self._columns[key] = self._agree(key, None)
            else:
                ours, theirs, _ = self._labelled(key)
                self._columns[key] = _total(_mixed(ours)) == _total(_mixed(theirs))
        return self._columns[key]

    def rows(self, pairs: tuple[Pair, ...], exactly: Collection[Pair] = frozenset()) -> bool:
        """Whether the rows agree on these pairs of columns.

        Pairs in `exactly` are compared without a tolerance: faster, and a pass is a pass.
        """
        if not self._with.ignore_order:
            return True  # `column` has compared them row by row
        tolerant = tuple(
            pair for pair in pairs if self._with.tolerant(*pair) and pair not in exactly
        )
        exact = tuple(pair for pair in pairs if pair not in tolerant)
        ours, theirs = self._row_codes(exact)
        if _total(ours) != _total(theirs):
            return False
        orders = (np.argsort(ours), np.argsort(theirs))
        ranked = ours[orders[0]]
        if not bool((ranked[1:] == ranked[:-1]).any()):
            return all(self._agree(pair, orders) for pair in tolerant)
        return self._multisets(ours, theirs, tolerant)

    def _row_codes(self, exact: tuple[Pair, ...]) -> tuple[Vector, Vector]:
        codes = [self._with.codes(*pair) for pair in exact]
        ours = self._with.gold.row_codes([code for code, _ in codes])
        return ours, self._with.result.row_codes([code for _, code in codes])

    def _agree(self, pair: Pair, orders: tuple[Vector, Vector] | None) -> bool:
        """Whether two columns agree row by row, the rows paired by these orders."""
        at, other = pair
        if not self._with.tolerant(at, other):
            ours, theirs = self._row_codes((pair,))
            return bool((ours == theirs).all())
        sides = [self._with.gold.numbers(at), self._with.result.numbers(other)]
        if orders is not None:
            sides = [
                (values[order], null[order])
                for (values, null), order in zip(sides, orders, strict=True)
            ]
        (ours, our_null), (theirs, their_null) = sides
        if bool((our_null != their_null).any()):
            return False
        return bool(self._with.tolerance(at, other).agree(ours, theirs).all())

    def _labelled(self, pair: Pair) -> tuple[Vector, Vector, bool]:
        """Labels of two columns, and whether some label spans more than the tolerance."""
        if pair in self._labels:
            return self._labels[pair]
        at, other = pair
        ours, our_null = self._with.gold.numbers(at)
        theirs, their_null = self._with.result.numbers(other)
        allowed = self._with.tolerance(at, other)
        left, right, loose = clusters(ours[~our_null], theirs[~their_null], allowed)
        found = (_spread(left, our_null), _spread(right, their_null), loose)
        if len(found[0]) * (len(self._labels) + 1) <= KEPT_CELLS:
            self._labels[pair] = found
        return found

    def _multisets(self, ours: Vector, theirs: Vector, tolerant: tuple[Pair, ...]) -> bool:
        loose: list[Pair] = []
        for pair in tolerant:
            left, right, spans = self._labelled(pair)
            ours, theirs = _folded(ours, left), _folded(theirs, right)
            if spans:
                loose.append(pair)
            if _total(ours) != _total(theirs):
                return False
        return not loose or self._pairable(ours, theirs, loose)

    def _pairable(self, ours: Vector, theirs: Vector, loose: list[Pair]) -> bool:
        """Whether rows of the same labels can be paired so that their numbers agree."""
        values = [
            (self._with.gold.numbers(at)[0], self._with.result.numbers(other)[0])
            for at, other in loose
        ]
        order = np.lexsort((*reversed([left for left, _ in values]), ours))
        partner = np.lexsort((*reversed([right for _, right in values]), theirs))
        apart = np.zeros(len(order), dtype=bool)
        for pair, (left, right) in zip(loose, values, strict=True):
            apart |= ~self._with.tolerance(*pair).agree(left[order], right[partner])
        if not bool(apart.any()):
            return True
        ranked = ours[order]
        starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
        ends = np.append(starts[1:], len(ranked))
        touched = np.unique(np.searchsorted(starts, np.flatnonzero(apart), side="right") - 1)
        for group in touched:
            rows, others = (side[starts[group] : ends[group]] for side in (order, partner))
            if not self._matched(rows, others, loose, values):
                return False
        return True

    def _matched(
        self,
        rows: Vector,
        others: Vector,
        loose: list[Pair],
        values: list[tuple[Vector, Vector]],
    ) -> bool:
        """Whether a maximum matching pairs all these rows."""
        if len(rows) > MATCHED_AT_ONCE:
            return False
        near = np.ones((len(rows), len(rows)), dtype=bool)
        for pair, (left, right) in zip(loose, values, strict=True):
            near &= self._with.tolerance(*pair).agree(left[rows][:, None], right[others][None, :])
        return bool((maximum_bipartite_matching(csr_array(near)) >= 0).all())


def _spread(labels: Vector, null: Vector) -> Vector:
    found = np.full(len(null), NULL_LABEL, dtype=np.uint64)
    found[~null] = labels
    return found


def _mixed(codes: Vector) -> Vector:
    """Well mixed 64-bit codes (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        found = codes + np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Vector = found ^ (found >> np.uint64(31))
        return mixed


def _folded(codes: Vector, labels: Vector) -> Vector:
    """One code for each row's code and label."""
    with np.errstate(over="ignore"):
        return _mixed(codes * np.uint64(0xFF51AFD7ED558CCD) ^ _mixed(labels))


def _total(codes: Vector) -> tuple[int, int]:
    """The same for equal multisets of codes."""
    with np.errstate(over="ignore"):
        return int(codes.sum(dtype=np.uint64)), int(_mixed(codes).sum(dtype=np.uint64))
