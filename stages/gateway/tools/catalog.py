"""Tools that say what the database holds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from stages.common.sql import quote_text
from stages.gateway.desk import Desk
from stages.gateway.models import Answer
from stages.gateway.relations import (
    TableName,
    count_or_reason,
    find,
    pick,
    relations,
    unknown,
)
from stages.gateway.render import clip, join, table


def list_tables(
    desk: Desk,
    schema_name: Annotated[str, Field(description="Only this schema; empty: all schemas.")] = "",
) -> Answer:
    """List every table and view with its schema, row count and number of columns.

    Views are not counted, since reading one can be slow: use query_database for that.
    """
    with desk.open() as reader:
        found = relations(reader)
        schemas = {relation.schema_name for relation in found}
        if schema_name and schema_name.lower() not in {name.lower() for name in schemas}:
            raise unknown("schema", schema_name, schemas)
        chosen = [item for item in found if schema_name.lower() in ("", item.schema_name.lower())]
        rows = (
            (
                item.schema_name,
                item.name,
                item.kind,
                count_or_reason(reader, item) if item.kind == "table" else "",
                len(item.columns),
            )
            for item in chosen
        )
        return table(
            ["schema", "name", "kind", "rows", "columns"],
            rows,
            desk.limits,
            title=f"Database `{desk.settings.name}`: {len(chosen)} tables and views",
            total=len(chosen),
            remedy="Ask for one schema at a time.",
        )


def describe_table(desk: Desk, table_name: TableName) -> Answer:
    """Show a table's or view's columns in order, with types, NOT NULL and key constraints."""
    with desk.open() as reader:
        relation = find(reader, table_name)
        keys: dict[str, list[str]] = {}
        for kind, names in reader.rows(
            "SELECT constraint_type, constraint_column_names FROM duckdb_constraints() "
            "WHERE database_name = current_database() AND schema_name = ? AND table_name = ?",
            [relation.schema_name, relation.name],
        ):
            if kind != "CHECK":
                for name in names:
                    keys.setdefault(name, []).append(kind)
        rows = [
            (index, column.name, column.type, ", ".join(keys.get(column.name, [])))
            for index, column in enumerate(relation.columns, start=1)
        ]
        size = count_or_reason(reader, relation)
        return table(
            ["#", "column", "type", "constraints"],
            rows,
            desk.limits,
            title=f"{relation.kind} {relation.label}: {_rows(size)}",
            total=len(rows),
        )


def schema_overview(desk: Desk) -> Answer:
    """Show the whole schema at a glance: one line a table, with its row count and its columns.

    A good first look at an unknown database. describe_table has the details of one table.
    """
    with desk.open() as reader:
        found = relations(reader)
        parts = [f"Database `{desk.settings.name}`, {len(found)} tables and views"]
        for relation in found:
            size = count_or_reason(reader, relation) if relation.kind == "table" else "view"
            columns = ", ".join(f"{item.name} {item.type}" for item in relation.columns)
            parts.append(f"- {relation.label} ({_rows(size)}): {clip(columns, 1200)}")
        today = reader.rows("SELECT current_date::VARCHAR")[0][0]
        parts.insert(1, f"current_date is {today}.")
        return join(parts, desk.limits)


def schema_ddl(
    desk: Desk,
    tables: Annotated[
        str, Field(description="Comma-separated tables or views; empty: all of them.")
    ] = "",
) -> Answer:
    """Show the CREATE statements of tables and views, as DuckDB stores them."""
    with desk.open() as reader:
        found = relations(reader)
        chosen = found
        if tables.strip():
            chosen = []
            for name in tables.split(","):
                match = pick(found, name)
                if match is None:
                    raise unknown("table or view", name.strip(), [item.label for item in found])
                chosen.append(match)
        texts = {
            (schema, name): text
            for schema, name, text in reader.rows(
                "SELECT schema_name, table_name, sql FROM duckdb_tables() "
                "WHERE database_name = current_database() UNION ALL "
                "SELECT schema_name, view_name, sql FROM duckdb_views() "
                f"WHERE database_name = {quote_text(desk.settings.name)} AND NOT internal"
            )
        }
        parts = [
            str(texts.get((item.schema_name, item.name)) or f"-- {item.label}: no text stored")
            for item in chosen
        ]
        return join(parts or ["(no tables)"], desk.limits)


def _rows(size: int | str) -> str:
    return f"{size} rows" if isinstance(size, int) else size
