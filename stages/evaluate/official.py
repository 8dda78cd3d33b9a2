"""The official Spider2-DBT comparison of two tables, case for case.

As a program, it judges many pairs of tables and prints one JSON line for each:
`python -m stages.evaluate.official --gold GOLD.duckdb --result RESULT.duckdb --cases CASES.json`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionDtype
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from stages.common.errors import UserError, main
from stages.evaluate.databases import first_line, open_database, read_unquoted

TOLERANCE = 1e-2
"""Numbers agree within it, or within `math.isclose`'s own relative 1e-9."""

NUMBER = (int, float)
CHUNK = 65_536
"""Cells that are Python objects at a time, so that one long column is not held twice."""

PLAIN = (
    pd.BooleanDtype,
    pd.CategoricalDtype,
    pd.Int8Dtype,
    pd.Int16Dtype,
    pd.Int32Dtype,
    pd.Int64Dtype,
    pd.StringDtype,
    pd.UInt8Dtype,
    pd.UInt16Dtype,
    pd.UInt32Dtype,
    pd.UInt64Dtype,
)
"""Extension types whose values come through a transpose of two rows or more as they are."""

Side = Literal["gold", "result"]
Vector = npt.NDArray[Any]


class EvaluatorError(Exception):
    """The official evaluator raises here, outside every handler of its own."""

    def __init__(self, side: Side, text: str) -> None:
        super().__init__(side, text)
        self.side = side
        """Whose table it raises on."""
        self.text = text


@dataclass(frozen=True)
class Comparison:
    """Whether every graded column of gold is found among the result's columns."""

    matched: bool
    unmatched: tuple[int, ...]
    """Positions, in gold, of the graded columns that no column of the result equals."""
    detail: str
    """One sentence: row counts, and what the first unmatched column lacks."""


def compare(
    gold: pd.DataFrame, result: pd.DataFrame, columns: Sequence[int], ignore_order: bool
) -> Comparison:
    """Look for each graded column of gold among the result's columns, whatever their names.

    Args:
        gold: The gold table, as DuckDB hands it to pandas.
        result: The trial's table, likewise.
        columns: Graded positions in gold, which may repeat; empty grades all.
        ignore_order: Sort each column by itself before comparing; rows are then not kept.

    Raises:
        EvaluatorError: a position is out of range, or a frame has no common dtype.

    Rules: `duckdb_match` in xlang-ai/Spider2, `spider2-dbt/evaluation_suite/eval_utils.py`.
    """
    wanted = _graded(gold, columns)
    expected = _Columns(wanted, "gold", ignore_order)
    offered = _Columns(result, "result", ignore_order)
    positions = list(columns) or list(range(gold.shape[1]))
    unmatched = [
        at
        for at in range(len(expected))
        if not any(_equal(expected[at], offered[other]) for other in _likely(wanted, at, result))
    ]
    rows = f"gold has {len(gold)} rows, the result {len(result)}"
    if not unmatched:
        return Comparison(True, (), f"all {len(positions)} graded columns found; {rows}")
    first = unmatched[0]
    name = str(wanted.columns[first])
    detail = (
        f"{len(unmatched)} of {len(positions)} graded columns found no match, first {name!r} "
        f"(position {positions[first]}): {_difference(expected, offered, wanted, first, result)}; "
        f"{rows}"
    )
    return Comparison(False, tuple(positions[at] for at in unmatched), detail)


def _graded(gold: pd.DataFrame, columns: Sequence[int]) -> pd.DataFrame:
    if not columns:
        return gold
    try:
        return gold.iloc[:, list(columns)]
    except IndexError:
        raise EvaluatorError(
            "gold",
            f"graded positions {list(columns)} do not fit gold's {gold.shape[1]} columns",
        ) from None


class _Columns:
    """A frame's columns after the official conversion, each sorted when order is ignored.

    The conversion goes through one array for the whole frame, so a column's values depend on
    the dtype that all columns have in common: integers beside floats become floats, and a
    frame of nanosecond timestamps becomes integers.
    """

    def __init__(self, frame: pd.DataFrame, side: Side, in_any_order: bool) -> None:
        try:
            self._matrix = _common_array(frame)
        except Exception as error:
            text = f"{side}'s columns have no common type: {type(error).__name__}: {error}"
            raise EvaluatorError(side, text) from error
        self.in_any_order = in_any_order
        self._sorted: dict[int, Vector | None] = {}

    def __len__(self) -> int:
        return int(self._matrix.shape[1])

    def __getitem__(self, position: int) -> Vector | None:
        """One column; None where its values cannot be put in order, which matches nothing."""
        column: Vector = self._matrix[:, position]
        if not self.in_any_order:
            return column
        if position not in self._sorted:
            self._sorted[position] = _in_order(column)
        return self._sorted[position]


