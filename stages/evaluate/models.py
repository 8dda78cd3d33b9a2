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
