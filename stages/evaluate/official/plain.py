"""The published rules of the official comparison, written down as plainly as they are put.

An independent check of `official.compare`, and what `make bench` measures it against: it sorts
both columns for each pair that it looks at, cell by cell. (The published script looks for each
column that it has found once more, which doubles its time and changes nothing; this does not.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd


def matches(
    gold: pd.DataFrame, result: pd.DataFrame, columns: Sequence[int], ignore_order: bool
) -> bool:
    """Whether each graded column of gold is to be found among the result's columns.

    Args:
        gold: The gold table as DuckDB hands it to pandas.
        result: The trial's table, likewise.
        columns: Graded positions in gold; empty grades all.
        ignore_order: Each column is sorted by itself before it is compared.

    Raises:
        Exception: what pandas raises where a position does not fit, or a frame cannot be turned.

    Rules: `compare_pandas_table` in xlang-ai/Spider2,
    `spider2-dbt/evaluation_suite/eval_utils.py`.
    """
    graded = gold.iloc[:, list(columns)] if columns else gold
    wanted: list[list[Any]] = graded.T.to_numpy().tolist()
    offered: list[list[Any]] = result.T.to_numpy().tolist()
    return all(any(_same(ours, theirs, ignore_order) for theirs in offered) for ours in wanted)


def _same(gold: list[Any], result: list[Any], ignore_order: bool) -> bool:
    """Whether two columns agree; one that cannot be sorted or compared agrees with none."""
    try:
        if ignore_order:
            gold, result = sorted(gold, key=_rank), sorted(result, key=_rank)
        if len(gold) != len(result):
            return False
        for ours, theirs in zip(gold, result, strict=True):
            if pd.isna(ours) and pd.isna(theirs):
                continue
            if _is_number(ours) and _is_number(theirs):
                if not math.isclose(float(ours), float(theirs), abs_tol=0.01):
                    return False
            elif ours != theirs:
                return False
    except Exception:
        return False
    return True


def _rank(cell: Any) -> tuple[bool, str, bool]:
    return cell is None, str(cell), _is_number(cell)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float))