def _common_array(frame: pd.DataFrame) -> Vector:
    """What pandas makes of the transposed frame, transposed back: rows by columns.

    Transposing a frame whose columns all have one extension type builds an array for each row,
    over a hundred microseconds a piece. It is done only where it changes the outcome: a single
    row loses its type, and time stamps past the years that Python knows raise.
    """
    kinds = set(frame.dtypes)
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    if not isinstance(kind, ExtensionDtype):
        return frame.to_numpy()
    if len(frame) > 1 and (
        isinstance(kind, PLAIN)
        or (isinstance(kind, pd.DatetimeTZDtype) and _within_known_years(frame))
    ):
        return frame.astype(object).to_numpy()
    return frame.transpose().to_numpy().T


def _within_known_years(frame: pd.DataFrame) -> bool:
    """Whether every timestamp lies safely within the years 1 to 9999 that Python knows."""
    low, high = (np.datetime64(day, "s") for day in ("0002-01-01", "9998-12-31"))
    for _, column in frame.items():
        moments = column.dropna().to_numpy(dtype="datetime64[s]")
        if bool(((moments < low) | (moments > high)).any()):
            return False
    return True


def _in_order(column: Vector) -> Vector | None:
    """The column sorted by None-ness, text, number-ness, in this order, as officially."""
    try:
        keys = [(cell is None, str(cell), isinstance(cell, NUMBER)) for cell in column.tolist()]
    except MemoryError:
        raise
    except Exception:
        return None
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return column[np.array(order, dtype=np.intp)]


def _likely(gold: pd.DataFrame, at: int, result: pd.DataFrame) -> Iterator[int]:
    """Every position of the result, the one with the same name first: only the speed differs."""
    first = _namesake(gold, at, result)
    if first is not None:
        yield first
    yield from (position for position in range(result.shape[1]) if position != first)


def _namesake(gold: pd.DataFrame, at: int, result: pd.DataFrame) -> int | None:
    name = str(gold.columns[at]).lower()
    return next((i for i, other in enumerate(result.columns) if str(other).lower() == name), None)


def _equal(gold: Vector | None, result: Vector | None) -> bool:
    """Whether two columns have the same length and agree in every cell."""
    if gold is None or result is None or len(gold) != len(result):
        return False
    for start in range(0, len(gold), CHUNK):
        pairs = zip(
            gold[start : start + CHUNK].tolist(),
            result[start : start + CHUNK].tolist(),
            strict=True,
        )
        if not all(_agree(ours, theirs) for ours, theirs in pairs):
            return False
    return True


def _agree(gold: Any, result: Any) -> bool:
    """Whether two cells agree; values that cannot be compared (lists of several) do not."""
    kind = type(gold)
    if kind is type(result) and (kind is float or kind is str) and gold == result:
        return True
    try:
        if bool(pd.isna(gold)) and bool(pd.isna(result)):
            return True
        if isinstance(gold, NUMBER) and isinstance(result, NUMBER):
            return math.isclose(float(gold), float(result), abs_tol=TOLERANCE)
        return not bool(gold != result)
    except MemoryError:
        raise
    except Exception:
        return False


def _difference(
    expected: _Columns, offered: _Columns, wanted: pd.DataFrame, at: int, result: pd.DataFrame
) -> str:
    """What the result's column of the same name has instead, or that there is none."""
    namesake = _namesake(wanted, at, result)
    if namesake is None:
        return "the result has no column of that name, and no other equals it"
    gold, other = expected[at], offered[namesake]
    if gold is None or other is None:
        return "its values cannot be put in order"
    if len(gold) != len(other):
        return "the number of rows differs"
    row = next(
        row
        for row in range(len(gold))
        if not _agree(gold[row : row + 1].tolist()[0], other[row : row + 1].tolist()[0])
    )
    ours, theirs = (_short(vector[row : row + 1].tolist()[0]) for vector in (gold, other))
    at_row = f"at row {row + 1}{' of the sorted column' if expected.in_any_order else ''}"
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

    def read(self, name: str) -> pd.DataFrame:
        """A table or view under its unquoted name; raises whatever DuckDB raises."""
        if self._connection is None:
            self._connection = open_database(self._path)
        try:
            return read_unquoted(self._connection, name)
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
