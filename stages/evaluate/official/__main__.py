"""Judges many pairs of tables and prints one JSON line for each.

`python -m stages.evaluate.official --gold GOLD.duckdb --result RESULT.duckdb --cases CASES.json`
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from stages.common.errors import UserError, main
from stages.evaluate.databases import first_line, open_database
from stages.evaluate.official.compare import EvaluatorError, compare
from stages.evaluate.table import Table, open_table


class Case(BaseModel):
    """A pair of tables to judge; other fields of the file are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    table: str
    condition_cols: tuple[int, ...] | None = None
    ignore_order: bool = False


def judge(gold: Path, result: Path, cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """What the official evaluator gives for each case: 1, 0, or `error` where it raises.

    Both databases are read as they stand, views included. A result that cannot be read is 0
    and gold that cannot be read an error, as officially.
    """
    with ExitStack() as stack:
        gold_tables, result_tables = (stack.enter_context(_Tables(p)) for p in (gold, result))
        for case in cases:
            score, reason = _judge(gold_tables, result_tables, case)
            yield {"table": case.table, "official": score, "reason": reason}


def _judge(gold: _Tables, result: _Tables, case: Case) -> tuple[int | str, str]:
    try:
        wanted = gold.read(case.table)
    except Exception as error:
        return "error", f"gold cannot be read: {first_line(error)}"
    try:
        offered = result.read(case.table)
    except Exception as error:
        return 0, f"the result cannot be read: {first_line(error)}"
    try:
        found = compare(wanted, offered, case.condition_cols or (), case.ignore_order)
    except EvaluatorError as error:
        return "error", error.text
    return int(found.matched), found.detail


class _Tables:
    """The tables of one file, opened once, and anew after a failure that may have hurt it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> _Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, name: str) -> Table:
        """A table or view under its unquoted name; raises whatever DuckDB raises."""
        if self._connection is None:
            self._connection = open_database(self._path)
        try:
            return open_table(self._connection, name)
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def run() -> int:
    """Judge the cases named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gold", type=Path, required=True, help="DuckDB file with gold's tables")
    parser.add_argument("--result", type=Path, required=True, help="DuckDB file to judge")
    parser.add_argument(
        "--cases",
        type=Path,
        required=True,
        help="JSON list of {table, condition_cols, ignore_order}",
    )
    given = parser.parse_args()
    try:
        cases = TypeAdapter(list[Case]).validate_json(given.cases.read_bytes())
    except (OSError, ValidationError) as error:
        raise UserError(
            f"the cases cannot be read: {error}",
            where=str(given.cases),
            remedy="give a JSON list of {table, condition_cols, ignore_order}",
        ) from None
    for line in judge(given.gold, given.result, cases):
        print(json.dumps(line, ensure_ascii=False), flush=True)
    return 0


if __name__ == "__main__":
    main(run)
