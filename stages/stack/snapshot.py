"""The reference snapshot: what a start database holds, as a short text for an agent to read.

Runs under the stack's Python and on the task's clock: `python -m stages.stack.snapshot
DATABASE OUT`. Needs DuckDB and the standard library only.
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import duckdb

from stages.common.sql import quote

SAMPLE_ROWS = 3
CELL_WIDTH = 60
LARGEST = 200_000
"""Characters of the whole snapshot; beyond it tables are listed by name and size alone."""


def snapshot(database: Path) -> str:
    """Row counts, column types and sample rows of every table, in Markdown.

    Views are listed with their columns and without rows: reading one can be expensive, and
    what it shows depends on the day.
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        today = connection.execute("SELECT current_date").fetchall()[0][0]
        relations = connection.execute(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables "
            "WHERE table_catalog = current_database() ORDER BY ALL"
        ).fetchall()
        parts = [
            "# Reference snapshot of the start database\n",
            f"Taken before any work, at {_day(today)} (the task's current date). "
            f"{len(relations)} tables and views.\n",
        ]
        size = sum(map(len, parts))
        for schema, name, kind in relations:
            part = _describe(connection, schema, name, kind, brief=size > LARGEST)
            size += len(part)
            parts.append(part)
    return "\n".join(parts)


def _day(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _describe(connection: Any, schema: str, name: str, kind: str, *, brief: bool) -> str:
    relation = quote(schema, name)
    title = f"## {schema}.{name}"
    try:
        if kind == "VIEW":
            columns = connection.execute(f"DESCRIBE {relation}").fetchall()
            return f"{title} (view)\n\n" + ("" if brief else _columns(columns))
        count = connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0]
        head = f"{title} ({count} rows)\n\n"
        if brief:
            return head
        columns = connection.execute(f"DESCRIBE {relation}").fetchall()
        texts = ", ".join(f"CAST({quote(column[0])} AS VARCHAR)" for column in columns)
        rows = connection.execute(f"SELECT {texts} FROM {relation} LIMIT {SAMPLE_ROWS}").fetchall()
        return head + _columns(columns) + _rows([column[0] for column in columns], rows)
    except duckdb.Error as error:
        return f"{title}\n\ncannot be read: {str(error).splitlines()[0]}\n"


def _columns(columns: list[Any]) -> str:
    return "".join(f"- `{column[0]}` {column[1]}\n" for column in columns) + "\n"


def _rows(names: list[str], rows: list[Any]) -> str:
    if not rows:
        return ""
    lines = [names, ["---"] * len(names), *([_cell(value) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: str | None) -> str:
    text = "NULL" if value is None else " ".join(value.replace("|", "\\|").split())
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + "…"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(snapshot(Path(sys.argv[1])), encoding="utf-8")
