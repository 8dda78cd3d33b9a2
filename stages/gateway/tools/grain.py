"""The tool that finds what one row of a table stands for."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic import Field

from stages.common.sql import quote
from stages.gateway.connection import Reader
from stages.gateway.desk import Desk
from stages.gateway.models import Answer
from stages.gateway.relations import Relation, TableName, count, find
from stages.gateway.render import join, table

MOST_CANDIDATES = 10
"""Columns that are combined in the search for a key of two."""


def analyze_grain(
    desk: Desk,
    table_name: TableName,
    columns: Annotated[
        str,
        Field(description="Comma-separated columns to test as a key; empty: search for keys."),
    ] = "",
) -> Answer:
    """Find a table's grain: which columns identify a row, alone or two together.

    With `columns` it tests exactly those, and shows the values that occur more than once. Use it
    on both sides of a join before writing it: a key with duplicates fans out.
    """
    with desk.open() as reader:
        relation = find(reader, table_name)
        total = count(reader, relation)
        if columns.strip():
            names = [relation.column(name).name for name in columns.split(",")]
            return _test(desk, reader, relation, names, total)
        if total == 0:
            return Answer(text=f"{relation.label} is empty: any column is unique in it.", rows=0)
        return _search(desk, reader, relation, total)


def _test(desk: Desk, reader: Reader, relation: Relation, names: list[str], total: int) -> Answer:
    listed = ", ".join(quote(name) for name in names)
    null = " OR ".join(f"{quote(name)} IS NULL" for name in names)
    distinct, nulls = reader.rows(
        f"SELECT (SELECT count(*) FROM (SELECT DISTINCT {listed} FROM {relation.sql})), "
        f"(SELECT count(*) FROM {relation.sql} WHERE {null})"
    )[0]
    unique = distinct == total
    verdict = "UNIQUE" if unique else f"NOT UNIQUE, {total / max(distinct, 1):.2f} rows per key"
    head = (
        f"{relation.label} by ({', '.join(names)}): {verdict}. {total} rows, {distinct} distinct "
        f"keys, {nulls} rows with a NULL in the key."
    )
    if unique:
        return Answer(text=head, rows=0)
    rows = reader.run(
        f"SELECT {listed}, count(*) AS n FROM {relation.sql} GROUP BY {listed} "
        "HAVING count(*) > 1 ORDER BY n DESC LIMIT 10"
    )
    return join(
        [head, table([*names, "rows"], rows, desk.limits, title="Keys with most rows")],
        desk.limits,
    )


def _search(desk: Desk, reader: Reader, relation: Relation, total: int) -> Answer:
    names = [column.name for column in relation.columns[:60]]
    counts = ", ".join(
        f"count(DISTINCT {quote(name)}), count(*) - count({quote(name)})" for name in names
    )
    found = reader.rows(f"SELECT {counts} FROM {relation.sql}")[0]
    facts = [(name, found[2 * index], found[2 * index + 1]) for index, name in enumerate(names)]
    keys = [name for name, distinct, nulls in facts if distinct == total and nulls == 0]
    parts: list[str | Answer] = []
    if keys:
        parts.append(f"{relation.label}: {total} rows. Unique alone: {', '.join(keys)}.")
    else:
        parts.append(f"{relation.label}: {total} rows. No column is unique alone.")
        ranked = [
            name for name, distinct, _ in sorted(facts, key=lambda fact: -fact[1]) if distinct > 1
        ][:MOST_CANDIDATES]
        pairs = [
            f"({first}, {second})"
            for first, second in itertools.combinations(ranked, 2)
            if _is_key(reader, relation, (first, second), total)
        ]
        if pairs:
            parts.append(f"Unique together: {', '.join(pairs[:8])}.")
        else:
            whole = _is_key(reader, relation, tuple(names), total)
            parts.append(
                "No two of its columns are unique together; whole rows are unique. "
                "Test three columns by naming them."
                if whole
                else "Even whole rows occur more than once."
            )
    rows = [
        (name, distinct, nulls, f"{total / max(distinct, 1):.1f}")
        for name, distinct, nulls in sorted(facts, key=lambda fact: -fact[1])
    ]
    parts.append(table(["column", "distinct", "NULLs", "rows per value"], rows, desk.limits))
    return join(parts, desk.limits)


def _is_key(reader: Reader, relation: Relation, names: tuple[str, ...], total: int) -> bool:
    listed = ", ".join(quote(name) for name in names)
    sql = f"SELECT count(*) FROM (SELECT DISTINCT {listed} FROM {relation.sql})"
    return bool(reader.rows(sql)[0][0] == total)
