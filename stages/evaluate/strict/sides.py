"""A graded table as the strict score sees it: measures of its columns, codes, numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from stages.common.sql import quote
from stages.evaluate.strict.kinds import EXACT_IN_DOUBLE, NUMBER, Facet, facet
from stages.evaluate.table import Table

Vector = npt.NDArray[Any]
NUMBERED = "numbered row"


@dataclass(frozen=True)
class Measure:
    """What one scan tells of a column. Equal multisets of values have equal measures."""

    filled: int
    """Values that are not NULL."""
    total: int
    """The sum of all codes; where the order counts, of the codes with their row's number."""
    low: float
    high: float
    """Smallest and largest finite number; 0 where there is none, or no number at all."""
    odd: tuple[int, int, int]
    """How many values are NaN, infinity and minus infinity."""
    wide: bool
    """Whether it holds numbers of more digits than a double has."""


class Side:
    """One of the two tables. Nothing of it is kept but measures and totals."""

    def __init__(self, table: Table, in_order: bool) -> None:
        self.table = table
        self.facets: tuple[Facet, ...] = tuple(facet(column) for column in table.columns)
        self._in_order = in_order
        self._totals: dict[tuple[str, ...], int] = {}

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.table.rows

    def name(self, position: int) -> str:
        """A column's name."""
        return self.table.columns[position].name

    def measures(self, positions: Sequence[int]) -> dict[int, Measure]:
        """Measure these columns in one scan."""
        asked = ", ".join(part for at in positions for part in self._asked(at))
        (found,) = self._query(f"SELECT {asked} FROM {self._source()}")
        size = len(found) // len(positions)
        return {
            at: self._measure(at, found[place * size : (place + 1) * size])
            for place, at in enumerate(positions)
        }

    def _source(self) -> str:
        if not self._in_order:
            return self.table.source
        number = f"row_number() OVER () AS {quote(self._number())}"
        return f"(SELECT *, {number} FROM {self.table.source})"

    def _number(self) -> str:
        names = {column.name.lower() for column in self.table.columns}
        name = NUMBERED
        while name in names:
            name += "_"
        return name

    def _coded(self, *codes: str) -> str:
        number = [quote(self._number())] if self._in_order else []
        return f"sum(hash(hash({', '.join([*number, *codes])})))"

    def _asked(self, at: int) -> tuple[str, ...]:
        known, name = self.facets[at], quote(self.name(at))
        common = (f"count({name})", self._coded(known.code))
        if known.kind != NUMBER:
            return (*common, *["NULL"] * 7)
        value = f"CAST({name} AS DOUBLE)"
        edges = (f"{edge}({value}) FILTER (isfinite({value}))" for edge in ("min", "max"))
        odd: tuple[str, ...] = ("0", "0", "0")
        if not known.exact:
            tests = (f"isnan({value})", f"{value} = 'inf'", f"{value} = '-inf'")
            odd = tuple(f"count(*) FILTER ({test})" for test in tests)
        digits: tuple[str, ...] = ("NULL", "NULL")
        if known.scale is not None:
            digits = tuple(f"CAST({edge}({name}) AS VARCHAR)" for edge in ("min", "max"))
        return (*common, *edges, *odd, *digits)

    def _measure(self, at: int, found: Sequence[Any]) -> Measure:
        filled, total, low, high, *odd, least, most = found
        scale = self.facets[at].scale
        wide = scale is not None and any(
            edge is not None and abs(Decimal(edge)).scaleb(scale) > EXACT_IN_DOUBLE
            for edge in (least, most)
        )
        return Measure(
            filled=int(filled),
            total=int(total or 0),
            low=float(low or 0),
            high=float(high or 0),
            odd=(int(odd[0] or 0), int(odd[1] or 0), int(odd[2] or 0)),
            wide=wide,
        )

    def total(self, codes: Sequence[str]) -> int:
        """The sum of the rows' codes over these columns: equal for equal multisets of rows."""
        key = tuple(codes)
        if key not in self._totals:
            ((found,),) = self._query(f"SELECT {self._coded(*codes)} FROM {self._source()}")
            self._totals[key] = int(found or 0)
        return self._totals[key]

    def same(self, one: int, other: int) -> bool:
        """Whether two of its columns hold the same in every row."""
        if self.facets[one].kind != self.facets[other].kind:
            return False
        codes = (self.facets[one].text_code, self.facets[other].text_code)
        if not (self.facets[one].exact and self.facets[other].exact):
            codes = (self.facets[one].code, self.facets[other].code)
        ((apart,),) = self._query(
            f"SELECT count(*) FILTER ({codes[0]} <> {codes[1]}) FROM {self.table.source}"
        )
        return bool(apart == 0)

    def codes(self, code: str) -> Vector:
        """The code of every row, in the table's order: unsigned 64-bit integers."""
        found = self.table.connection.execute(
            f"SELECT {code} AS code FROM {self.table.source}"
        ).fetchnumpy()["code"]
        return np.asarray(np.ma.getdata(found), dtype=np.uint64)

    def row_codes(self, codes: Sequence[str]) -> Vector:
        """One code for each row over several columns, in the table's order."""
        return self.codes(f"hash(hash({', '.join(codes)}))" if codes else "0::UBIGINT")

    def numbers(self, at: int) -> tuple[Vector, Vector]:
        """A column of numbers as doubles, in the table's order, and where it is NULL."""
        found = self.table.connection.execute(
            f"SELECT CAST({quote(self.name(at))} AS DOUBLE) AS value FROM {self.table.source}"
        ).fetchnumpy()["value"]
        null = np.ma.getmaskarray(np.ma.asarray(found))
        return np.where(null, 0.0, np.ma.getdata(found)), null

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        return self.table.connection.execute(sql).fetchall()


def reach(measure: Measure) -> float:
    """The size of the largest finite number."""
    found = max(abs(measure.low), abs(measure.high))
    return found if math.isfinite(found) else 0.0
