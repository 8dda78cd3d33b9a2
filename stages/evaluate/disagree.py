"""Why the official and the strict verdict on a table differ, in one sentence."""

from __future__ import annotations

from stages.evaluate.models import Cause, Diagnosis
from stages.evaluate.strict.compare import Fault, Strict

FAULTS = {
    Fault.ROWS: "the numbers of rows differ, which the official comparison passed over",
    Fault.EMPTY: "both tables are empty: officially any columns will do, strictly the same columns",
    Fault.SHARED: "officially one result column may serve several graded columns, strictly each "
    "takes its own",
    Fault.PAIRING: "each column agrees by itself, but the rows do not: officially the columns are "
    "compared one by one",
    Fault.UNDECIDED: "too many columns are alike for the strict comparison to tell them apart",
}

CAUSES = {
    Cause.ROUNDING: "numbers that are within 0.01 pass officially, strictly the tolerance is "
    "relative too",
    Cause.NULL_HANDLING: "NULL and NaN are one officially, and two strictly",
    Cause.TYPE_OR_FORMAT: "values of two kinds are equal officially, as true and 1 are, and not "
    "strictly",
}


def disagreement(
    official: bool, strict: Strict, diagnosis: Diagnosis | None, detail: str
) -> str | None:
    """The reason; null where the verdicts agree. `detail` is what was found officially."""
    if official == strict.matched:
        return None
    if strict.matched:
        why = diagnosis.text if diagnosis is not None else detail
        return f"fails officially only: {why}"
    return f"fails strictly only: {_why(strict, diagnosis)}"


def _why(strict: Strict, diagnosis: Diagnosis | None) -> str:
    if strict.fault in FAULTS:
        return FAULTS[strict.fault]
    if diagnosis is None or not diagnosis.columns:
        return strict.detail
    first = diagnosis.columns[0]
    cause = CAUSES.get(
        diagnosis.cause,
        "numbers that are within 0.01, or a billionth of their size, pass officially, strictly "
        "the tolerance is narrower and whole numbers have to be equal",
    )
    return f"column {first.column!r}: {cause}"
