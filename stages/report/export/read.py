"""Reads a scored run for an export: what is missing becomes a note, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from stages.agent.models import Event
from stages.common.errors import UserError
from stages.common.files import Record, read_json
from stages.common.params import Params
from stages.evaluate.models import TaskVerdict, read_verdicts
from stages.evaluate.trials import trial_folders
from stages.report.console import control_note
from stages.report.secrets import mask
from stages.report.summary import chosen
from stages.run.models import TaskResult
from stages.suite.models import AuditEntry, read_audit, read_tasks

T = TypeVar("T")


class Note(Record):
    """Something that the reader of an export has to know."""

    about: str
    """A task, a trial (`<task>/<trial>`), or `run`."""
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.text}"


@dataclass(frozen=True)
class RunTrial:
    """One trial: its files as far as they are there, and its verdict."""

    entry: AuditEntry
    trial: int
    folder: Path | None
    """Null where the trial has none."""
    result: TaskResult | None
    verdict: TaskVerdict | None
    note: str = ""
    """What is missing or cannot be read; empty where nothing is."""

    @property
    def instance_id(self) -> str:
        """The task."""
        return self.entry.instance_id

    @property
    def name(self) -> str:
        """`<task>/<trial>`."""
        return f"{self.instance_id}/{self.trial}"


@dataclass(frozen=True)
class Run:
    """A scored run, as it lies in a results folder."""

    folder: Path
    suite: str
    agent: str
    model: str | None
    """Null for an agent that is driven by none."""
    chosen: dict[str, str]
    """What else was chosen, by name."""
    caveat: str
    """What its score does not say; empty for an agent that is measured."""
    tasks: tuple[AuditEntry, ...]
    """The tasks that the run was to cover, by instance id."""
    trials: tuple[RunTrial, ...]
    """By instance id and number."""
    instructions: dict[str, str]
    """By instance id, as far as they are known."""

    @property
    def driver(self) -> str:
        """The model, or the agent that needs none."""
        return self.model or self.agent

    @property
    def notes(self) -> list[Note]:
        """What is missing, over all trials."""
        return [Note(about=item.name, text=item.note) for item in self.trials if item.note]


def read_run(params: Params, folder: Path) -> Run:
    """The run in `folder`, which was made with `params`.

    Raises:
        UserError: there is no scored run, or what the suite and evaluate stages wrote of it
            cannot be read. A single trial's fault is a note instead.
    """
    verdicts: dict[str, dict[int, TaskVerdict]] = {}
    for verdict in _read(folder / "verdicts.json", read_verdicts):
        verdicts.setdefault(verdict.instance_id, {})[verdict.trial] = verdict
    audit = _read(folder / "suite_audit.json", read_audit)
    tasks = [entry for entry in audit if params.tasks is None or entry.instance_id in params.tasks]
    trials = []
    for entry in tasks:
        judged = verdicts.get(entry.instance_id, {})
        folders = trial_folders(folder / "runs" / entry.instance_id)
        trials += [
            _trial(entry, number, folders.get(number), judged.get(number))
            for number in sorted({*judged, *folders})
        ]
    listed = folder / "suite" / "tasks.json"
    known = _read(listed, read_tasks) if listed.is_file() else []
    return Run(
        folder=folder,
        suite=params.suite.name,
        agent=params.agent.name,
        model=params.model.name if params.agent.needs_model else None,
        chosen=chosen(params),
        caveat=control_note(params),
        tasks=tuple(tasks),
        trials=tuple(trials),
        instructions={task.instance_id: task.instruction for task in known},
    )


def read_events(folder: Path) -> tuple[tuple[Event, ...], str]:
    """A trial's trace, and why there is none or where it ends (empty where all is well)."""
    path = folder / "trace.json"
    events: list[Event] = []
    try:
        found = read_json(path)
        if not isinstance(found, list):
            return (), "trace.json is no list of events"
        events.extend(Event.model_validate(item) for item in found)
    except FileNotFoundError:
        return (), "there is no trace.json"
    except (OSError, ValueError, RecursionError) as error:
        return tuple(events), f"trace.json cannot be read: {first(error)}"
    return tuple(events), ""


def clean(text: str) -> str:
    """Text that every format can hold: credentials masked, no NUL, no half characters."""
    return mask(text).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def first(error: BaseException) -> str:
    """An exception's first line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _trial(
    entry: AuditEntry, number: int, folder: Path | None, verdict: TaskVerdict | None
) -> RunTrial:
    result, note = None, ""
    if folder is None:
        note = "not run" if verdict is None or verdict.status is None else "its folder is gone"
    else:
        try:
            result = TaskResult.read(folder / "task_result.json")
            if (result.instance_id, result.trial) != (entry.instance_id, number):
                note = f"its task_result.json is of {result.instance_id}/{result.trial}"
                result = None
        except FileNotFoundError:
            note = "there is no task_result.json"
        except (OSError, ValueError, RecursionError) as error:
            note = f"task_result.json cannot be read: {first(error)}"
    if verdict is None:
        note = f"{note}; not scored" if note else "not scored"
    return RunTrial(entry, number, folder, result, verdict, note)


def _read(path: Path, reader: Callable[[Path], T]) -> T:
    try:
        return reader(path)
    except FileNotFoundError:
        raise UserError(
            "there is no scored run to export", where=str(path), remedy="make run"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path.name} cannot be read: {first(error)}",
            where=str(path),
            remedy="make run writes it anew",
        ) from None
