"""What the page of one trial shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from stages.evaluate.models import TableVerdict
from stages.gateway.models import Call
from stages.report.models import TaskOutcome, TrialOutcome
from stages.report.site.changes import Change
from stages.report.site.files import RunFiles
from stages.report.site.fit import Level
from stages.report.site.highlight import block
from stages.report.site.overview import RunView, reference, state
from stages.report.site.shown import Cut, clean, cut

MOST_ROWS = 60
"""Differing rows of a table that are shown."""
MOST_COLUMNS = 120


@dataclass(frozen=True)
class Chip:
    """A trial of the task, in this run or another."""

    ref: str
    label: str
    state: str
    here: bool


@dataclass(frozen=True)
class CallView:
    """A governed query with its statement marked."""

    call: Call
    sql: Cut
    html: Markup
    arguments: str


def chips(name: str, views: Sequence[RunView], ref: str) -> list[tuple[RunView, list[Chip]]]:
    """Every trial of a task, by run."""
    found = []
    for view in views:
        task = next((task for task in view.run.tasks if task.instance_id == name), None)
        if task is None or not task.trials:
            continue
        row = []
        for trial in task.trials:
            alone = task.model_copy(update={"trials": (trial,)})
            own = reference(trial.trial, view.slug)
            row.append(Chip(own, str(trial.trial), state(alone), own == ref))
        found.append((view, row))
    return found


def page_context(
    view: RunView,
    task: TaskOutcome,
    trial: TrialOutcome | None,
    files: RunFiles,
    views: Sequence[RunView],
) -> dict[str, Any]:
    """Everything that the page's template needs but the changes and calls, which are fitted."""
    name = task.instance_id
    number = trial.trial if trial else 0
    ref = reference(number, view.slug)
    alone = task.model_copy(update={"trials": (trial,)}) if trial else task
    known = files.tasks.get(name)
    return {
        "view": view,
        "task": task,
        "trial": trial,
        "ref": ref,
        "state": state(alone),
        "instruction": known.instruction if known else "",
        "result": files.result(name, number) if trial else None,
        "verdict": files.verdicts.get((name, number)) if trial else None,
        "date": files.dates.get(name),
        "chips": chips(name, views, ref),
        "most_rows": MOST_ROWS,
        "most_columns": MOST_COLUMNS,
    }


def key_names(table: TableVerdict) -> list[str]:
    """The columns that tell the differing rows of a table apart."""
    rows = table.diagnosis.rows if table.diagnosis else ()
    return list(dict.fromkeys(name for row in rows for name in row.key))


def fit_changes(changes: Sequence[Change], level: Level) -> list[Change]:
    """The changes, without the diffs for which there is no room."""
    left = level.diff
    fitted = []
    for change in changes:
        weight = change.weight()
        if weight > left and change.hunks:
            note = "the diff is left out to keep the report small"
            fitted.append(replace(change, hunks=(), note=note))
            continue
        left -= weight
        fitted.append(change)
    return fitted


def fit_calls(calls: Sequence[Call], level: Level) -> list[CallView]:
    """The calls with their statements cut to the level's length."""
    return [_view_call(call, level.text) for call in calls]


def _view_call(call: Call, limit: int) -> CallView:
    sql = cut(clean(call.sql), limit)
    shown = {key: value for key, value in call.arguments.items() if value != call.sql}
    arguments = clean(", ".join(f"{key}={value}" for key, value in shown.items()))
    return CallView(call, sql, block(sql.head, "sql"), cut(arguments, min(limit, 400)).head)
