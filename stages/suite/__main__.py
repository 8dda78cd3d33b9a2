"""The suite stage: `python -m stages.suite` reads the suite, audits it and says what it holds."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stages.common.console import make_console
from stages.common.errors import main
from stages.common.files import digest_tree, write_json
from stages.common.params import SuiteParams, load_params
from stages.suite.audit import audit_suite
from stages.suite.build import build_databases
from stages.suite.layout import EVALUATIONS, instructions_path, read_evaluations, read_slots
from stages.suite.models import AuditEntry, Status, Task, write_audit, write_tasks

RESULTS = Path("results")
_STYLES = {Status.SCOREABLE: "green", Status.GOLD_MISNAMED: "yellow"}


def run() -> None:
    """Read params.yaml and prepare the suite that it names."""
    prepare(load_params().suite)


def prepare(suite: SuiteParams) -> None:
    """Build what the suite does not bring, then write tasks, solutions and audit to results/.

    Raises `UserError` when the suite is not there, its JSON lines are wrong or a build fails.
    """
    instructions_path(suite)
    evaluations = read_evaluations(suite.gold / EVALUATIONS)
    built = build_databases(suite) if suite.sources else _nothing_built(suite)
    slots = read_slots(suite, built)
    audit = audit_suite(suite, slots, evaluations)
    tasks = runnable([slot.task for slot in slots if slot.task is not None], audit)
    write_tasks(RESULTS / "suite" / "tasks.json", tasks)
    write_json(RESULTS / "suite" / "solutions.json", solutions(suite, audit))
    write_json(RESULTS / "suite" / "unscoreable.json", unscoreable(audit))
    write_audit(RESULTS / "suite_audit.json", audit)
    unknown = sorted(set(evaluations) - {slot.instance_id for slot in slots})
    show(make_console(), suite, audit, len(tasks), unknown)


def runnable(tasks: list[Task], audit: list[AuditEntry]) -> list[Task]:
    """The tasks that have a project and a start database that opens, scoreable or not."""
    without = {item.instance_id for item in audit if item.status is Status.NO_START_DATABASE}
    return [task for task in tasks if task.instance_id not in without]


def solutions(suite: SuiteParams, audit: list[AuditEntry]) -> dict[str, str]:
    """Instance id to the SHA-256 of its known solution's folder; empty where none is known."""
    folders = {item.instance_id: suite.solutions / item.instance_id for item in audit}
    return {key: digest_tree(folder) for key, folder in folders.items() if folder.is_dir()}


def unscoreable(audit: list[AuditEntry]) -> dict[str, str]:
    """Instance id to status of each task that cannot be scored; the status alone, so that the run
    stage, which reads this, does not depend on what gold looks like.
    """
    return {item.instance_id: item.status for item in audit if not item.status.scoreable}


def summary(audit: list[AuditEntry], can_run: int) -> str:
    """The denominators in one line: all tasks, those that run, those that can be scored."""
    counts = Counter(item.status for item in audit)
    scoreable = sum(count for status, count in counts.items() if status.scoreable)
    by_status = ", ".join(f"{status} {counts[status]}" for status in Status if counts[status])
    totals = f"{len(audit)} tasks, {can_run} can be run, {scoreable} scoreable"
    return f"{totals}; by status: {by_status}"


def show(
    console: Console,
    suite: SuiteParams,
    audit: list[AuditEntry],
    can_run: int,
    unknown: list[str],
) -> None:
    """Print the audit: a line a task, then the denominators."""
    table = Table(title=f"suite {suite.name}", title_justify="left")
    table.add_column("task", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("detail", overflow="fold")
    for item in sorted(audit, key=lambda entry: entry.instance_id):
        style = _STYLES.get(item.status, "red")
        table.add_row(item.instance_id, f"[{style}]{item.status}[/]", escape(item.detail))
    console.print(table)
    if unknown:
        console.print(f"evaluation lines of no task, ignored: {', '.join(unknown)}", markup=False)
    console.print(summary(audit, can_run), soft_wrap=True, markup=False, highlight=False)


def _nothing_built(suite: SuiteParams) -> dict[str, str]:
    """Empty folders where a bundled suite's databases would be: the stage's outs in any case."""
    for folder in (suite.built / "start", suite.built / "gold"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    return {}


if __name__ == "__main__":
    main(run)
