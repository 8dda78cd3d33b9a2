"""The official Spider2-DBT comparison of two tables, case for case.

As a program, it judges many pairs of tables and prints one JSON line for each:
`python -m stages.evaluate.official --gold GOLD.duckdb --result RESULT.duckdb --cases CASES.json`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from stages.common.errors import UserError, main
from stages.evaluate.columns import Columns, EvaluatorError, UnforeseenTypeError
from stages.evaluate.databases import first_line, open_database
from stages.evaluate.matching import first_difference, matches
from stages.evaluate.table import Table, open_table

__all__ = ["Case", "Comparison", "EvaluatorError", "compare", "judge"]


@dataclass(frozen=True)
class Comparison:
    """Whether every graded column of gold is found among the result's columns."""

    matched: bool
    unmatched: tuple[int, ...]
    """Positions, in gold, of the graded columns that no column of the result equals."""
    detail: str
    """One sentence: row counts, and what the first unmatched column lacks."""


def compare(gold: Table, result: Table, columns: Sequence[int], ignore_order: bool) -> Comparison:
    """Look for each graded column of gold among the result's columns, whatever their names.

    Args:
        gold: The gold table.
        result: The trial's table.
        columns: Graded positions in gold, which may repeat; empty grades all.
        ignore_order: Sort each column by itself before comparing; rows are then not kept.

    Raises:
        EvaluatorError: a position is out of range, or a frame has no common dtype.

    Rules: `duckdb_match` in xlang-ai/Spider2, `spider2-dbt/evaluation_suite/eval_utils.py`.
    """
    width = len(gold.columns)
    if any(not -width <= position < width for position in columns):
        text = f"graded positions {list(columns)} do not fit gold's {width} columns"
        raise EvaluatorError("gold", text)
    positions = list(columns) or list(range(width))
    for whole in (False, True):
        expected = Columns(gold, positions, "gold", ignore_order, whole=whole)
        offered = Columns(result, range(len(result.columns)), "result", ignore_order, whole=whole)
        try:
            return _compare(expected, offered, positions)
        except UnforeseenTypeError:
            continue
    raise AssertionError("a frame that is read whole has the types that it has")


def _compare(gold: Columns, result: Columns, positions: Sequence[int]) -> Comparison:
    unmatched = [
        at
        for at in range(len(gold))
        if not any(matches(gold, at, result, other) for other in _likely(gold, at, result))
    ]
    rows = f"gold has {gold.rows} rows, the result {result.rows}"
    if not unmatched:
        return Comparison(True, (), f"all {len(positions)} graded columns found; {rows}")
    first = unmatched[0]
    detail = (
        f"{len(unmatched)} of {len(positions)} graded columns found no match, first "
        f"{gold.names[first]!r} (position {positions[first]}): "
        f"{_difference(gold, first, result)}; {rows}"
    )
    return Comparison(False, tuple(positions[at] for at in unmatched), detail)


def _likely(gold: Columns, at: int, result: Columns) -> Iterator[int]:
    """Every position of the result, the one with the same name first: only the speed differs."""
    first = _namesake(gold, at, result)
    if first is not None:
        yield first
    yield from (position for position in range(len(result)) if position != first)


def _namesake(gold: Columns, at: int, result: Columns) -> int | None:
    name = gold.names[at].lower()
    return next((i for i, other in enumerate(result.names) if other.lower() == name), None)


def _difference(gold: Columns, at: int, result: Columns) -> str:
    """What the result's column of the same name has instead, or that there is none."""
    namesake = _namesake(gold, at, result)
    if namesake is None:
        return "the result has no column of that name, and no other equals it"
    if gold.rows != result.rows:
        return "the number of rows differs"
    found = first_difference(gold, at, result, namesake)
    if found is None:
        return "its values differ"
    row, ours, theirs = found[0], _short(found[1]), _short(found[2])
    at_row = f"at row {row + 1}{' of the sorted column' if gold.in_any_order else ''}"
    return f"{at_row} gold has {ours}, the result's column of that name {theirs}"


def _short(cell: Any) -> str:
    try:
        text = repr(cell)
    except Exception:  # pandas cannot print a timestamp past the year 9999
        text = f"a {type(cell).__name__} that cannot be printed"
    return text if len(text) <= 60 else text[:57] + "..."


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
