"""How far two floating-point numbers may be apart and still be the same number.

Two numbers a and b, the larger of them m in size, agree when |a - b| is at most

    min( max(0.01, 1e-12 m),  max(floor, relative m) )

The first part is never wider than the official tolerance; the second makes it relative, so
that small ratios count. `floor` decides on values beside 0: what a sum of about a thousand
addends as large as gold's largest value is off by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[Any]

ABSOLUTE = 1e-2
OF_LARGE = 1e-12
RELATIVE = 1e-9
RELATIVE_SINGLE = 1e-6
"""Where FLOAT, of about seven digits, is on either side."""
FLOOR = 1e-12
FLOOR_OF_LARGEST = 1e-13


@dataclass(frozen=True)
class Tolerance:
    """The tolerance between a column of gold and one of the result."""

    relative: float
    floor: float

    def width(self, size: Vector) -> Vector:
        """The tolerance at each size; it never falls as the size grows."""
        outer = np.maximum(ABSOLUTE, OF_LARGE * size)
        width: Vector = np.minimum(outer, np.maximum(self.floor, self.relative * size))
        return width

    def agree(self, gold: Vector, result: Vector) -> Vector:
        """Which pairs agree; infinities and NaN agree with themselves only."""
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.maximum(np.abs(gold), np.abs(result))
            near = np.abs(gold - result) <= self.width(size)
            near &= np.isfinite(size)
        same: Vector = near | (gold == result) | (np.isnan(gold) & np.isnan(result))
        return same


def tolerance(largest: float, single: bool) -> Tolerance:
    """The tolerance for a column of gold whose largest finite value has this size."""
    floor = max(FLOOR, FLOOR_OF_LARGEST * largest)
    return Tolerance(RELATIVE_SINGLE if single else RELATIVE, floor)


def clusters(gold: Vector, result: Vector, allowed: Tolerance) -> tuple[Vector, Vector, bool]:
    """Labels for the numbers of both columns, such that numbers that agree have one label.

    All numbers are put in one row by size and cut wherever two neighbours do not agree.
    Because the tolerance grows more slowly than the numbers, numbers on two sides of a cut
    never agree. The third value says whether some label spans more than the tolerance, so
    that numbers may share it without agreeing.
    """
    pooled = np.concatenate([gold, result])
    order = np.argsort(pooled)
    ranked = pooled[order]
    starts = np.empty(len(ranked), dtype=bool)
    starts[:1] = True
    starts[1:] = ~allowed.agree(ranked[1:], ranked[:-1])
    labels = np.empty(len(ranked), dtype=np.uint64)
    labels[order] = np.cumsum(starts).astype(np.uint64)
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(ranked)) - 1
    loose = not bool(allowed.agree(ranked[first], ranked[last]).all())
    return labels[: len(gold)], labels[len(gold) :], loose
