"""What a run has to do: which trials are in the store, and why the others are not.

`python -m stages.run.plan` prints it and runs nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from hydra.utils import instantiate
from rich.console import Console
from rich.table import Table

from stages.common.console import make_console
from stages.common.errors import UnknownChoiceError, UserError, main
from stages.common.files import Record, read_json
from stages.common.params import Params, load_params
from stages.dates.models import read_gold_build_dates
from stages.relay.config import Mode
from stages.run.keys import run_key
from stages.run.models import RunKey, TaskResult
from stages.run.sandbox import Sandbox
from stages.run.store import TrialStore
from stages.stack.environments import Stack, ensure_stack
from stages.suite.models import Task, read_tasks

TASKS = Path("results/suite/tasks.json")
SOLUTIONS = Path("results/suite/solutions.json")
UNSCOREABLE = Path("results/suite/unscoreable.json")
GOLD_DATES = Path("data/gold_build_dates.json")


class PlannedTrial(Record):
    """One trial of the run, and whether the store already has it."""

    task: Task
    trial: int
    gold_date: datetime.date
    key: RunKey
    solution: Path | None
    recording: Path | None
    reuse: bool
    reason: str
    """Why it must run; empty for a reuse."""

    @property
    def name(self) -> str:
        """Short name in logs."""
        return f"{self.task.instance_id}/{self.trial}"


class Plan(Record):
    """All trials of a run, and the tasks that are left out."""

    stack: Stack
    trials: tuple[PlannedTrial, ...]
    left_out: dict[str, str]
    """Instance id to the reason."""


def select(given: tuple[str, ...] | None, known: Iterable[str]) -> list[str]:
    """The tasks to run; raises `UnknownChoiceError` for a name that the suite lacks."""
    names = sorted(known)
    if given is None:
        return names
    for name in given:
        if name not in names:
            raise UnknownChoiceError("task", name, names, where="tasks in params.yaml")
    return sorted(set(given))


def make_plan(params: Params, store: TrialStore) -> Plan:
    """Look every selected trial up in the store.

    Raises:
        UserError: an unknown task, or an agent that needs solutions on a suite without.
    """
    tasks = {task.instance_id: task for task in read_tasks(TASKS)}
    unscoreable: dict[str, str] = read_json(UNSCOREABLE)
    solutions: dict[str, str] = read_json(SOLUTIONS)
    gold_dates = read_gold_build_dates(GOLD_DATES)
    selected = select(params.tasks, {*tasks, *unscoreable})
    left_out = {name: unscoreable.get(name, "cannot be run") for name in selected}
    runnable = [
        name
        for name in selected
        if name in tasks and (params.run_unscoreable or name not in unscoreable)
    ]
    for name in runnable:
        del left_out[name]
    needs_solution = params.agent.needs_solution
    if needs_solution:
        _check_solutions(params, runnable, solutions)
    recordings = _recordings(params, runnable)
    plays = params.model.relay.get("mode") == Mode.PLAY
    stack = ensure_stack(params.stack.name, params.stack.lock)
    sandbox: Sandbox = instantiate(params.sandbox.instance())
    identity = sandbox.identity(stack)
    earlier = _Earlier(store)
    trials = []
    for name in runnable:
        for trial in range(params.trials):
            key = run_key(
                tasks[name],
                trial,
                gold_date=gold_dates.get(name, params.dates.fallback),
                agent=params.agent_instance(),
                sandbox=params.sandbox,
                identity=identity,
                stack=stack,
                solution=solutions[name] if needs_solution else None,
                recording=recordings.get(name) if plays else None,
                model=params.agent.needs_model,
            )
            reuse = store.find(key.key) is not None
            trials.append(
                PlannedTrial(
                    task=tasks[name],
                    trial=trial,
                    gold_date=gold_dates.get(name, params.dates.fallback),
                    key=key,
                    solution=params.suite.solutions / name if needs_solution else None,
                    recording=recordings.get(name),
                    reuse=reuse,
                    reason="" if reuse else earlier.what_changed(name, trial, key),
                )
            )
    return Plan(stack=stack, trials=tuple(trials), left_out=left_out)


def _check_solutions(params: Params, names: list[str], solutions: dict[str, str]) -> None:
    missing = [name for name in names if name not in solutions]
    if missing:
        raise UserError(
            f"agent {params.agent.name!r} applies known solutions, and suite "
            f"{params.suite.name!r} has none for {len(missing)} of {len(names)} tasks "
            f"({', '.join(missing[:5])}{', …' if len(missing) > 5 else ''})",
            where=str(params.suite.solutions),
            remedy="choose another agent (`-S agent=nop`), or another suite (`-S suite=starter`)",
        )


def _recordings(params: Params, names: list[str]) -> dict[str, Path]:
    """The recording of each task: to be played, where that is the model, or to be written."""
    model = params.model
    if not params.agent.needs_model or model.relay.get("mode") == Mode.PASS:
        return {}
    if model.recordings is None:
        raise UserError(
            f"model {model.name!r} names no folder of recordings",
            where="model.recordings in params.yaml",
            remedy="set it (`-S model.recordings=<folder>`), or choose another model",
        )
    found = {name: model.recordings / f"{name}.yaml" for name in names}
    missing = [name for name, path in found.items() if not path.is_file()]
    if missing and model.relay.get("mode") == Mode.PLAY:
        raise UserError(
            f"model {model.name!r} plays recordings, and there is none for {len(missing)} "
            f"of {len(names)} tasks ({', '.join(missing[:5])}{', …' if len(missing) > 5 else ''})",
            where=str(model.recordings),
            remedy="choose a real model (`-S model=…`), or some tasks (`-S 'tasks=[…]'`)",
        )
    return found


class _Earlier:
    """The finished trials of each task, read only when the first reason is asked for."""

    def __init__(self, store: TrialStore) -> None:
        self.store = store
        self.by_trial: dict[tuple[str, int], list[TaskResult]] | None = None

    def what_changed(self, instance_id: str, trial: int, key: RunKey) -> str:
        """The parts in which the nearest earlier trial's key differs, newest first among equals."""
        if self.by_trial is None:
            self.by_trial = {}
            for result in self.store.results():
                self.by_trial.setdefault((result.instance_id, result.trial), []).append(result)
        candidates = self.by_trial.get((instance_id, trial))
        if not candidates:
            return "new"
        changes = [differing(key.parts, result.run_key_parts) for result in candidates]
        nearest = min(changes, key=len)
        return f"changed: {', '.join(nearest)}"


def differing(now: dict[str, str], before: dict[str, str]) -> list[str]:
    """Names of the parts that differ between two keys."""
    return sorted(name for name in {*now, *before} if now.get(name) != before.get(name))


def print_plan(plan: Plan, console: Console) -> None:
    """A line a trial, then the totals."""
    table = Table("trial", "gold date", "plan", "because", box=None)
    for trial in plan.trials:
        what = "[green]reuse[/]" if trial.reuse else "[yellow]run[/]"
        table.add_row(trial.name, trial.gold_date.isoformat(), what, trial.reason)
    for name, reason in plan.left_out.items():
        table.add_row(name, "", "[dim]left out[/]", reason)
    console.print(table)
    reused = sum(trial.reuse for trial in plan.trials)
    console.print(
        f"{len(plan.trials)} trials: {reused} reused, {len(plan.trials) - reused} to run; "
        f"{len(plan.left_out)} tasks left out"
    )


def _main() -> int:
    print_plan(make_plan(load_params(), TrialStore()), make_console())
    return 0


if __name__ == "__main__":
    main(_main)
