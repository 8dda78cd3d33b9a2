"""Finds the trials that were run and gives each its verdict, whatever state it is in."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stages.evaluate.apart import Apart
from stages.evaluate.databases import ReadError, first_line, has_views
from stages.evaluate.gold import freeze_gold
from stages.evaluate.models import Reason, TableVerdict, TaskVerdict
from stages.evaluate.score import EVERY_TABLE, evaluate_database, task_verdict, unread, unscored
from stages.run.models import POLICY, TaskResult, TrialStatus
from stages.suite.models import AuditEntry, Evaluation


@dataclass(frozen=True)
class Scope:
    """What is to be scored, and what it is scored with."""

    runs: Path
    """The folder of one folder a task, holding one folder a trial."""
    audit: Mapping[str, AuditEntry]
    """By instance id."""
    tasks: Sequence[str]
    """The instance ids that should have been run."""
    trials: int
    """How often each."""
    dates: Mapping[str, datetime.date]
    """Gold dates by instance id."""
    fallback: datetime.date
    """The day for a task without a gold date."""
    gold_stack: str
    """The stack that gold's views are read with."""


def score_trials(scope: Scope) -> Iterator[TaskVerdict]:
    """A verdict for every trial that is there, and for every one that should be, by task."""
    with Apart() as apart:
        there = {path.name for path in _folders(scope.runs)}
        for instance_id in sorted({*scope.tasks, *there}):
            yield from _score_task(scope, instance_id, apart)


def trial_folders(task: Path) -> dict[int, Path]:
    """A task's trials by number; other folders are passed over."""
    return {
        int(path.name): path
        for path in _folders(task)
        if path.name.isdecimal() and str(int(path.name)) == path.name
    }


def _folders(path: Path) -> list[Path]:
    return [item for item in path.iterdir() if item.is_dir()] if path.is_dir() else []


def _score_task(scope: Scope, instance_id: str, apart: Apart) -> Iterator[TaskVerdict]:
    there = trial_folders(scope.runs / instance_id)
    wanted = range(scope.trials) if instance_id in scope.tasks else ()
    for trial in sorted({*there, *wanted}):
        folder = there.get(trial)
        if folder is None:
            yield _missing(scope.audit.get(instance_id), instance_id, trial)
        else:
            yield _score_trial(scope, instance_id, trial, folder, apart)


def _missing(entry: AuditEntry | None, instance_id: str, trial: int) -> TaskVerdict:
    blocked = _not_scoreable(entry)
    reason = f"not run; {blocked}" if blocked else "not run"
    return unscored(instance_id, trial, None, reason, _graded(entry))


def _graded(entry: AuditEntry | None) -> tuple[str, ...]:
    """The tables that the config lists."""
    if entry is None or entry.evaluation is None:
        return ()
    return entry.evaluation.condition_tabs or ()


def _not_scoreable(entry: AuditEntry | None) -> str:
    """Why a task cannot be scored; empty where it can."""
    if entry is None:
        return "the suite's audit knows no such task"
    if not entry.status.scoreable or entry.evaluation is None or entry.gold_database is None:
        return f"not scoreable ({entry.status}): {entry.detail or 'no gold to score against'}"
    return ""


def _score_trial(
    scope: Scope, instance_id: str, trial: int, folder: Path, apart: Apart
) -> TaskVerdict:
    status: TrialStatus | None = None
    entry = scope.audit.get(instance_id)
    try:
        outcome = TaskResult.read(folder / "task_result.json")
        status = outcome.status
        reason = _not_counting(outcome, instance_id, trial) or _not_scoreable(entry)
        if reason:
            return unscored(instance_id, trial, status, reason, _graded(entry))
        assert entry is not None and entry.gold_database is not None and entry.evaluation
        gold = entry.gold_database
        frozen = _frozen_gold(scope, instance_id, gold, apart)
        tables = apart.call(
            judge_trial,
            folder,
            outcome.database,
            gold,
            frozen,
            entry.evaluation,
            outcome.gold_date,
        )
        return task_verdict(instance_id, trial, status, tables)
    except Exception as error:
        reason = f"could not be scored: {type(error).__name__}: {first_line(error)}"
        return unscored(instance_id, trial, status, reason, _graded(entry))


def _not_counting(outcome: TaskResult, instance_id: str, trial: int) -> str:
    """Why a trial says nothing of the agent; empty where it does."""
    if (outcome.instance_id, outcome.trial) != (instance_id, trial):
        return f"its task_result.json is of {outcome.instance_id}, trial {outcome.trial}"
    if POLICY[outcome.status].score:
        return ""
    detail = f": {outcome.detail}" if outcome.detail else ""
    return f"the trial ended with {outcome.status}{detail}"


def _frozen_gold(scope: Scope, instance_id: str, gold: Path, apart: Apart) -> Path | None:
    try:
        if not apart.call(has_views, gold):
            return None
    except ReadError:
        return None  # the comparison meets the same fault, and says so table by table
    day = scope.dates.get(instance_id, scope.fallback)
    return freeze_gold(gold, day, scope.gold_stack)


def judge_trial(
    folder: Path,
    database: str,
    gold: Path,
    gold_frozen: Path | None,
    evaluation: Evaluation,
    day: datetime.date | None = None,
) -> tuple[TableVerdict, ...]:
    """The tables' verdicts of one trial's folder; `database` is relative to its `project/`.

    `day` is the date that the trial ran on.

    A link that leads out of the folder is not followed: an agent could have laid it to gold.
    """
    result = folder / "project" / database
    if not result.resolve().is_relative_to(folder.resolve()):
        detail = f"{result.name} is a link that leads out of the trial's folder"
        return tuple(
            unread(name, Reason.UNREADABLE, detail)
            for name in evaluation.condition_tabs or (EVERY_TABLE,)
        )
    frozen = folder / "frozen"
    return evaluate_database(
        result, frozen if frozen.is_dir() else None, gold, gold_frozen, evaluation, day
    )
