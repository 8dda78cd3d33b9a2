"""What a run has to do: which trials are in the store, and why the others are not.

`python -m stages.run.plan` prints it and runs nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean

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


class Estimate(Record):
    """What a trial took before: means over finished trials of its task."""

    cost_usd: float
    elapsed_s: float


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
    estimate: Estimate | None
    """Null for a reuse, and where this agent and model have finished no trial of the task."""

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

    @property
    def to_run(self) -> tuple[PlannedTrial, ...]:
        """The trials that the store lacks."""
        return tuple(trial for trial in self.trials if not trial.reuse)


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
    agent = params.agent.name
    model = params.model.name if params.agent.needs_model else None
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
            reuse = store.find(key.key, params.budget.per_trial_usd) is not None
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
                    estimate=None if reuse else earlier.estimate(name, agent, model),
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
    """The finished trials of each task, read only when something is first asked of them."""

    def __init__(self, store: TrialStore) -> None:
        self._store = store

    @cached_property
    def _by_task(self) -> dict[str, list[TaskResult]]:
        found: dict[str, list[TaskResult]] = {}
        for result in self._store.results():
            found.setdefault(result.instance_id, []).append(result)
        return found

    def what_changed(self, instance_id: str, trial: int, key: RunKey) -> str:
        """The parts in which the nearest earlier trial's key differs, newest first among equals."""
        candidates = [
            result for result in self._by_task.get(instance_id, ()) if result.trial == trial
        ]
        if not candidates:
            return "new"
        if any(result.run_key == key.key for result in candidates):
            return "a smaller budget had ended it"
        changes = [differing(key.parts, result.run_key_parts) for result in candidates]
        nearest = min(changes, key=len)
        return f"changed: {', '.join(nearest)}"

    def estimate(self, instance_id: str, agent: str, model: str | None) -> Estimate | None:
        """What the same agent and model took for the same task before."""
        found = [
            result
            for result in self._by_task.get(instance_id, ())
            if (result.agent, result.model) == (agent, model)
        ]
        if not found:
            return None
        return Estimate(
            cost_usd=fmean(result.cost_usd for result in found),
            elapsed_s=fmean(result.elapsed_s for result in found),
        )


def differing(now: dict[str, str], before: dict[str, str]) -> list[str]:
    """Names of the parts that differ between two keys."""
    return sorted(name for name in {*now, *before} if now.get(name) != before.get(name))


def print_plan(plan: Plan, console: Console, workers: int) -> None:
    """A line a trial, then the totals, with what is left estimated from earlier trials."""
    table = Table("trial", "gold date", "plan", "because", "cost", "time", box=None)
    for trial in plan.trials:
        what = "[green]reuse[/]" if trial.reuse else "[yellow]run[/]"
        guess = trial.estimate
        table.add_row(
            trial.name,
            trial.gold_date.isoformat(),
            what,
            trial.reason,
            f"${guess.cost_usd:.2f}" if guess else "",
            f"{guess.elapsed_s:.0f} s" if guess else "",
        )
    for name, reason in plan.left_out.items():
        table.add_row(name, "", "[dim]left out[/]", reason)
    console.print(table)
    left = plan.to_run
    console.print(
        f"{len(plan.trials)} trials: {len(plan.trials) - len(left)} reused, {len(left)} to run; "
        f"{len(plan.left_out)} tasks left out"
    )
    if left:
        console.print(estimated(left, workers), soft_wrap=True)


def estimated(trials: Sequence[PlannedTrial], workers: int) -> str:
    """Cost and time of trials in words; a trial without a guess is taken for an average one."""
    known = [trial.estimate for trial in trials if trial.estimate is not None]
    if not known:
        return "no estimate of cost and time: these tasks have no earlier trial of this model"
    cost = fmean(item.cost_usd for item in known) * len(trials)
    seconds = fmean(item.elapsed_s for item in known) * len(trials) / workers
    unknown = len(trials) - len(known)
    aside = f"; {unknown} of them have none, and count as average" if unknown else ""
    return (
        f"estimated from earlier trials: ${cost:.2f}, {seconds / 60:.0f} min with {workers} "
        f"workers{aside}"
    )


def _main() -> int:
    params = load_params()
    workers = int(params.concurrency.config().get("max_workers") or 1)
    print_plan(make_plan(params, TrialStore()), make_console(), workers)
    return 0


if __name__ == "__main__":
    main(_main)
