"""The official Spider2-DBT comparison of two tables, case for case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stages.evaluate.official.columns import Columns, EvaluatorError, UnforeseenTypeError
from stages.evaluate.official.matching import first_difference, matches
from stages.evaluate.table import Table

__all__ = ["Comparison", "EvaluatorError", "compare"]


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
