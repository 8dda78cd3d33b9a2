"""The official rules for single cells: when two agree, how a column is sorted.

Slow, since every cell is a Python object: `vectors` says where whole arrays give the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionDtype

TOLERANCE = 1e-2
"""Numbers agree within it, or within `math.isclose`'s own relative 1e-9."""

NUMBER = (int, float)
CHUNK = 65_536
"""Cells that are Python objects at a time, so that one long column is not held twice."""

PLAIN = (
    pd.BooleanDtype,
    pd.CategoricalDtype,
    pd.Int8Dtype,
    pd.Int16Dtype,
    pd.Int32Dtype,
    pd.Int64Dtype,
    pd.StringDtype,
    pd.UInt8Dtype,
    pd.UInt16Dtype,
    pd.UInt32Dtype,
    pd.UInt64Dtype,
)
"""Extension types whose values come through a transpose of two rows or more as they are."""

Cells = npt.NDArray[Any]


def common_array(frame: pd.DataFrame) -> Cells:
    """What pandas makes of the transposed frame, transposed back: rows by columns.

    Transposing a frame whose columns all have one extension type builds an array for each row,
    over a hundred microseconds a piece. It is done only where it changes the outcome: a single
    row loses its type, and time stamps past the years that Python knows raise.
    """
    kinds = set(frame.dtypes)
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    if not isinstance(kind, ExtensionDtype):
        return frame.to_numpy()
    if len(frame) > 1 and (
        isinstance(kind, PLAIN)
        or (isinstance(kind, pd.DatetimeTZDtype) and within_known_years(frame))
    ):
        return frame.astype(object).to_numpy()
    return frame.transpose().to_numpy().T


def within_known_years(frame: pd.DataFrame) -> bool:
    """Whether every timestamp lies safely within the years 1 to 9999 that Python knows."""
    for _, column in frame.items():
        unit = pd.DatetimeIndex(column).unit
        if unit == "ns":
            continue
        moments = column.dropna().to_numpy(dtype=f"datetime64[{unit}]")
        low, high = np.array(["0002-01-01", "9998-12-31"], dtype=moments.dtype)
        if bool(((moments < low) | (moments > high)).any()):
            return False
    return True


def in_order(column: Cells) -> Cells | None:
    """The column sorted by None-ness, text, number-ness, in this order, as officially.

    None where a value has no text, so that the column cannot be sorted and matches nothing.
    """
    try:
        keys = [(cell is None, str(cell), isinstance(cell, NUMBER)) for cell in column.tolist()]
    except MemoryError:
        raise
    except Exception:
        return None
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return column[np.array(order, dtype=np.intp)]


def equal(gold: Cells | None, result: Cells | None) -> bool:
    """Whether two columns have the same length and agree in every cell."""
    if gold is None or result is None or len(gold) != len(result):
        return False
    return next(_disagreements(gold, result), None) is None


def first_disagreement(gold: Cells, result: Cells) -> tuple[int, Any, Any] | None:
    """The first row in which two columns of the same length disagree, and both cells."""
    return next(_disagreements(gold, result), None)


def _disagreements(gold: Cells, result: Cells) -> Iterator[tuple[int, Any, Any]]:
    for start in range(0, len(gold), CHUNK):
        ours, theirs = (cells[start : start + CHUNK].tolist() for cells in (gold, result))
        for at, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if not agree(one, other):
                yield start + at, one, other


def agree(gold: Any, result: Any) -> bool:
    """Whether two cells agree; values that cannot be compared (lists of several) do not."""
    kind = type(gold)
    if kind is type(result) and (kind is float or kind is str) and gold == result:
        return True
    try:
        if bool(pd.isna(gold)) and bool(pd.isna(result)):
            return True
        if isinstance(gold, NUMBER) and isinstance(result, NUMBER):
            return math.isclose(float(gold), float(result), abs_tol=TOLERANCE)
        return not bool(gold != result)
    except MemoryError:
        raise
    except Exception:
        return False
