"""The files of a run that its pages are made of; what is missing or broken is shown as absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from stages.agent.models import Event
from stages.common.files import read_json
from stages.dates.models import GoldDate, read_gold_dates
from stages.evaluate.models import TaskVerdict, read_verdicts
from stages.gateway.log import read as read_calls
from stages.gateway.models import Call
from stages.report.site.changes import Change, find_changes
from stages.report.site.timeline import cleaned
from stages.run.models import TaskResult
from stages.suite.models import Task, read_tasks

MOST_CALLS = 1_000

T = TypeVar("T")


class RunFiles:
    """Reads one results folder; null for a run of which only the outcomes are known."""

    def __init__(self, root: Path | None) -> None:
        self.root = root
        tasks = self._read(lambda root: read_tasks(root / "suite" / "tasks.json")) or []
        verdicts = self._read(lambda root: read_verdicts(root / "verdicts.json")) or []
        self.tasks: dict[str, Task] = {task.instance_id: task for task in tasks}
        self.dates: dict[str, GoldDate] = (
            self._read(lambda root: read_gold_dates(root / "dates.json")) or {}
        )
        self.verdicts: dict[tuple[str, int], TaskVerdict] = {
            (verdict.instance_id, verdict.trial): verdict for verdict in verdicts
        }

    def result(self, name: str, trial: int) -> TaskResult | None:
        """The trial's task_result.json."""
        path = f"runs/{name}/{trial}/task_result.json"
        return self._read(lambda root: TaskResult.read(root / path))

    def events(self, name: str, trial: int) -> list[Event]:
        """The trial's trace, as it may be shown; empty where there is none."""
        path = f"runs/{name}/{trial}/trace.json"
        found = self._read(
            lambda root: [Event.model_validate(item) for item in read_json(root / path)]
        )
        return [cleaned(event) for event in found or ()]

    def calls(self, name: str, trial: int) -> list[Call]:
        """The newest calls of the gateway, oldest first."""
        path = f"runs/{name}/{trial}/queries/queries.jsonl"
        return self._read(lambda root: read_calls(root / path, MOST_CALLS)) or []

    def changes(self, name: str, trial: int) -> list[Change] | None:
        """What the trial changed in its project; null where it or the start project is not here."""
        task = self.tasks.get(name)
        if self.root is None or task is None or not task.project.is_dir():
            return None
        project = self.root / "runs" / name / str(trial) / "project"
        if not project.is_dir():
            return None
        return find_changes(project, task.project, task.overlay)

    def _read(self, read: Callable[[Path], T]) -> T | None:
        if self.root is None:
            return None
        try:
            return read(self.root)
        except (OSError, ValueError, ValidationError):
            return None
