"""Says why a table fails: one cause, the columns and the first rows that show it.

Computed on failure only, and bounded: `MAX_COLUMNS` columns, `MAX_CELLS` cells of at most
`MAX_CHARACTERS` characters, whatever the tables hold.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from stages.evaluate.diagnosis.align import Pairing, namesake, pair_by_key, pair_by_number
from stages.evaluate.diagnosis.causes import Columns, Difference
from stages.evaluate.diagnosis.shift import Failed, days_off
from stages.evaluate.diagnosis.show import first_cells
from stages.evaluate.models import Cause, ColumnDiagnosis, Diagnosis, RowDifference
from stages.evaluate.official.compare import EvaluatorError
from stages.evaluate.strict.compare import Fault, Strict, compare_strictly
from stages.evaluate.strict.kinds import NESTED
from stages.evaluate.strict.sides import Side
from stages.evaluate.table import Table

MAX_COLUMNS = 10
"""Columns that a diagnosis lists."""
MAX_LOOKED_AT = 40
"""Failed columns that are compared at all."""
NEAR = 0.5
"""A column of another name is near when it is equal in this share of the rows."""
SEARCHED_ROWS = 1_000_000
"""In larger tables, a column that has a namesake is compared with that one only."""

BY_WEIGHT = (
    Cause.COLUMN_MISSING,
    Cause.VALUES_DIFFER,
    Cause.NULL_HANDLING,
    Cause.TYPE_OR_FORMAT,
    Cause.ROUNDING,
    Cause.ROW_COUNT,
)
"""The first of these among the columns' causes is the table's."""


@dataclass(frozen=True)
class _Column:
    at: int
    other: int | None
    difference: Difference | None
    cause: Cause


def diagnose(
    gold: Table,
    result: Table,
    columns: Sequence[int],
    ignore_order: bool,
    strict: Strict,
    error: EvaluatorError | None,
    day: datetime.date | None = None,
) -> Diagnosis:
    """The diagnosis of a table that fails in either score.

    `strict` is the strict verdict, `error` what the official evaluator raised on the result,
    `day` the date that the result was built on, where it is known.
    """
    if strict.matched:
        return _only_officially(gold, result, strict, error)
    found = _Diagnosing(gold, result, columns, ignore_order, strict, day).run()
    if error is None:
        return found
    text = f"the official evaluator raises: {error.text}; strictly, {found.text}"
    return found.model_copy(update={"cause": Cause.ERROR, "text": text})


def _only_officially(
    gold: Table, result: Table, strict: Strict, error: EvaluatorError | None
) -> Diagnosis:
    if error is not None:
        cause, text = Cause.ERROR, f"the official evaluator raises: {error.text}"
    elif not strict.exactly:
        cause = Cause.ROUNDING
        text = (
            "the rows are equal within the tolerance, and the official sort by text sets them apart"
        )
    elif any(NESTED.match(column.type) for column in gold.columns):
        cause = Cause.TYPE_OR_FORMAT
        text = "the rows are equal, and officially a list, map or struct may equal nothing"
    else:
        cause = Cause.TYPE_OR_FORMAT
        text = "the rows are equal, and the official conversion of the whole table sets them apart"
    return _diagnosis(gold, result, cause, text)


def _diagnosis(gold: Table, result: Table, cause: Cause, text: str) -> Diagnosis:
    return Diagnosis(
        cause=cause,
        text=text,
        gold_rows=gold.rows,
        result_rows=result.rows,
        columns=(),
        rows=(),
        days_off=None,
    )


class _Diagnosing:
    def __init__(
        self,
        gold: Table,
        result: Table,
        columns: Sequence[int],
        ignore_order: bool,
        strict: Strict,
        day: datetime.date | None,
    ) -> None:
        self._day = day
        self._tables = (gold, result)
        self._gold, self._result = Side(gold, False), Side(result, False)
        self._graded = columns
        self._ignore_order = ignore_order
        self._strict = strict

    def run(self) -> Diagnosis:
        if not self._tables[1].columns or not self._gold.rows:
            return self._by_names()
        ordered = self._is_order()
        pairing = self._pairing(ordered)
        columns = Columns(self._gold, self._result, pairing)
        lacking = self._strict.unmatched or tuple(self._graded)
        looked_at = [self._column(columns, at) for at in lacking[:MAX_LOOKED_AT]]
        if self._strict.fault in (Fault.PAIRING, Fault.UNDECIDED):
            looked_at = [item for item in looked_at if _differs(item)]
        shift = None
        if not ordered and len(lacking) <= MAX_LOOKED_AT:
            shift = self._shift(pairing, looked_at)
            if shift is None and self._strict.unmatched:
                shift = self._shift_of_calendar()
        cause = Cause.ORDER if ordered else self._cause(looked_at)
        text = self._text(cause, looked_at)
        if shift is not None:
            text += f"; it would pass on a date {abs(shift)} days "
            text += "later" if shift > 0 else "earlier"
        cells: tuple[RowDifference, ...] = ()
        if pairing is not None:
            shown = [
                (item.at, item.other, item.difference)
                for item in looked_at
                if item.other is not None and item.difference is not None
            ]
            cells = first_cells(self._gold, self._result, pairing, shown)
        return Diagnosis(
            cause=cause,
            text=text,
            gold_rows=self._gold.rows,
            result_rows=self._result.rows,
            columns=tuple(self._listed(item) for item in looked_at[:MAX_COLUMNS]),
            rows=cells,
            days_off=shift,
        )

    def _by_names(self) -> Diagnosis:
        """Of a table without rows: only names and types can tell."""
        found = []
        for at in self._strict.unmatched or self._graded:
            other = namesake(self._gold, at, self._result)
            cause = Cause.COLUMN_MISSING if other is None else Cause.TYPE_OR_FORMAT
            found.append(_Column(at, other, None, cause))
        cause = Cause.ROW_COUNT if self._strict.fault is Fault.ROWS else self._cause(found)
        diagnosis = _diagnosis(*self._tables, cause, self._strict.detail)
        listed = () if cause is Cause.ROW_COUNT else found[:MAX_COLUMNS]
        return diagnosis.model_copy(
            update={"columns": tuple(self._listed(item) for item in listed)}
        )

    def _is_order(self) -> bool:
        if self._ignore_order or self._strict.fault is not Fault.COLUMN:
            return False
        return compare_strictly(*self._tables, self._graded, True).matched

    def _pairing(self, ordered: bool) -> Pairing | None:
        if ordered:
            return pair_by_number(self._gold, self._result)
        pairing = pair_by_key(self._gold, self._result, self._strict.unmatched)
        if pairing is None and not self._ignore_order:
            return pair_by_number(self._gold, self._result)
        return pairing

    def _column(self, columns: Columns, at: int) -> _Column:
        """A failed column with the result's column that is nearest to it."""
        named = namesake(self._gold, at, self._result)
        best, found, cause = None, None, Cause.COLUMN_MISSING
        if named is not None:
            best, found = named, columns.difference(at, named)
            cause = self._cause_of(columns, at, named, found)
            settled = found.share >= NEAR or cause is not Cause.VALUES_DIFFER
            if settled or self._gold.rows > SEARCHED_ROWS:
                return _Column(at, named, found, cause)
        kind = self._gold.facets[at].kind
        for other, known in enumerate(self._result.facets):
            if known.kind != kind or other == named:
                continue
            difference = columns.difference(at, other)
            near = found is None or difference.share > found.share
            if difference.share > 0 and near and (named is None or difference.share >= NEAR):
                best, found = other, difference
        if best is None or found is None:
            return _Column(at, None, None, Cause.COLUMN_MISSING)
        if best != named:
            missing = named is None and found.share < NEAR
            cause = Cause.COLUMN_MISSING
            if not missing:
                cause = self._cause_of(columns, at, best, found)
        return _Column(at, best, found, cause)

    def _cause_of(self, columns: Columns, at: int, other: int, found: Difference) -> Cause:
        if not len(found.gold) and not len(found.result):
            if self._strict.fault is Fault.ROWS:
                return Cause.ROW_COUNT
            if (
                self._strict.fault is Fault.SHARED
                and namesake(self._gold, at, self._result) is None
            ):
                return Cause.COLUMN_MISSING
            return Cause.VALUES_DIFFER
        if self._strict.fault is Fault.ROWS and len(found.gold) != len(found.result):
            return Cause.ROW_COUNT
        return columns.cause(at, other, found)

    def _shift(self, pairing: Pairing | None, looked_at: Sequence[_Column]) -> int | None:
        failed = []
        for item in looked_at:
            if item.other is None or item.difference is None:
                return None
            failed.append(Failed(item.at, item.other, item.difference))
        return days_off(self._gold, self._result, pairing, failed, self._day)

    def _shift_of_calendar(self) -> int | None:
        """The same where the key itself has moved, as a window of days does."""
        pairing = pair_by_key(self._gold, self._result)
        if pairing is None or len(self._graded) > MAX_LOOKED_AT:
            return None
        columns = Columns(self._gold, self._result, pairing)
        looked_at = [self._column(columns, at) for at in self._graded]
        return self._shift(pairing, looked_at)

    def _cause(self, looked_at: Sequence[_Column]) -> Cause:
        if self._strict.fault is Fault.ROWS:
            return Cause.ROW_COUNT
        if self._strict.fault is Fault.SHARED:
            return Cause.COLUMN_MISSING
        if self._strict.fault in (Fault.PAIRING, Fault.UNDECIDED):
            return Cause.VALUES_DIFFER
        causes = {item.cause for item in looked_at}
        return next((cause for cause in BY_WEIGHT if cause in causes), Cause.VALUES_DIFFER)

    def _text(self, cause: Cause, looked_at: Sequence[_Column]) -> str:
        if cause is Cause.ORDER:
            return "the same rows in another order, and the order counts"
        if cause is Cause.ROW_COUNT:
            more = self._result.rows - self._gold.rows
            text = f"{self._strict.detail} ({abs(more)} {'more' if more > 0 else 'fewer'})"
            missing = [item for item in looked_at if item.cause is Cause.COLUMN_MISSING]
            return f"{text}; {len(missing)} graded columns are missing too" if missing else text
        if self._strict.fault in (Fault.PAIRING, Fault.SHARED, Fault.UNDECIDED):
            return self._strict.detail
        first = next((item for item in looked_at if item.cause is cause), None)
        if first is None:
            return self._strict.detail
        lacking = len(self._strict.unmatched)
        name = self._gold.name(first.at)
        return (
            f"{lacking} of {len(self._graded)} graded columns fail, first {name!r} "
            f"(position {first.at}): {self._phrase(first)}"
        )

    def _phrase(self, item: _Column) -> str:
        if item.cause is Cause.COLUMN_MISSING or item.other is None or item.difference is None:
            return "the result has no such column, and none near to it"
        other = repr(self._result.name(item.other))
        if item.cause is Cause.ROUNDING:
            return f"the numbers of {other} agree at a coarser precision"
        if item.cause is Cause.TYPE_OR_FORMAT:
            kinds = (
                self._tables[0].columns[item.at].type,
                self._tables[1].columns[item.other].type,
            )
            return (
                f"the values of {other} agree once cast, trimmed or cut to the day "
                f"(gold has {kinds[0][:40]}, the result {kinds[1][:40]})"
            )
        if item.cause is Cause.NULL_HANDLING:
            return f"where {other} differs, one side is NULL or NaN"
        return f"{other} is equal in {item.difference.share:.1%} of the rows"

    def _listed(self, item: _Column) -> ColumnDiagnosis:
        return ColumnDiagnosis(
            column=self._gold.name(item.at),
            position=item.at,
            nearest=None if item.other is None else self._result.name(item.other),
            equal_share=None if item.difference is None else round(item.difference.share, 6),
            cause=item.cause,
        )


def _differs(item: _Column) -> bool:
    return item.difference is None or bool(len(item.difference.gold))
