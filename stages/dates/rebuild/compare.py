"""Compares tables as multisets of rows, over chosen columns, with a small tolerance for numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import duckdb

from stages.common.sql import quote

RELATIVE, ABSOLUTE = 1e-6, 1e-9
"""How far two numbers that are not both whole may be apart: sums differ by their order."""

Number = tuple[str, str]
"""A column's folded name and what was computed of it; rows have no column."""

_WHOLE = re.compile(r"^(U?(TINY|SMALL|BIG)INT|U?INTEGER|HUGEINT)$")
_NUMBER = re.compile(r"^(FLOAT|DOUBLE|DECIMAL\(.*\))$")
_TIME = re.compile(r"^(DATE|TIMESTAMP.*)$")


class Kind(StrEnum):
    """What a column's values are cast to before they are compared."""

    WHOLE = "HUGEINT"
    NUMBER = "DOUBLE"
    TIME = "TIMESTAMP"
    DAY = "DATE"
    TEXT = "VARCHAR"


@dataclass(frozen=True)
class Relation:
    """A table that can be read: what stands after FROM, its columns by folded name, its rows."""

    source: str
    columns: dict[str, tuple[str, str]]
    rows: int


@dataclass(frozen=True)
class Compared:
    """One column that both tables have, by its folded name."""

    name: str
    kind: Kind

    def by_day(self) -> Compared:
        """The same column, its time of day ignored."""
        return replace(self, kind=Kind.DAY)


def read_relation(connection: duckdb.DuckDBPyConnection, *names: str) -> Relation:
    """Describe a table by its quoted parts; raises `duckdb.Error` where there is none."""
    source = quote(*names)
    described = connection.execute(f"DESCRIBE {source}").fetchall()
    ((rows,),) = connection.execute(f"SELECT count(*) FROM {source}").fetchall()
    return Relation(
        source=source,
        columns={str(row[0]).casefold(): (str(row[0]), str(row[1])) for row in described},
        rows=int(rows),
    )


def common_columns(left: Relation, right: Relation) -> list[Compared]:
    """The columns of both tables, as what they can be compared."""
    return [
        Compared(name, _kind(left.columns[name][1], right.columns[name][1]))
        for name in left.columns
        if name in right.columns
    ]


def _kind(left: str, right: str) -> Kind:
    if _WHOLE.match(left) and _WHOLE.match(right):
        return Kind.WHOLE
    if all(_WHOLE.match(kind) or _NUMBER.match(kind) for kind in (left, right)):
        return Kind.NUMBER
    if _TIME.match(left) and _TIME.match(right):
        return Kind.TIME
    return Kind.TEXT


def equal_columns(
    connection: duckdb.DuckDBPyConnection,
    left: Relation,
    right: Relation,
    columns: Sequence[Compared],
) -> set[str]:
    """The names of the columns whose values are equal, each as a multiset of its own."""
    if left.rows != right.rows:
        return set()
    exact = [column for column in columns if column.kind is not Kind.NUMBER]
    prints = [_prints(connection, relation, exact) for relation in (left, right)]
    equal = {column.name for column, a, b in zip(exact, *prints, strict=True) if a == b}
    for column in columns:
        if column.kind is Kind.NUMBER and _equal_sorted(connection, left, right, [column]):
            equal.add(column.name)
    return equal


def equal_rows(
    connection: duckdb.DuckDBPyConnection,
    left: Relation,
    right: Relation,
    columns: Sequence[Compared],
) -> bool:
    """Whether both tables hold the same rows over these columns, in any order."""
    if left.rows != right.rows:
        return False
    if all(column.kind is not Kind.NUMBER for column in columns):
        return _row_print(connection, left, columns) == _row_print(connection, right, columns)
    return _equal_sorted(connection, left, right, columns)


def statistics(
    connection: duckdb.DuckDBPyConnection, relation: Relation, columns: Sequence[Compared]
) -> dict[Number, float]:
    """Numbers that move with the clock where a column does: bounds, means, and the row count."""
    parts = []
    names = []
    for column in columns:
        value = _value(relation, column)
        if column.kind is Kind.TEXT:
            continue
        if column.kind in (Kind.TIME, Kind.DAY):
            value = f"epoch({value})"
        for function in ("min", "max", "avg"):
            parts.append(f"{function}({value})::DOUBLE")
            names.append((column.name, function))
    found: dict[Number, float] = {("", "rows"): float(relation.rows)}
    if parts:
        row = connection.execute(f"SELECT {', '.join(parts)} FROM {relation.source}").fetchone()
        assert row is not None
        found |= {
            name: float(item)
            for name, item in zip(names, row, strict=True)
            if item is not None and abs(item) < 1e300
        }
    return found


def _value(relation: Relation, column: Compared) -> str:
    return f"CAST({quote(relation.columns[column.name][0])} AS {column.kind})"


def _prints(
    connection: duckdb.DuckDBPyConnection, relation: Relation, columns: Sequence[Compared]
) -> list[int]:
    if not columns:
        return []
    parts = ", ".join(f"sum(hash({_value(relation, column)}))" for column in columns)
    row = connection.execute(f"SELECT {parts} FROM {relation.source}").fetchone()
    assert row is not None
    return list(row)


def _row_print(
    connection: duckdb.DuckDBPyConnection, relation: Relation, columns: Sequence[Compared]
) -> int | None:
    values = ", ".join(_value(relation, column) for column in columns) or "1"
    row = connection.execute(f"SELECT sum(hash({values})) FROM {relation.source}").fetchone()
    assert row is not None
    return None if row[0] is None else int(row[0])


def _equal_sorted(
    connection: duckdb.DuckDBPyConnection,
    left: Relation,
    right: Relation,
    columns: Sequence[Compared],
) -> bool:
    """Compare row by row in one order: by the exact columns, then by the numbers."""
    ordered = sorted(columns, key=lambda column: column.kind is Kind.NUMBER)
    sides = []
    for relation in (left, right):
        values = [_value(relation, column) for column in ordered]
        named = ", ".join(f"{value} AS c{i}" for i, value in enumerate(values))
        order = ", ".join(f"c{i}" for i in range(len(values)))
        sides.append(
            f"(SELECT *, row_number() OVER (ORDER BY {order}) AS n "
            f"FROM (SELECT {named} FROM {relation.source}))"
        )
    differ = []
    for i, column in enumerate(ordered):
        apart = f"a.c{i} IS DISTINCT FROM b.c{i}"
        if column.kind is Kind.NUMBER:
            apart += (
                f" AND NOT coalesce(abs(a.c{i} - b.c{i}) <= "
                f"{ABSOLUTE} + {RELATIVE} * abs(a.c{i}), false)"
            )
        differ.append(f"({apart})")
    row = connection.execute(
        f"SELECT count(*) FROM {sides[0]} a JOIN {sides[1]} b USING (n) WHERE {' OR '.join(differ)}"
    ).fetchone()
    assert row is not None
    return bool(row[0] == 0)
