"""One column of a table as arrays, with the kind of Python object that each cell stands for.

`vector` holds what the official conversion gives, without making the objects. A kind other
than `OTHER` is a promise: cells of two different kinds never agree officially, NULL agrees
with NULL alone, and within a kind the arrays tell whether two cells agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, time
from enum import StrEnum
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd

from stages.evaluate.official.text_order import in_text_order

Array = npt.NDArray[Any]

NOTHING = np.iinfo(np.int64).min
"""How NumPy writes a missing timestamp."""

SAMPLES = 64
"""So many cells of a column tell most others from it."""


class Kind(StrEnum):
    """What a column's cells that are not NULL are, as Python objects."""

    NUMBER = "number"
    TEXT = "text"
    IDENTIFIER = "identifier"
    CLOCK_TIME = "clock_time"
    BYTES = "bytes"
    MOMENT = "moment"
    ZONED = "zoned"
    SPAN = "span"
    OTHER = "other"


class Place(StrEnum):
    """Where NULL goes when a column is sorted by text."""

    FIRST = "first"
    LAST = "last"
    NAN = "nan"
    NA = "<NA>"
    """The last two: among the texts, as this one."""


INTEGERS = (
    pd.Int8Dtype,
    pd.Int16Dtype,
    pd.Int32Dtype,
    pd.Int64Dtype,
    pd.UInt8Dtype,
    pd.UInt16Dtype,
    pd.UInt32Dtype,
    pd.UInt64Dtype,
)

EXACT = {str: Kind.TEXT, UUID: Kind.IDENTIFIER, time: Kind.CLOCK_TIME, bytes: Kind.BYTES}
"""Types whose objects agree exactly where they are of equal text."""

SETTLED = {bool, int, float, str, UUID, time, bytes, bytearray, dict, datetime, pd.Timestamp}
"""Types whose objects agree with no object of another family."""

FAMILIES: dict[type, type] = {bool: float, int: float, bytearray: bytes, pd.Timestamp: datetime}

TYPES = {Kind.NUMBER: float, Kind.TEXT: str, Kind.IDENTIFIER: UUID, Kind.CLOCK_TIME: time}
TYPES |= {Kind.BYTES: bytes, Kind.MOMENT: datetime, Kind.ZONED: datetime}


@dataclass(frozen=True)
class Vector:
    """One converted column, in the table's order or, where the order is ignored, in any."""

    kind: Kind
    rows: int
    nulls: int
    sort: str = ""
    """What must be the same besides the kind, so that equal cells have equal texts."""
    place: Place = Place.LAST
    cells: Array = field(default_factory=lambda: np.empty(0), repr=False)
    """NUMBER in order: float64, NaN for NULL. Else the numbers that are not NULL, sorted.
    MOMENT, ZONED, SPAN: int64 of `sort`'s unit, likewise. Other kinds: the objects."""
    types: frozenset[type] = frozenset()
    """OTHER: the families of its cells; empty where they are not all settled."""

    @cached_property
    def sample(self) -> Array:
        """A few cells, evenly spread."""
        if not len(self.cells):
            return self.cells
        return self.cells[np.linspace(0, len(self.cells) - 1, SAMPLES).astype(np.intp)].copy()

    @cached_property
    def by_text(self) -> Array:
        """NUMBER in any order: the numbers that are not NULL, sorted by their texts."""
        return in_text_order(self.cells)

    @cached_property
    def negative_zeros(self) -> int:
        """How often -0.0 is there, which equals 0.0 and has another text."""
        if self.cells.dtype.kind != "f":
            return 0
        low, high = (
            np.searchsorted(self.cells, 0.0, "left"),
            np.searchsorted(self.cells, 0.0, "right"),
        )
        return int(np.signbit(self.cells[low:high]).sum())

    @property
    def families(self) -> frozenset[type]:
        """The types that its cells are of, wherever that settles what they can agree with."""
        if self.kind is Kind.OTHER:
            return self.types
        return frozenset({TYPES[self.kind]}) if self.kind in TYPES else frozenset()


