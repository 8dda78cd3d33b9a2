"""trials and tables, one row each, as CSV or Parquet: what columns there are, and what is in them.

docs/exports.md lists the columns; a test holds it to `SCHEMA`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import duckdb

from stages.common.sql import quote, quote_text
from stages.evaluate.models import Reason, TableVerdict
from stages.report.export.place import fresh_folder, write_notes
from stages.report.export.read import Note, Run, RunTrial, clean
from stages.report.summary import cause, outcome

Format = Literal["csv", "parquet"]

OPTIONS: dict[Format, str] = {
    "csv": "FORMAT csv, HEADER true",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}

TRIAL = {
    "suite": "VARCHAR",
    "instance_id": "VARCHAR",
    "trial": "INTEGER",
    "agent": "VARCHAR",
    "model": "VARCHAR",
}
"""The columns that name a trial; both files begin with them."""

SCHEMA: dict[str, dict[str, str]] = {
    "trials": {
        **TRIAL,
        "audit": "VARCHAR",
        "status": "VARCHAR",
        "passed": "BOOLEAN",
        "passed_officially": "BOOLEAN",
        "passed_strictly": "BOOLEAN",
        "resolutions": "VARCHAR",
        "causes": "VARCHAR",
        "reason": "VARCHAR",
        "tables": "INTEGER",
        "tables_passed": "INTEGER",
        "turns": "INTEGER",
        "elapsed_s": "DOUBLE",
        "cost_usd": "DOUBLE",
        "tokens_input": "BIGINT",
        "tokens_output": "BIGINT",
        "tokens_cache_read": "BIGINT",
        "tokens_cache_write": "BIGINT",
        "attempts": "INTEGER",
        "sealed": "BOOLEAN",
        "gold_date": "DATE",
        "run_key": "VARCHAR",
        "detail": "VARCHAR",
        "note": "VARCHAR",
    },
    "tables": {
        **TRIAL,
        "table_name": "VARCHAR",
        "official": "BOOLEAN",
        "strict": "BOOLEAN",
        "reason": "VARCHAR",
        "cause": "VARCHAR",
        "detail": "VARCHAR",
        "strict_detail": "VARCHAR",
        "disagreement": "VARCHAR",
        "resolutions": "VARCHAR",
        "diagnosis": "VARCHAR",
        "gold_rows": "BIGINT",
        "result_rows": "BIGINT",
        "columns_wrong": "VARCHAR",
        "days_off": "INTEGER",
    },
}
"""File to column to DuckDB type, in the order in which they are written."""


def write_rows(run: Run, out: Path, form: Format) -> list[Note]:
    """Write trials and tables to the folder `out`; what is missing of single trials.

    Raises:
        UserError: `out` holds something else.
    """
    rows: dict[str, list[dict[str, Any]]] = {
        "trials": [_trial(run, item) for item in run.trials],
        "tables": [
            _table(run, item, table)
            for item in run.trials
            if item.verdict
            for table in item.verdict.tables
        ],
    }
    notes = run.notes
    with fresh_folder(out) as folder, duckdb.connect() as connection:
        for name, columns in SCHEMA.items():
            listed = ", ".join(f"{quote(column)} {kind}" for column, kind in columns.items())
            connection.execute(f"CREATE TABLE {quote(name)} ({listed})")
            values = [_values(row, columns) for row in rows[name]]
            if values:
                marks = ", ".join("?" * len(columns))
                connection.executemany(f"INSERT INTO {quote(name)} VALUES ({marks})", values)
            path = quote_text(str(folder / f"{name}.{form}"))
            connection.execute(f"COPY {quote(name)} TO {path} ({OPTIONS[form]})")
        about = f"suite {run.suite}, agent {run.agent}, model {run.model or 'none'}"
        write_notes(folder, [about, "the columns: docs/exports.md"], notes)
    return notes


def _values(row: dict[str, Any], columns: Iterable[str]) -> list[Any]:
    assert set(row) == set(columns), "a row has exactly the columns of its file"
    return [clean(row[name]) if isinstance(row[name], str) else row[name] for name in columns]


def _named(run: Run, item: RunTrial) -> dict[str, Any]:
    return {
        "suite": run.suite,
        "instance_id": item.instance_id,
        "trial": item.trial,
        "agent": item.result.agent if item.result else run.agent,
        "model": item.result.model if item.result else run.model,
    }


def _trial(run: Run, item: RunTrial) -> dict[str, Any]:
    found = outcome(item.trial, item.result, item.verdict)
    result = item.result
    return _named(run, item) | {
        "audit": item.entry.status.value,
        "status": found.status.value if found.status else None,
        "passed": found.passed,
        "passed_officially": found.passed_officially,
        "passed_strictly": found.passed_strictly,
        "resolutions": _joined(found.resolutions),
        "causes": _joined(found.causes),
        "reason": found.reason,
        "tables": found.tables,
        "tables_passed": found.tables_passed,
        "turns": result.turns if result else None,
        "elapsed_s": result.elapsed_s if result else None,
        "cost_usd": result.cost_usd if result else None,
        "tokens_input": result.tokens.input if result else None,
        "tokens_output": result.tokens.output if result else None,
        "tokens_cache_read": result.tokens.cache_read if result else None,
        "tokens_cache_write": result.tokens.cache_write if result else None,
        "attempts": result.attempts if result else None,
        "sealed": result.sealed if result else None,
        "gold_date": result.gold_date if result else None,
        "run_key": result.run_key if result else None,
        "detail": result.detail if result else None,
        "note": item.note,
    }


def _table(run: Run, item: RunTrial, table: TableVerdict) -> dict[str, Any]:
    found = table.diagnosis
    return _named(run, item) | {
        "table_name": table.table,
        "official": table.official,
        "strict": table.strict,
        "reason": Reason(table.reason).value,
        "cause": cause(table),
        "detail": table.detail,
        "strict_detail": table.strict_detail,
        "disagreement": table.disagreement,
        "resolutions": _joined(table.resolutions),
        "diagnosis": found.text if found else None,
        "gold_rows": found.gold_rows if found else None,
        "result_rows": found.result_rows if found else None,
        "columns_wrong": _joined(tuple(item.column for item in found.columns)) if found else None,
        "days_off": found.days_off if found else None,
    }


def _joined(words: tuple[str, ...]) -> str:
    return ", ".join(words)
