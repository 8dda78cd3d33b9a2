"""One graded table as it lies in its database: its columns are read on demand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pandas as pd

from stages.common.files import Record
from stages.common.sql import quote

AT_ONCE = 250_000
"""A table of up to so many cells is read in one go and kept."""

SIMPLE = re.compile(
    r"(BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER|HUGEINT|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR"
    r"|JSON|UUID|TIMESTAMP(_S|_MS|_NS)?|TIMESTAMP WITH TIME ZONE|ENUM\(.*\))\Z",
    re.DOTALL,
)
"""Types whose every value DuckDB can hand to pandas; of the others it refuses some."""

VECTORS = 64
"""DuckDB's chunks of 2,048 rows, so many at a time."""

BARE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?\Z", re.ASCII)


class Column(Record):
    """A column's name, and its DuckDB type as text."""

    name: str
    type: str


class Fingerprint(Record):
    """What columns of one type and with the same values, in any order, have in common.

    Columns with other values have other sums, but for a chance of 2**-64: DuckDB's hash of
    a value has 64 bits. DOUBLE and FLOAT hash 0.0 and -0.0 alike.
    """

    filled: int
    """How many values are not NULL."""
    hashes: int
    """The sum of the values' hashes."""
    rehashes: int
    """The sum of the hashes of these hashes."""


@dataclass(frozen=True)
class Table:
    """One graded table as it lies in its database: read by column, on demand.

    It has been read through once, so that damage, and values that pandas cannot take, have
    shown before anything is compared. It can be read as long as its connection is open.
    """

    connection: duckdb.DuckDBPyConnection
    source: str
    """SQL that stands after FROM."""
    columns: tuple[Column, ...]
    rows: int
    prints: tuple[Fingerprint, ...] | None = field(default=None, repr=False)
    """Each column's; null where the table is small enough to be kept instead."""
    _kept: pd.DataFrame | None = field(default=None, repr=False, compare=False)

    def frame(self, positions: Sequence[int] | None = None) -> pd.DataFrame:
        """Whole columns as DuckDB hands them to pandas, in the table's own row order.

        `positions` may be in any order, repeat, and count from the end; null reads all.
        """
        if self._kept is not None:
            return self._kept if positions is None else self._kept.iloc[:, list(positions)]
        if positions is None:
            return self.connection.execute(f"SELECT * FROM {self.source}").fetchdf()
        wanted = sorted({position % len(self.columns) for position in positions})
        names = ", ".join(quote(self.columns[position].name) for position in wanted)
        frame = self.connection.execute(f"SELECT {names} FROM {self.source}").fetchdf()
        return frame.iloc[:, [wanted.index(at % len(self.columns)) for at in positions]]

    def series(self, position: int) -> pd.Series[Any]:
        """One whole column, likewise."""
        if self._kept is not None:
            return self._kept.iloc[:, position]
        return self.frame([position]).iloc[:, 0]


def open_table(connection: duckdb.DuckDBPyConnection, name: str) -> Table:
    """The table that stands after FROM as `name`, read through once.

    Raises:
        duckdb.Error: whatever DuckDB raises on `SELECT * FROM name`, as officially.
    """
    one_name = bool(BARE.match(name)) or name.startswith('"')
    source = name if one_name else f"(SELECT * FROM {name})"
    ((rows,),) = connection.execute(f"SELECT count(*) FROM {source}").fetchall()
    found = connection.execute(f"SELECT * FROM {name} LIMIT 0")
    columns = tuple(Column(name=str(it[0]), type=str(it[1])) for it in found.description or [])
    if rows * len(columns) <= AT_ONCE or not one_name or _is_view(connection, name):
        kept = connection.execute(f"SELECT * FROM {name}").fetchdf()
        return Table(connection, source, columns, len(kept), None, kept)
    return Table(connection, source, columns, rows, _read_through(connection, source, columns))


def _is_view(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether a name may be a view's, which can change between two readings."""
    ((views,),) = connection.execute(
        "SELECT count(*) FROM duckdb_views() WHERE NOT internal AND lower(view_name) = ?",
        [name.replace('"', "").rpartition(".")[2].lower()],
    ).fetchall()
    return bool(views)


def _read_through(
    connection: duckdb.DuckDBPyConnection, source: str, columns: Sequence[Column]
) -> tuple[Fingerprint, ...]:
    """Touch every value, those of unusual types as Python objects."""
    unusual = [quote(column.name) for column in columns if not SIMPLE.match(column.type)]
    if unusual:
        connection.execute(f"SELECT {', '.join(unusual)} FROM {source}")
        while len(connection.fetch_df_chunk(VECTORS)):
            pass
    asked = ", ".join(
        f"count({name}), coalesce(sum(hash({name})) FILTER ({name} IS NOT NULL), 0), "
        f"coalesce(sum(hash(hash({name}))) FILTER ({name} IS NOT NULL), 0)"
        for name in (quote(column.name) for column in columns)
    )
    (found,) = connection.execute(f"SELECT {asked} FROM {source}").fetchall()
    return tuple(
        Fingerprint(filled=filled, hashes=int(hashes), rehashes=int(rehashes))
        for filled, hashes, rehashes in zip(found[::3], found[1::3], found[2::3], strict=True)
    )
