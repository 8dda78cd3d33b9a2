"""DuckDB's own reading of a statement: what it is, and which tables and functions it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from stages.common.files import Record
from stages.common.sql import quote_text

READING_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})


class EngineParse(Record):
    """A statement as the engine's parser sees it."""

    kinds: tuple[str, ...]
    """Statement types: SELECT, INSERT, CALL…; one for each statement."""
    error: str = ""
    """Why it does not parse, or has no syntax tree that can be read."""
    nodes: frozenset[str] = frozenset()
    """Query nodes: SELECT_NODE, and in newer versions INSERT_NODE and its like in a CTE."""
    tables: frozenset[str] = frozenset()
    table_functions: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()


def engine_parse(sql: str) -> EngineParse:
    """Parse without binding or running anything, on an empty database in memory."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as connection:
        try:
            statements = connection.extract_statements(sql)
        except (duckdb.Error, RuntimeError, ValueError) as error:
            return EngineParse(kinds=(), error=str(error).strip() or type(error).__name__)
        kinds = tuple(map(_kind, statements))
        if kinds != ("SELECT",):
            return EngineParse(kinds=kinds)
        rows = connection.execute(f"SELECT json_serialize_sql({quote_text(sql)})").fetchall()
    try:
        tree = json.loads(rows[0][0])
        if tree["error"]:
            return EngineParse(kinds=kinds, error=str(tree["error_message"]))
        parts = list(_objects(tree))
    except (ValueError, RecursionError) as error:
        return EngineParse(kinds=kinds, error=f"its syntax tree cannot be read: {error}")
    return EngineParse(
        kinds=kinds,
        nodes=frozenset(
            str(part["type"]) for part in parts if str(part.get("type")).endswith("_NODE")
        ),
        tables=frozenset(
            str(part["table_name"]).strip('"')
            for part in parts
            if part.get("type") in ("BASE_TABLE", "SHOW_REF") and part.get("table_name")
        ),
        table_functions=frozenset(
            _name(part["function"]) for part in parts if part.get("type") == "TABLE_FUNCTION"
        ),
        functions=frozenset(_name(part) for part in parts if part.get("class") == "FUNCTION"),
    )


def _kind(statement: Any) -> str:
    try:
        return str(statement.type).rpartition(".")[2]
    except ValueError:
        # Newer kinds (UPDATE EXTENSIONS) have no name in the Python client.
        return "OTHER"


def _name(function: Any) -> str:
    return str(function.get("function_name", "")).lower() if isinstance(function, dict) else ""


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
