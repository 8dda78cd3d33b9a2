"""The verdicts that a mutant must get, worked out apart from the comparators."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from stages.evaluate.official import plain
from stages.evaluate.table import Table

WHOLE = 5_000
"""Up to so many cells of a mutant, the plain transcription compares whole tables."""
COMPARED = 500_000
"""Up to so many cells of a mutant, it compares the changed columns with all of the mutant's."""
SEARCHED = 200_000
"""Up to so many cells, another choice of columns is searched for."""
STEPS = 10_000


def official(
    gold: Table,
    mutant: Table,
    columns: Sequence[int],
    changed: Sequence[int],
    ignore_order: bool,
) -> bool | None:
    """The official verdict by the published rules.

    Args:
        gold: The gold table.
        mutant: What is judged.
        columns: Graded positions as the config has them; empty grades all.
        changed: Positions in gold of the graded columns that the mutant holds with other values
            or, where the order counts, in another order. The other columns it holds as they are.
        ignore_order: As the config has it.

    By the plain transcription or, in a larger table, by it for the changed columns alone: each
    column that is as it was is found again. Columns of different lengths never agree. None
    where all that would take too long.
    """
    if gold.rows != mutant.rows:
        return False
    cells = mutant.rows * len(mutant.columns)
    if cells > COMPARED:
        return None if changed else True
    wanted, offered = gold.frame(), mutant.frame()
    if cells > WHOLE and _mixed(wanted, columns) and _mixed(offered, ()):
        if not changed:
            return True
        return _matches(wanted.iloc[:, list(changed)].astype(object), offered, (), ignore_order)
    return _matches(wanted, offered, columns, ignore_order)


def _matches(
    wanted: pd.DataFrame, offered: pd.DataFrame, columns: Sequence[int], ignore_order: bool
) -> bool:
    try:
        return plain.matches(wanted, offered, columns, ignore_order)
    except Exception:  # pandas raises what it likes, and the official script fails the table
        return False


def _mixed(frame: pd.DataFrame, columns: Sequence[int]) -> bool:
    """Whether each column keeps its own values when the frame is turned."""
    graded = frame.iloc[:, list(columns)] if columns else frame
    head = graded.iloc[:2]
    return len(graded) > 1 and head.to_numpy().dtype == object and len(set(head.dtypes)) > 1


def other_choice(
    gold: Table, mutant: Table, positions: Sequence[int], ignore_order: bool
) -> tuple[str, ...] | None:
    """Columns of the mutant, one for each graded one, that hold gold's rows exactly.

    A search through all choices, as plain as can be. None where there is no such choice, or
    none was found in `STEPS` steps.
    """
    if gold.rows != mutant.rows or mutant.rows * len(mutant.columns) > SEARCHED:
        return None
    wanted = [_column(gold.frame(), at) for at in positions]
    offered = [_column(mutant.frame(), at) for at in range(len(mutant.columns))]
    left = STEPS

    def search(chosen: tuple[int, ...]) -> tuple[int, ...] | None:
        nonlocal left
        left -= 1
        if left < 0 or not _equal_rows(wanted, [offered[at] for at in chosen], ignore_order):
            return None
        if len(chosen) == len(wanted):
            return chosen
        for at in range(len(offered)):
            if at not in chosen and (found := search((*chosen, at))) is not None:
                return found
        return None

    found = search(())
    return None if found is None else tuple(mutant.columns[at].name for at in found)


def _equal_rows(
    wanted: Sequence[Sequence[Hashable]],
    offered: Sequence[Sequence[Hashable]],
    ignore_order: bool,
) -> bool:
    """Whether the first columns of gold and those that were chosen so far hold the same rows."""
    ours = list(zip(*wanted[: len(offered)], strict=True))
    theirs = list(zip(*offered, strict=True))
    return Counter(ours) == Counter(theirs) if ignore_order else ours == theirs


def _column(frame: pd.DataFrame, at: int) -> list[Hashable]:
    return [_value(cell) for cell in frame.iloc[:, at].astype(object).tolist()]


def _value(cell: Any) -> Hashable:
    """A value under which equal ones are equal, and true is not 1."""
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return ("null",)
    if isinstance(cell, bool):
        return ("boolean", cell)
    if isinstance(cell, float) and math.isnan(cell):
        return ("null",)
    if isinstance(cell, datetime.datetime) and cell.tzinfo is None:
        return ("moment", cell.isoformat())
    if isinstance(cell, int | float):
        return ("number", cell)
    return (type(cell).__name__, str(cell))
