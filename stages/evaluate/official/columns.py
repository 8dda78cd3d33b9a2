"""A table's columns after the official conversion, each read and converted when asked for."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype

from stages.common.sql import quote
from stages.evaluate.official.cells import PLAIN, Cells, common_array, in_order, within_known_years
from stages.evaluate.official.vectors import Kind, Place, Vector, vector
from stages.evaluate.table import SIMPLE, Fingerprint, Table

BUDGET = 128 << 20
"""Bytes of converted columns that one table keeps, so that they are not read again."""

OBJECT = 80
"""Bytes of a cell that is a Python object, about."""

BATCH = 65_536

Side = Literal["gold", "result"]

TEXTS = {"VARCHAR": Kind.TEXT, "JSON": Kind.TEXT, "UUID": Kind.IDENTIFIER}
"""Types whose values DuckDB writes and sorts as Python does."""


TELLING = re.compile(
    r"(BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER|DECIMAL\(\d+,\d+\)|VARCHAR|JSON|UUID)\Z"
)
"""Types of whose values each agrees with itself, has a text, and has another hash than others."""

SOME = {"VARCHAR": "'a'", "JSON": "'{}'", "UUID": "uuid()", "INTERVAL": "'1 day'"}
SOME |= {
    f"{kind}": "'2024-01-01'"
    for kind in ("DATE", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS")
}
SOME["TIMESTAMP_NS"] = SOME["DATE"]
"""A value of each type that 0 is none of, as SQL."""


class EvaluatorError(Exception):
    """The official evaluator raises here, outside every handler of its own."""

    def __init__(self, side: Side, text: str) -> None:
        super().__init__(side, text)
        self.side = side
        """Whose table it raises on."""
        self.text = text


class UnforeseenTypeError(Exception):
    """A column has another type than its DuckDB type and its NULLs had promised."""


class Columns:
    """The columns of one table, or the graded ones, in the official conversion.

    The conversion goes through one array for the whole frame, so a column's values depend on
    the dtype that all columns have in common: integers beside floats become floats, and a
    frame of nanosecond timestamps becomes integers. That dtype follows from the columns' own,
    and those from DuckDB's types and whether there are NULLs. So columns can be converted one
    by one; where that does not hold, the whole frame is.
    """

    def __init__(
        self,
        table: Table,
        positions: Sequence[int],
        side: Side,
        in_any_order: bool,
        *,
        whole: bool = False,
    ) -> None:
        """Raises `EvaluatorError` where the frame has no common dtype."""
        self.table = table
        self.positions = [position % len(table.columns) for position in positions]
        self.names = [table.columns[position].name for position in self.positions]
        self.rows = table.rows
        self.in_any_order = in_any_order
        self._whole: Cells | None = None
        self._dtypes: list[Any] = []
        self._kept: OrderedDict[tuple[str, int], tuple[Any, int]] = OrderedDict()
        self._samples: dict[int, Vector] = {}
        try:
            common = None if whole or self.rows < 2 else self._common()
            if common is None:
                self._whole = common_array(table.frame(self.positions))
        except UnforeseenTypeError:
            raise
        except Exception as error:
            text = f"{side}'s columns have no common type: {type(error).__name__}: {error}"
            raise EvaluatorError(side, text) from error
        self._common_dtype = common or np.dtype(object)

    def __len__(self) -> int:
        return len(self.positions)

    def vector(self, at: int) -> Vector:
        """One column as arrays."""
        found: Vector | None = self._recall("vector", at)
        if found is None:
            if self._whole is not None:
                found = Vector(Kind.OTHER, self.rows, 0)
            elif self.is_long_text(at):
                found = self._long_text(at)
            else:
                found = vector(self._series(at), self._common_dtype, self.in_any_order)
            each = OBJECT if found.cells.dtype.kind == "O" else 16
            self._keep("vector", at, found, len(found.cells) * each)
        return found

    def outline(self, at: int) -> Vector:
        """What is remembered of a column even when its cells are not: all but the cells."""
        if at not in self._samples:
            found = self.vector(at)
            sample = found.sample if found.cells.dtype.kind != "O" else np.empty(0)
            self._samples[at] = Vector(
                found.kind, found.rows, found.nulls, found.sort, found.place, sample, found.types
            )
        return self._samples[at]

    def official(self, at: int) -> Cells | None:
        """One column as the official evaluator has it, sorted where the order is ignored.

        None where its values cannot be put in order, which matches nothing.
        """
        found: tuple[Cells | None] | None = self._recall("official", at)
        if found is None:
            column = self._whole[:, at] if self._whole is not None else self._converted(at)
            found = (in_order(column) if self.in_any_order else column,)
            self._keep("official", at, found, self.rows * OBJECT)
        return found[0]

    def fingerprint(self, at: int) -> tuple[str, str, Fingerprint] | None:
        """What tells whether columns are equal in any order; None where that is not known.

        Besides the values it holds what makes of them the same objects.
        """
        position = self.positions[at]
        kind = self.table.columns[position].type
        if self._whole is not None or self.table.prints is None or not TELLING.match(kind):
            return None
        return kind, str(self._common_dtype), self.table.prints[position]

    def is_long_text(self, at: int) -> bool:
        """Whether a column holds text, and is better not held as objects."""
        position = self.positions[at]
        if self._whole is not None or self.table.prints is None:
            return False
        return _text_kind(self.table.columns[position].type) is not None and (
            self.table.prints[position].filled > 0
        )

    def texts(self, at: int) -> Iterator[list[tuple[str | None, int]]]:
        """A column of text in batches: each text with how often it is there, or once a row.

        In any order: the texts that are not NULL, sorted, each but once. Else: all rows.
        """
        if not self.is_long_text(at):
            cells = self.vector(at).cells.tolist()
            if self.outline(at).kind is Kind.IDENTIFIER:
                cells = [None if cell is None else str(cell) for cell in cells]
            pairs = sorted(Counter(cells).items()) if self.in_any_order else [(c, 1) for c in cells]
            for start in range(0, len(pairs), BATCH):
                yield pairs[start : start + BATCH]
            return
        name = quote(self.table.columns[self.positions[at]].name)
        query = f"SELECT {name}::VARCHAR AS text, 1 FROM {self.table.source}"
        if self.in_any_order:
            query = (
                f"SELECT {name}::VARCHAR AS text, count(*) FROM {self.table.source} "
                f"WHERE {name} IS NOT NULL GROUP BY text ORDER BY text"
            )
        with self.table.connection.cursor() as cursor:
            cursor.execute(query)
            while batch := cursor.fetchmany(BATCH):
                yield batch

    def _long_text(self, at: int) -> Vector:
        position = self.positions[at]
        kind = _text_kind(self.table.columns[position].type)
        assert self.table.prints is not None and kind is not None
        nulls = self.rows - self.table.prints[position].filled
        place = Place.NA if kind is Kind.IDENTIFIER else Place.NAN
        return Vector(kind, self.rows, nulls, "", place if nulls else Place.LAST)

    def _series(self, at: int) -> pd.Series[Any]:
        series = self.table.series(self.positions[at])
        if series.dtype != self._dtypes[at]:
            raise UnforeseenTypeError(f"{self.names[at]}: {series.dtype}, not {self._dtypes[at]}")
        return series

    def _converted(self, at: int) -> Cells:
        """One column of the common array, made in the company of a filler of the common dtype."""
        series = self._series(at)
        common = self._common_dtype
        if common.kind == "O" and isinstance(series.dtype, ExtensionDtype):
            return series.astype(object).to_numpy()
        filler = np.zeros(len(series), dtype=common)
        array = pd.DataFrame({0: series, 1: pd.Series(filler, dtype=common)}).to_numpy()
        if array.dtype != common:
            raise UnforeseenTypeError(f"{self.names[at]}: {array.dtype}, not {common}")
        column: Cells = array[:, 0]
        return column

    def _common(self) -> np.dtype[Any] | None:
        """The dtype that the columns have in common; None where only the whole frame tells."""
        shape = self._shape()
        self._dtypes = list(shape.dtypes)
        kinds = set(self._dtypes)
        if len(kinds) == 1 and isinstance(kind := self._dtypes[0], ExtensionDtype):
            if isinstance(kind, pd.DatetimeTZDtype):
                if not all(
                    within_known_years(self._series(at).to_frame()) for at in range(len(self))
                ):
                    return None
            elif not isinstance(kind, PLAIN):
                return None
            return np.dtype(object)
        common: np.dtype[Any] = shape.to_numpy().dtype
        if common.kind == "M" and len(kinds) > 1:
            return None
        if common.kind == "m" and (len(kinds) > 1 or np.datetime_data(common)[0] != "us"):
            return None
        return common if common.kind in "biufMmO" else None

    def _shape(self) -> pd.DataFrame:
        """A frame of few rows, or none, with the dtypes of the table's."""
        if self.table.prints is None:
            return self.table.frame(self.positions).iloc[:0]
        easy = [position for position in set(self.positions) if self._is_easy(position)]
        dtypes = {
            position: self.table.frame([position]).dtypes.iloc[0]
            for position in set(self.positions) - set(easy)
        }
        if easy:
            query = "SELECT " + ", ".join(f"unnest({self._values(at)})" for at in easy)
            frame = self.table.connection.execute(query).fetchdf()
            dtypes |= dict(zip(easy, frame.dtypes, strict=True))
        return pd.DataFrame(
            {
                at: pd.Series([], dtype=dtypes[position])
                for at, position in enumerate(self.positions)
            }
        )

    def _values(self, position: int) -> str:
        """Two values of a column's type as SQL: none, one or both are NULL, as in the column."""
        assert self.table.prints is not None
        kind, filled = self.table.columns[position].type, self.table.prints[position].filled
        value = f"enum_first(NULL::{kind})" if kind.startswith("ENUM(") else SOME.get(kind, "0")
        pair = [value if filled else "NULL", value if filled == self.rows else "NULL"]
        return f"[{', '.join(pair)}]::{kind}[]"

    def _is_easy(self, position: int) -> bool:
        """Whether a column's dtype follows from one value and whether there are NULLs."""
        kind = self.table.columns[position].type
        return bool(SIMPLE.match(kind)) or kind.startswith("ENUM(") or kind in ("DATE", "INTERVAL")

    def _recall(self, what: str, at: int) -> Any:
        key = what, at
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def _keep(self, what: str, at: int, value: Any, size: int) -> None:
        self._kept[what, at] = value, size
        while len(self._kept) > 1 and sum(size for _, size in self._kept.values()) > BUDGET:
            self._kept.popitem(last=False)


def _text_kind(type_name: str) -> Kind | None:
    return Kind.TEXT if type_name.startswith("ENUM(") else TEXTS.get(type_name)
