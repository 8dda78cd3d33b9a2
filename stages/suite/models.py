"""The suite's typed values: what an agent may see of a task and, apart, what it may not."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from stages.common.files import Record, read_json, write_json


class Status(StrEnum):
    """Whether a task can be scored, and if not, why."""

    SCOREABLE = "scoreable"
    NO_GOLD = "no_gold"
    GOLD_MISNAMED = "gold_misnamed"
    """The file that the config names is absent and exactly one other is there: it is used."""
    GOLD_INCOMPLETE = "gold_incomplete"
    GOLD_EQUALS_START = "gold_equals_start"
    GOLD_UNREADABLE = "gold_unreadable"
    BAD_COLUMNS = "bad_columns"
    NO_START_DATABASE = "no_start_database"

    @property
    def scoreable(self) -> bool:
        """True where a verdict means something."""
        return self in (Status.SCOREABLE, Status.GOLD_MISNAMED)


class Task(Record):
    """What an agent is given: no field here may tell anything of gold."""

    instance_id: str
    instruction: str
    project: Path
    """The dbt project's folder, relative to the workspace."""
    overlay: Path | None
    """A folder laid over the project (databases that were built here); null where none is."""
    database: Path
    """Where the project's profile puts its database, relative to the project's folder."""
    start_digest: str
    """SHA-256 of the DuckDB files: of their bytes, or of what they were built from."""

    @property
    def start_database(self) -> Path:
        """The start database's file, relative to the workspace."""
        return (self.overlay or self.project) / self.database


class Evaluation(Record):
    """One line of spider2_eval.jsonl: which gold tables and columns are graded."""

    instance_id: str
    gold: str
    condition_tabs: tuple[str, ...] | None
    """Graded tables; null grades every table of gold."""
    condition_cols: tuple[tuple[int, ...], ...] | None
    """Per table the graded columns' positions; an empty list grades all."""
    ignore_orders: tuple[bool, ...] | None


class AuditEntry(Record):
    """The audit's finding on one task."""

    instance_id: str
    status: Status
    detail: str
    """What was found, in one sentence; empty when all is well."""
    gold_database: Path | None
    """The gold file that is scored against, relative to the workspace."""
    evaluation: Evaluation | None


def write_tasks(path: Path, tasks: list[Task]) -> None:
    """Write the runnable tasks, sorted by instance id."""
    write_json(path, sorted(tasks, key=lambda task: task.instance_id))


def read_tasks(path: Path) -> list[Task]:
    """Read what `write_tasks` wrote."""
    return [Task.model_validate(item) for item in read_json(path)]


def write_audit(path: Path, audit: list[AuditEntry]) -> None:
    """Write the audit, sorted by instance id."""
    write_json(path, sorted(audit, key=lambda entry: entry.instance_id))


def read_audit(path: Path) -> list[AuditEntry]:
    """Read what `write_audit` wrote."""
    return [AuditEntry.model_validate(item) for item in read_json(path)]
