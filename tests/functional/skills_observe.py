"""Executes examples under a stack's Python: `skills_observe.py queries|dbt`, JSON in and out.

Needs what a stack has: DuckDB, dbt and the standard library.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import duckdb


def observe(connection: Any, code: str) -> dict[str, Any]:
    """Execute statements; columns and rows, as text, of the last, or the error of the first."""
    try:
        *before, last = duckdb.extract_statements(code)
        for statement in before:
            connection.execute(statement)
        if last.type not in (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI):
            connection.execute(last)
            return {"error": None, "columns": [], "rows": []}
        # Executed for its names, then as a table whose columns can all be cast.
        names = [item[0] for item in connection.execute(code).description]
        aliases = ", ".join(f"c{position}" for position in range(len(names)))
        texts = ", ".join(f"cast(c{position} as varchar)" for position in range(len(names)))
        rows = connection.execute(f"select {texts} from ({code}) t({aliases})").fetchall()
        cells = [["NULL" if cell is None else cell for cell in row] for row in rows]
        return {"error": None, "columns": names, "rows": cells}
    except duckdb.Error as error:
        return {"error": str(error), "columns": [], "rows": []}


def queries(given: list[list[str]]) -> list[list[dict[str, Any]]]:
    """Each list of statements on a database of its own."""
    found = []
    for codes in given:
        with duckdb.connect(config={"threads": 1}) as connection:
            found.append([observe(connection, code) for code in codes])
    return found


def dbt(given: list[tuple[str, list[dict[str, Any]]]]) -> list[list[dict[str, Any]]]:
    """Steps in each of the projects' folders, all on one day."""
    return [project(folder, steps) for folder, steps in given]


def project(folder: str, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps in one project."""
    os.chdir(folder)
    found: list[dict[str, Any]] = []
    for step in steps:
        if step["do"] == "dbt":
            found.append(invoke(step["words"]))
        elif step["do"] == "file":
            path = Path(step["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step["text"], encoding="utf-8")
            found.append({})
        else:
            with duckdb.connect(str(Path.cwd() / "demo.duckdb")) as connection:
                found.append(observe(connection, step["sql"]))
    return found


def invoke(words: list[str]) -> dict[str, Any]:
    """One dbt command, in this process: it takes a fifth of the time of a new one."""
    from dbt.cli.main import dbtRunner

    lines: list[str] = []

    def keep(event: Any) -> None:
        if str(event.info.level) != "debug":
            lines.append(event.info.msg)

    done = dbtRunner(callbacks=[keep]).invoke(["--quiet", "--no-use-colors", *words])
    if words[0] == "ls":
        lines += done.result or []
    lines.append(str(done.exception or ""))
    return {"failed": not done.success, "output": "\n".join(lines)}


if __name__ == "__main__":
    answer = (queries if sys.argv[1] == "queries" else dbt)(json.load(sys.stdin))
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")
