"""The evaluate stage's typed values: the verdict on one graded table, and on one trial."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from stages.common.files import Record, read_json, write_json
from stages.run.models import TrialStatus


class Reason(StrEnum):
    """Why a table's verdict is what it is."""

    MATCHED = "matched"
    VALUES_DIFFER = "values_differ"
    TABLE_MISSING = "table_missing"
    UNREADABLE = "unreadable"
    """The result's database, table or view is there and cannot be read."""
    ERROR = "error"
    """The official evaluator raises on this table."""
    NOT_SCORED = "not_scored"


class Cause(StrEnum):
    """What a failure comes from: one of a fixed list."""

    TABLE_MISSING = "table_missing"
    UNREADABLE = "unreadable"
    ERROR = "error"
    """The official evaluator raises on the result, or the comparison cannot be made."""
    ROW_COUNT = "row_count"
    COLUMN_MISSING = "column_missing"
    """No result column has the name of a graded one, and none is near to it."""
    VALUES_DIFFER = "values_differ"
    """What no narrower cause explains."""
    ROUNDING = "rounding"
    """The numbers agree at a coarser precision."""
    TYPE_OR_FORMAT = "type_or_format"
    """The values agree once they are cast, trimmed, folded in case or cut to the day."""
    ORDER = "order"
    """The same rows in another order, where the order counts."""
    NULL_HANDLING = "null_handling"
    """All that differs is NULL or NaN on one side."""


class Resolution(StrEnum):
    """A lookup beyond the official one; it is tried only where that one fails."""

    QUOTED_NAME = "quoted_name"
    """A reserved word or odd characters: the official, unquoted reading raises."""
    LETTER_CASE = "letter_case"
    """Differs in case where DuckDB does not fold it: outside ASCII."""
    FCT_FACT = "fct_fact"
    """`fct_x` is there as `fact_x`, or the other way round."""
    SCHEMA = "schema"
    """The table is in exactly one schema, and that is not `main`."""
    MISNAMED_GOLD = "misnamed_gold"
    """The gold file has another name than the evaluation config says."""


class ColumnDiagnosis(Record):
    """One graded column of gold that fails, and the result's column that comes nearest."""

    column: str
    """Its name in gold."""
    position: int
    """Its position in gold."""
    nearest: str | None
    """The result's column with the most equal values; null where none has any and none has
    its name."""
    equal_share: float | None
    """The share of gold's rows on which the two are strictly equal, from 0 to 1."""
    cause: Cause


class RowDifference(Record):
    """One cell that differs, side by side."""

    key: dict[str, str | None]
    """What the two rows were paired by: key columns and their values, or the row's number."""
    column: str
    """The column's name in gold."""
    gold: str | None
    result: str | None


class Diagnosis(Record):
    """Why a table fails; bounded in size whatever the tables hold."""

    cause: Cause
    text: str
    """The cause in one sentence."""
    gold_rows: int | None
    result_rows: int | None
    columns: tuple[ColumnDiagnosis, ...]
    """The first graded columns that fail."""
    rows: tuple[RowDifference, ...]
    """The first cells that differ."""
    days_off: int | None
    """Every difference would vanish at a date that is this many days later than the one that
    the result was built on; null where another date does not explain all that differs."""


class TableVerdict(Record):
    """The verdict on one graded table."""

    table: str
    official: bool | None
    """The official comparison of what was read; null where gold cannot be compared with."""
    reason: Reason
    detail: str
    """What was found, in one sentence."""
    resolutions: tuple[Resolution, ...] = ()
    """What was needed to read it, in gold or in the result; sorted."""
    strict: bool | None = None
    """The strict comparison; null where there was nothing to compare with."""
    strict_detail: str = ""
    """What the strict comparison found, in one sentence."""
    diagnosis: Diagnosis | None = None
    """Why it fails, in either score; null where it passes both or has no verdict."""
    disagreement: str | None = None
    """Why the official and the strict verdict differ; null where they agree."""


class TaskVerdict(Record):
    """The verdict on one trial of a task."""

    instance_id: str
    trial: int
    status: TrialStatus | None
    """How the trial ended; null where it was not run, or its outcome cannot be read."""
    passed: bool | None
    """Null is unscored: the trial has no say on the agent, or gold cannot be scored against."""
    passed_officially: bool | None
    """What the official script, which knows no resolutions, gives."""
    passed_strictly: bool | None = None
    """Whether every graded table passes strictly, resolutions allowed; null where unscored."""
    resolutions: tuple[Resolution, ...] = ()
    tables: tuple[TableVerdict, ...] = ()
    reason: str
    """Why, in one sentence."""


def write_verdicts(path: Path, verdicts: list[TaskVerdict]) -> None:
    """Write the verdicts, sorted by instance id and trial."""
    write_json(path, sorted(verdicts, key=lambda item: (item.instance_id, item.trial)))


def read_verdicts(path: Path) -> list[TaskVerdict]:
    """Read what `write_verdicts` wrote."""
    return [TaskVerdict.model_validate(item) for item in read_json(path)]