def vector(column: pd.Series[Any], common: np.dtype[Any], in_any_order: bool) -> Vector:
    """A column of at least two rows in a table whose columns have `common` in common.

    `common` is `object` where each column keeps its own type.
    """
    if common.kind in "biuf":
        return _numbers(column.to_numpy().astype(common), None, Place.LAST, in_any_order)
    own = column.dtype
    if common.kind == "M" and np.datetime_data(common)[0] == "ns":
        ticks = column.to_numpy().view(np.int64)
        return _numbers(ticks, ticks == NOTHING, Place.LAST, in_any_order)
    if common.kind in "Mm":
        made_of = Kind.MOMENT if common.kind == "M" else Kind.SPAN
        return _ticks(column.to_numpy(), made_of, "datetime", in_any_order)
    if isinstance(own, np.dtype):
        if own.kind in "biuf":
            return _numbers(column.to_numpy(), None, Place.LAST, in_any_order)
        if own.kind == "M":
            return _ticks(column.to_numpy(), Kind.MOMENT, "datetime", in_any_order)
        if own.kind == "m":
            return _ticks(column.to_numpy(), Kind.SPAN, "Timedelta", in_any_order)
        return _objects(column.to_numpy(), in_any_order)
    if isinstance(own, pd.DatetimeTZDtype):
        moments = column.to_numpy(dtype=f"datetime64[{own.unit}]")
        return _ticks(moments, Kind.ZONED, str(own.tz), in_any_order)
    missing = column.isna().to_numpy()
    if isinstance(own, pd.StringDtype | pd.CategoricalDtype):
        cells = column.to_numpy(dtype=object)
        return _exact(Kind.TEXT, cells, missing, Place.NAN, in_any_order)
    if isinstance(own, pd.BooleanDtype):
        cells = column.to_numpy(dtype=bool, na_value=False)
        return _numbers(cells, missing, Place.FIRST, in_any_order)
    if isinstance(own, INTEGERS):
        cells = column.to_numpy(dtype=str(own).lower(), na_value=0)
        return _numbers(cells, missing, Place.LAST, in_any_order)
    return Vector(Kind.OTHER, len(column), 0)


def _numbers(cells: Array, missing: Array | None, place: Place, in_any_order: bool) -> Vector:
    sort = {"b": "bool", "f": "float"}.get(cells.dtype.kind, "int")
    if cells.dtype.kind == "f":
        cells = cells.astype(np.float64)
        missing = np.isnan(cells)
    nulls = 0 if missing is None else int(missing.sum())
    if in_any_order:
        given = cells if missing is None or not nulls else cells[~missing]
        cells = np.sort(given)
    else:
        cells = cells.astype(np.float64)
        if missing is not None and nulls:
            cells[missing] = np.nan
    rows = len(cells) + (nulls if in_any_order else 0)
    return Vector(Kind.NUMBER, rows, nulls, sort, place if nulls else Place.LAST, cells)


def _ticks(moments: Array, kind: Kind, sort: str, in_any_order: bool) -> Vector:
    """Moments as whole microseconds, or nanoseconds where they have such.

    Outside the years 1000 to 9999 texts do not sort as moments do, and some have no text.
    """
    missing = np.isnat(moments)
    nulls = int(missing.sum())
    given = moments[~missing]
    unit = np.datetime_data(moments.dtype)[0]
    if kind is not Kind.SPAN and unit != "ns" and len(given):
        low, high = np.array(["1000-01-02", "9999-12-30"], dtype=moments.dtype)
        if given.min() < low or given.max() > high:
            return Vector(Kind.OTHER, len(moments), nulls)
    if unit == "ns" and not (given.view(np.int64) % 1000).any():
        unit = "us"
    cells = (given if in_any_order else moments).astype(f"{moments.dtype.kind}8[{unit}]")
    if unit != "ns":
        cells = cells.astype(f"{moments.dtype.kind}8[us]")
        unit = "us"
    ticks = cells.view(np.int64)
    ordered = np.sort(ticks) if in_any_order else ticks
    return Vector(kind, len(moments), nulls, f"{sort} {unit}", Place.LAST, ordered)


def _objects(cells: Array, in_any_order: bool) -> Vector:
    missing = pd.isna(cells)
    given = cells[~missing]
    types = set(map(type, given.tolist()))
    if bytearray in types and types <= {bytes, bytearray}:
        cells = cells.copy()
        cells[~missing] = [bytes(cell) for cell in given.tolist()]
        types = {bytes}
    nulls = cells[missing].tolist()
    of_one_kind = not nulls or all(cell is pd.NA for cell in nulls)
    if not types and all(cell is None for cell in nulls):
        return Vector(Kind.TEXT, len(cells), len(cells), "", Place.LAST, given)
    kind = EXACT.get(next(iter(types))) if len(types) == 1 and of_one_kind else None
    if kind is Kind.CLOCK_TIME and any(cell.tzinfo is not None for cell in given):
        kind = None
    if kind is Kind.TEXT and nulls and (given == str(pd.NA)).any():
        kind = None  # A NULL and this text sort alike, so that their own order counts.
    if kind is not None:
        return _exact(kind, cells, missing, Place.NA, in_any_order)
    families = frozenset(FAMILIES.get(item, item) for item in types if types <= SETTLED)
    return Vector(Kind.OTHER, len(cells), int(missing.sum()), types=families)


def _exact(kind: Kind, cells: Array, missing: Array, place: Place, in_any_order: bool) -> Vector:
    nulls = int(missing.sum())
    if in_any_order:
        kept = cells[~missing] if nulls else cells
    elif nulls:
        kept = cells.copy()
        kept[missing] = None
    else:
        kept = cells
    return Vector(kind, len(cells), nulls, "", place if nulls else Place.LAST, kept)
