"""The first cells that differ, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stages.common.sql import quote
from stages.evaluate.diagnosis.align import Pairing
from stages.evaluate.diagnosis.causes import Difference
from stages.evaluate.models import RowDifference
from stages.evaluate.strict.sides import Side

MAX_CELLS = 12
CELLS_A_COLUMN = 3
UNPAIRED_ROWS = 3
"""Rows that only one side has: so many of either."""
MAX_CHARACTERS = 80


def first_cells(
    gold: Side,
    result: Side,
    pairing: Pairing,
    columns: Sequence[tuple[int, int, Difference]],
) -> tuple[RowDifference, ...]:
    """Differing cells by the key of their row, then keys that only one side has.

    `columns` are columns of gold, their nearest in the result, and where the two differ.
    """
    wanted = [
        (at, other, int(row), int(partner))
        for at, other, found in columns
        for row, partner in zip(
            found.gold[:CELLS_A_COLUMN], found.result[:CELLS_A_COLUMN], strict=False
        )
    ][:MAX_CELLS]
    only_gold = [int(row) for row in pairing.only_gold[:UNPAIRED_ROWS]]
    only_result = [int(row) for row in pairing.only_result[:UNPAIRED_ROWS]]
    keys, its_keys = [at for at, _ in pairing.key], [other for _, other in pairing.key]
    ours = _Texts(
        gold, [row for _, _, row, _ in wanted] + only_gold, [*keys, *(w[0] for w in wanted)]
    )
    theirs = _Texts(
        result, [w[3] for w in wanted] + only_result, [*its_keys, *(w[1] for w in wanted)]
    )
    names = [gold.name(at) for at in keys]
    cells = [
        RowDifference(
            key=ours.key(row, keys, names),
            column=gold.name(at),
            gold=ours.cell(row, at),
            result=theirs.cell(partner, other),
        )
        for at, other, row, partner in wanted
    ]
    if keys:
        cells += [
            RowDifference(
                key=ours.key(row, keys, names),
                column=names[0],
                gold=ours.cell(row, keys[0]),
                result=None,
            )
            for row in only_gold
        ]
        cells += [
            RowDifference(
                key=theirs.key(row, its_keys, names),
                column=names[0],
                gold=None,
                result=theirs.cell(row, its_keys[0]),
            )
            for row in only_result
        ]
    return tuple(cells[:MAX_CELLS])


class _Texts:
    """Some cells of a table as text."""

    def __init__(self, side: Side, rows: Iterable[int], columns: Iterable[int]) -> None:
        positions = sorted(set(columns))
        numbers = sorted(set(rows))
        self._cells: dict[tuple[int, int], str | None] = {}
        if not numbers or not positions:
            return
        parts = [
            f"left(CAST({quote(side.name(at))} AS VARCHAR), {MAX_CHARACTERS + 1})"
            for at in positions
        ]
        picked = ", ".join(f"{part} AS c{at}" for part, at in zip(parts, positions, strict=True))
        found = side.table.connection.execute(
            f"SELECT * FROM (SELECT row_number() OVER () - 1 AS n, {picked} "
            f"FROM {side.table.source}) WHERE n IN ({', '.join(map(str, numbers))})"
        ).fetchall()
        for number, *texts in found:
            for at, text in zip(positions, texts, strict=True):
                self._cells[number, at] = _short(text)

    def cell(self, row: int, at: int) -> str | None:
        return self._cells[row, at]

    def key(self, row: int, columns: Sequence[int], names: Sequence[str]) -> dict[str, str | None]:
        """The key's values by gold's names; the row's number, from 1, where there is no key."""
        if not columns:
            return {"row": str(row + 1)}
        return {name: self.cell(row, at) for name, at in zip(names, columns, strict=True)}


def _short(text: str | None) -> str | None:
    if text is None or len(text) <= MAX_CHARACTERS:
        return text
    return text[: MAX_CHARACTERS - 3] + "..."
