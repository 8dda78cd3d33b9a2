"""Sorts numbers by their Python texts, without making the texts where arithmetic tells."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd

Numbers = npt.NDArray[Any]

DIGITS = 16
"""A float with more digits before the point is written with an exponent."""

SMALLEST = 1e-4
"""A float closer to zero, but for zero, is written with an exponent."""

POWERS = 10 ** np.arange(DIGITS + 1, dtype=np.int64)


def in_text_order(numbers: Numbers) -> Numbers:
    """Booleans, integers or float64 without NaN, sorted by what `str` makes of each."""
    if numbers.dtype.kind == "b":
        return np.sort(numbers)
    distinct, counts = _distinct(numbers)
    order = _by_text(distinct) if _has_plain_digits(distinct) else _by_written_text(distinct)
    return np.repeat(distinct[order], counts[order])


def _distinct(numbers: Numbers) -> tuple[Numbers, npt.NDArray[np.int64]]:
    """The numbers of different texts, 0.0 and -0.0 apart, and how often each is there."""
    bits = numbers.view(np.int64) if numbers.dtype.kind == "f" else numbers
    distinct, counts = np.unique(bits, return_counts=True)
    return distinct.view(numbers.dtype), counts


def _has_plain_digits(numbers: Numbers) -> bool:
    if not len(numbers):
        return True
    if numbers.dtype.kind == "f":
        size = np.abs(numbers)
        return bool(((size < POWERS[DIGITS]) & ((size >= SMALLEST) | (size == 0))).all())
    limit = int(POWERS[DIGITS])
    return -limit < int(numbers.min()) and int(numbers.max()) < limit


def _by_text(numbers: Numbers) -> npt.NDArray[np.intp]:
    """The order by texts like `-12` and `12.5`.

    A minus comes before any digit. What ends, or has its point, comes before what goes on with
    a digit; so the digits before the point order as a number does that is filled up with zeros
    behind, shorter ones first. Those after the point order as the numbers do.
    """
    negative = np.signbit(numbers) if numbers.dtype.kind == "f" else numbers < 0
    size = np.abs(numbers) if numbers.dtype.kind == "f" else np.abs(numbers.astype(np.int64))
    filled = size.astype(np.int64)
    digits = np.maximum(np.searchsorted(POWERS, filled, side="right"), 1).astype(np.int8)
    filled *= POWERS[DIGITS - digits]
    return np.lexsort((size, digits, filled, ~negative))


def _by_written_text(numbers: Numbers) -> npt.NDArray[np.intp]:
    """The order by any texts.

    DuckDB writes a BIGINT, UBIGINT or DOUBLE exactly as Python writes an int or a float, and
    compares texts by code point as well.
    """
    with _writer().cursor() as cursor:
        cursor.register(
            "given", pd.DataFrame({"number": numbers, "place": np.arange(len(numbers))})
        )
        found = cursor.execute("SELECT place FROM given ORDER BY number::VARCHAR").fetchnumpy()
    return np.asarray(found["place"], dtype=np.intp)


@cache
def _writer() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"memory_limit": "512MB"})
    connection.execute("SET enable_progress_bar = false")
    return connection
