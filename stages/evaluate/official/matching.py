"""Whether a gold column equals a column of the result, by arrays wherever they tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import repeat, zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from stages.evaluate.official.cells import TOLERANCE, equal, first_disagreement
from stages.evaluate.official.columns import BATCH, TEXTS, Columns
from stages.evaluate.official.vectors import Array, Kind, Place, Vector

RELATIVE = 1e-9
SLACK = 1 + 1e-6
"""Rounding must not make sorted numbers seem further apart than those officially paired."""

MANY = 1_000_000
"""Rows that are too many to sort as objects for a better sentence."""

EXACT = {Kind.TEXT, Kind.IDENTIFIER, Kind.CLOCK_TIME, Kind.BYTES}


def matches(gold: Columns, at: int, result: Columns, other: int) -> bool:
    """Whether two columns agree in every row, as the official evaluator pairs them."""
    if gold.rows != result.rows:
        return False
    settled = _by_fingerprint(gold, at, result, other) if gold.in_any_order else None
    if settled is not None:
        return settled
    ours, theirs = gold.outline(at), result.outline(other)
    settled = _by_outline(ours, theirs)
    if settled is not None:
        return settled
    if ours.kind is not Kind.OTHER and theirs.kind is not Kind.OTHER:
        if not gold.in_any_order:
            return _in_rows(gold, at, result, other)
        if _sorts_alike(ours, theirs):
            return _in_any_order(gold, at, result, other)
    return equal(gold.official(at), result.official(other))


def _by_fingerprint(gold: Columns, at: int, result: Columns, other: int) -> bool | None:
    """What types and sums of hashes tell, wherever equal values match in any order."""
    ours, theirs = gold.fingerprint(at), result.fingerprint(other)
    if ours is None or theirs is None or ours[0] != theirs[0]:
        return None
    if ours == theirs:
        return True
    return False if ours[0] in TEXTS and ours[2] != theirs[2] else None


def _by_outline(gold: Vector, result: Vector) -> bool | None:
    """What kinds, NULLs and a few cells tell; None where they do not settle it.

    Where some pairing of two sets of numbers keeps each pair within the tolerance, so does the
    pairing in numeric order. Hence columns that are further apart in it match in no order.
    """
    if Kind.OTHER in (gold.kind, result.kind):
        ours, theirs = gold.families, result.families
        return False if ours and theirs and not ours & theirs else None
    if gold.nulls != result.nulls:
        return False
    if gold.nulls == gold.rows:
        return True
    if gold.kind is not result.kind:
        return False
    if gold.kind is Kind.NUMBER and not _all_close(gold.cells, result.cells, SLACK):
        return False
    if gold.kind in (Kind.MOMENT, Kind.ZONED, Kind.SPAN) and gold.sort == result.sort:
        return None if np.array_equal(gold.cells, result.cells) else False
    return None


def _sorts_alike(gold: Vector, result: Vector) -> bool:
    """Whether NULLs, and equal cells, come to stand at the same rows."""
    if gold.place is not result.place:
        return False
    return (
        gold.kind in (Kind.NUMBER, Kind.MOMENT) or gold.sort.split()[:1] == result.sort.split()[:1]
    )


def _in_rows(gold: Columns, at: int, result: Columns, other: int) -> bool:
    kind = gold.outline(at).kind
    if kind in EXACT:
        return _equal_texts(gold, at, result, other)
    ours, theirs = gold.vector(at), result.vector(other)
    if kind is Kind.NUMBER:
        return _all_close(ours.cells, theirs.cells)
    return _unit(ours) == _unit(theirs) and np.array_equal(ours.cells, theirs.cells)


def _in_any_order(gold: Columns, at: int, result: Columns, other: int) -> bool:
    """Columns of one kind that sort alike: for all but numbers, equal values are what it takes."""
    kind = gold.outline(at).kind
    if kind in EXACT:
        return _equal_texts(gold, at, result, other)
    ours, theirs = gold.vector(at), result.vector(other)
    if kind is Kind.NUMBER:
        return _numbers(ours, theirs)
    return _unit(ours) == _unit(theirs) and np.array_equal(ours.cells, theirs.cells)


def _unit(vector: Vector) -> str:
    return vector.sort.split()[-1]


def _numbers(gold: Vector, result: Vector) -> bool:
    same_texts = gold.sort == result.sort and gold.negative_zeros == result.negative_zeros
    if same_texts and np.array_equal(gold.cells, result.cells):
        return True
    if not _all_close(gold.cells, result.cells, SLACK):
        return False
    return _all_close(gold.by_text, result.by_text)


def _all_close(gold: Array, result: Array, slack: float = 1.0) -> bool:
    return all(
        bool(_close(gold[start : start + BATCH], result[start : start + BATCH], slack).all())
        for start in range(0, len(gold), BATCH)
    )


def _close(gold: Array, result: Array, slack: float = 1.0) -> npt.NDArray[np.bool_]:
    """`math.isclose` with the tolerances of `cells.agree`, times `slack`; NaN agrees with NaN."""
    ours = gold.astype(np.float64, copy=False)
    theirs = result.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(ours - theirs)
        near = apart <= TOLERANCE * slack
        near |= apart <= np.abs(RELATIVE * slack * ours)
        near |= apart <= np.abs(RELATIVE * slack * theirs)
    near &= np.isfinite(ours) & np.isfinite(theirs)
    near |= ours == theirs
    near |= np.isnan(ours) & np.isnan(theirs)
    return near


def _equal_texts(gold: Columns, at: int, result: Columns, other: int) -> bool:
    in_any_order = gold.in_any_order
    long = gold.is_long_text(at), result.is_long_text(other)
    if not any(long):
        ours, theirs = gold.vector(at).cells, result.vector(other).cells
        if bool((ours == theirs).all()):
            return True
        return in_any_order and Counter(ours.tolist()) == Counter(theirs.tolist())
    return all(a == b for a, b in zip_longest(gold.texts(at), result.texts(other)))


def first_difference(
    gold: Columns, at: int, result: Columns, other: int
) -> tuple[int, Any, Any] | None:
    """The first row, as officially paired, in which two columns of a length disagree.

    The row counts from 0; with it come both cells. None where telling would take too long.
    """
    ours, theirs = gold.outline(at), result.outline(other)
    if ours.kind is theirs.kind is not Kind.OTHER and gold.in_any_order:
        if ours.kind in (Kind.NUMBER, Kind.MOMENT) and ours.place is theirs.place is Place.LAST:
            return _first_apart(gold.vector(at), result.vector(other))
        if ours.kind in EXACT and not ours.nulls and not theirs.nulls:
            return _first_other_text(gold, at, result, other)
    if gold.in_any_order and gold.rows > MANY:
        return None
    one, two = gold.official(at), result.official(other)
    return None if one is None or two is None else first_disagreement(one, two)


def _first_apart(gold: Vector, result: Vector) -> tuple[int, Any, Any] | None:
    """Of two columns sorted by text, where NULL comes last."""
    sides = []
    for vector in (gold, result):
        if vector.kind is Kind.NUMBER:
            cells = vector.by_text
        else:
            cells = vector.cells.view(f"datetime64[{_unit(vector)}]")
        sides.append(cells)
    shared = min(map(len, sides))
    ours, theirs = (cells[:shared] for cells in sides)
    apart = ~_close(ours, theirs) if gold.kind is Kind.NUMBER else ours != theirs
    row = int(apart.argmax()) if apart.any() else shared
    if row >= max(map(len, sides)):
        return None
    one, two = (_cell(cells, row) for cells in sides)
    return row, one, two


def _cell(cells: Array, row: int) -> Any:
    if row >= len(cells):
        return None
    return pd.Timestamp(cells[row]) if cells.dtype.kind == "M" else cells[row].item()


def _first_other_text(gold: Columns, at: int, result: Columns, other: int) -> tuple[int, Any, Any]:
    pairs = zip(_one_by_one(gold, at), _one_by_one(result, other), strict=False)
    return next((row, one, two) for row, (one, two) in enumerate(pairs) if one != two)


def _one_by_one(columns: Columns, at: int) -> Iterator[str | None]:
    for batch in columns.texts(at):
        for text, times in batch:
            yield from repeat(text, times)
