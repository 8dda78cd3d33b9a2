"""Where the tasks come from: the suite of params.yaml, or folders with gold and start."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from stages.common.errors import UserError
from stages.common.params import load_params
from stages.dates.models import read_gold_build_dates
from stages.evaluate.controls.check import Subject
from stages.evaluate.databases import has_views
from stages.evaluate.gold import freeze_gold
from stages.suite.audit import audit_task
from stages.suite.layout import Slot, read_evaluations
from stages.suite.models import AuditEntry, Task, read_audit, read_tasks

AUDIT = Path("results/suite_audit.json")
TASKS = Path("results/suite/tasks.json")
DATES = Path("data/gold_build_dates.json")


@dataclass(frozen=True)
class Candidate:
    """A task as audited, and its start database."""

    entry: AuditEntry
    start: Path | None


def of_suite() -> list[Candidate]:
    """The tasks of the suite in params.yaml, as its audit found them."""
    for path in (AUDIT, TASKS, DATES):
        if not path.is_file():
            raise UserError(f"no {path}", where=str(Path.cwd()), remedy="dvc repro dates")
    starts = {task.instance_id: task.start_database for task in read_tasks(TASKS)}
    return [Candidate(entry, starts.get(entry.instance_id)) for entry in read_audit(AUDIT)]


def of_folders(gold: Path, start: Path, config: Path) -> list[Candidate]:
    """The tasks that have a folder in `gold`; each is audited here.

    Args:
        gold: One folder a task with its gold database.
        start: One folder a task with its start database.
        config: The evaluation config, spider2_eval.jsonl.

    Raises:
        UserError: a folder is missing, or the config cannot be read.
    """
    for folder in (gold, start):
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder.name}", where=str(folder))
    evaluations = read_evaluations(config)
    found = []
    for folder in sorted(path for path in gold.iterdir() if path.is_dir()):
        slot = _slot(folder.name, start / folder.name)
        entry = audit_task(slot, evaluations.get(folder.name), folder)
        found.append(Candidate(entry, slot.task.start_database if slot.task else None))
    if not found:
        raise UserError("there is no task", where=str(gold), remedy="give one folder a task")
    return found


def _slot(instance_id: str, folder: Path) -> Slot:
    databases = sorted(folder.glob("*.duckdb"))
    if len(databases) != 1:
        note = f"the start folder holds {len(databases)} databases"
        return Slot(instance_id=instance_id, task=None, note=note)
    task = Task(
        instance_id=instance_id,
        instruction="",
        project=folder,
        overlay=None,
        database=Path(databases[0].name),
        start_digest="",
    )
    return Slot(instance_id=instance_id, task=task, note="")


def subject(candidate: Candidate) -> Subject | str:
    """What is to be checked; where the task cannot be scored, why."""
    entry = candidate.entry
    if not entry.status.scoreable or entry.gold_database is None or entry.evaluation is None:
        return f"{entry.status}: {entry.detail or 'no gold to score against'}"
    if candidate.start is None:
        return "it has no start database"
    frozen = None
    if has_views(entry.gold_database):
        params = load_params()
        day = _dates().get(entry.instance_id, params.dates.fallback)
        frozen = freeze_gold(entry.gold_database, day, params.suite.gold_stack)
    return Subject(
        entry.instance_id, entry.gold_database, frozen, candidate.start, entry.evaluation
    )


def _dates() -> dict[str, datetime.date]:
    return dict(read_gold_build_dates(DATES)) if DATES.is_file() else {}
