"""Tools that look at the values of a table's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from stages.common.sql import quote
from stages.gateway.connection import Reader
from stages.gateway.desk import Desk
from stages.gateway.models import Answer, CallError
from stages.gateway.relations import Column, Relation, TableName, count, find, relations
from stages.gateway.render import join, table

MOST_COLUMNS = 60
NUMBERS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
)


def explore_table(
    desk: Desk,
    table_name: TableName,
    sample: Annotated[int, Field(ge=0, le=50, description="How many sample rows to show.")] = 5,
) -> Answer:
    """Profile a table: row count, and for each column NULLs, distinct values, least and greatest.

    Distinct counts are approximate. Sample rows follow; their order means nothing.
    """
    with desk.open() as reader:
        relation = find(reader, table_name)
        total = count(reader, relation)
        shown = relation.columns[:MOST_COLUMNS]
        profile = _profile(reader, relation, shown)
        rows = [
            (column.name, column.type, total - filled, distinct, least, greatest)
            for column, (filled, distinct, least, greatest) in zip(shown, profile, strict=True)
        ]
        parts: list[str | Answer] = [
            table(
                ["column", "type", "NULLs", "distinct ~", "least", "greatest"],
                rows,
                desk.limits,
                title=f"{relation.kind} {relation.label}: {total} rows, "
                f"{len(relation.columns)} columns",
            )
        ]
        if len(relation.columns) > MOST_COLUMNS:
            parts.append(f"CUT: the first {MOST_COLUMNS} columns are profiled; see explore_column.")
        if sample:
            names, found = reader.select(f"SELECT * FROM {relation.sql} LIMIT {sample}")
            parts.append(table(names, found, desk.limits, title="Sample"))
        return join(parts, desk.limits)


def _profile(
    reader: Reader, relation: Relation, columns: Sequence[Column]
) -> list[tuple[int, int, str, str]]:
    if not columns:
        return []
    parts = []
    for column in columns:
        name = quote(column.name)
        parts += [
            f"count({name})",
            f"approx_count_distinct({name})",
            f"left(min({name})::VARCHAR, 200)",
            f"left(max({name})::VARCHAR, 200)",
        ]
    row = reader.rows(f"SELECT {', '.join(parts)} FROM {relation.sql}")[0]
    return [tuple(row[start : start + 4]) for start in range(0, len(row), 4)]


def explore_column(
    desk: Desk,
    table_name: TableName,
    column: Annotated[str, Field(description="Column name; case does not matter.")],
    top: Annotated[int, Field(ge=1, le=100, description="How many frequent values to show.")] = 15,
) -> Answer:
    """Profile one column: NULLs, exact distinct count, range, and its most frequent values.

    Numbers also get mean and quartiles; texts get counts of blank and untrimmed values and the
    lengths. Use it before filtering on a value or joining on a column.
    """
    with desk.open() as reader:
        relation = find(reader, table_name)
        chosen = relation.column(column)
        name = quote(chosen.name)
        facts = [
            ("rows", "count(*)"),
            ("NULLs", f"count(*) - count({name})"),
            ("distinct", f"count(DISTINCT {name})"),
            ("least", f"min({name})::VARCHAR"),
            ("greatest", f"max({name})::VARCHAR"),
        ]
        if chosen.type.startswith(NUMBERS):
            facts += [
                ("mean", f"avg({name})::VARCHAR"),
                ("quartiles", f"quantile_cont({name}, [0.25, 0.5, 0.75])::VARCHAR"),
                ("zeros", f"count(*) FILTER ({name} = 0)"),
                ("negative", f"count(*) FILTER ({name} < 0)"),
            ]
        if chosen.type == "VARCHAR":
            facts += [
                ("blank", f"count(*) FILTER (trim({name}) = '')"),
                ("untrimmed", f"count(*) FILTER (trim({name}) <> {name})"),
                ("shortest", f"min(length({name}))"),
                ("longest", f"max(length({name}))"),
                ("distinct ignoring case", f"count(DISTINCT lower(trim({name})))"),
            ]
        row = reader.rows(f"SELECT {', '.join(text for _, text in facts)} FROM {relation.sql}")[0]
        values = reader.run(
            f"SELECT {name}, count(*) AS n FROM {relation.sql} GROUP BY 1 "
            f"ORDER BY n DESC, {name}::VARCHAR LIMIT {top}"
        )
        title = f"{relation.label}.{chosen.name} ({chosen.type})"
        return join(
            [
                table(
                    ["fact", "value"],
                    zip((label for label, _ in facts), row, strict=True),
                    desk.limits,
                    title=title,
                ),
                table(["value", "rows"], values, desk.limits, title="Most frequent values"),
            ],
            desk.limits,
        )


def get_date_boundaries(
    desk: Desk,
    tables: Annotated[
        str, Field(description="Comma-separated tables; empty: every table that has dates.")
    ] = "",
) -> Answer:
    """Show the first and last value of every date and timestamp column, and the current date.

    Use it for date spines: it shows whether data ends before, at or after current_date.
    """
    with desk.open() as reader:
        if tables.strip():
            chosen = [find(reader, name) for name in tables.split(",")]
        else:
            chosen = [item for item in relations(reader) if item.kind == "table"]
        today = reader.rows("SELECT current_date::VARCHAR")[0][0]
        rows: list[tuple[object, ...]] = []
        for relation in chosen:
            dated = [item for item in relation.columns if _is_dated(item.type)]
            for column in dated:
                name = quote(column.name)
                try:
                    found = reader.rows(
                        f"SELECT min({name})::VARCHAR, max({name})::VARCHAR, "
                        f"count(DISTINCT {name}::DATE), count(*) - count({name}) "
                        f"FROM {relation.sql}"
                    )[0]
                except CallError as error:
                    if error.outcome != "failed":
                        raise
                    found = (f"cannot be read: {error.what.splitlines()[0]}", "", "", "")
                rows.append((relation.label, column.name, column.type, *found))
        return table(
            ["table", "column", "type", "first", "last", "days", "NULLs"],
            rows,
            desk.limits,
            title=f"current_date is {today}",
            total=len(rows),
            remedy="Name the tables.",
        )


def _is_dated(kind: str) -> bool:
    return kind == "DATE" or kind.startswith("TIMESTAMP")
