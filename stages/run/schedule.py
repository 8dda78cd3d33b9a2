"""Hands the missing trials to an executor and brings every trial into results/runs."""

from __future__ import annotations

from concurrent.futures import Executor, Future, as_completed
from pathlib import Path

from stages.agent.models import TrialSpec
from stages.common.params import Params
from stages.relay.config import RelayConfig
from stages.run.models import POLICY, TaskResult
from stages.run.plan import Plan, PlannedTrial
from stages.run.progress import Display
from stages.run.store import RESULT, TrialStore
from stages.run.trial import TrialJob, run_trial

RUNS = Path("results/runs")


def carry_out(
    plan: Plan,
    params: Params,
    *,
    executor: Executor,
    store: TrialStore,
    run_id: str,
    work: Path,
    display: Display,
) -> list[TaskResult]:
    """Run what the store lacks, link everything to `results/runs/<task>/<trial>/`.

    A trial is linked the moment it ends, so that an interruption loses only those at work.
    Returns the results of all trials, in the plan's order.
    """
    results: dict[str, TaskResult] = {}
    for planned in plan.trials:
        if planned.reuse:
            store.link(planned.key.key, place(planned))
            results[planned.name] = TaskResult.read(place(planned) / RESULT)
            display.reused(planned.name, planned.key.key)
    futures: dict[Future[TaskResult], PlannedTrial] = {}
    for planned in plan.trials:
        if not planned.reuse:
            display.starting(planned.name, planned.reason)
            job = make_job(planned, plan, params, store=store, run_id=run_id, work=work)
            futures[executor.submit(run_trial, job)] = planned
    display.futures = {future: planned.name for future, planned in futures.items()}
    for future in as_completed(futures):
        planned = futures[future]
        result = future.result()
        if POLICY[result.status].keep:
            store.link(planned.key.key, place(planned))
        else:
            result.write(place(planned) / RESULT)
        results[planned.name] = result
        display.finished(planned.name, result)
    return [results[planned.name] for planned in plan.trials]


def place(planned: PlannedTrial) -> Path:
    """Where a trial's files appear in the workspace."""
    return RUNS / planned.task.instance_id / str(planned.trial)


def relay_config(params: Params) -> RelayConfig:
    """The relay's configuration: the model's, with the run's budgets."""
    return RelayConfig.model_validate(
        {**params.model.relay, "budget": params.budget.model_dump(mode="json")}
    )


def make_job(
    planned: PlannedTrial,
    plan: Plan,
    params: Params,
    *,
    store: TrialStore,
    run_id: str,
    work: Path,
) -> TrialJob:
    """What a worker is given for one trial, with absolute paths."""
    task = planned.task
    return TrialJob(
        run_id=run_id,
        trial=planned.trial,
        key=planned.key,
        spec=TrialSpec(
            instance_id=task.instance_id,
            instruction=task.instruction,
            database=task.database.as_posix(),
            agent=params.agent_instance(),
            versions=plan.stack.versions,
        ),
        project=task.project.resolve(),
        overlay=task.overlay.resolve() if task.overlay else None,
        solution=planned.solution.resolve() if planned.solution else None,
        gold_date=planned.gold_date,
        agent=params.agent.name,
        model=params.model.name if params.agent.needs_model else None,
        relay=relay_config(params) if params.agent.needs_model else None,
        recording=planned.recording.resolve() if planned.recording else None,
        stack=plan.stack,
        sandbox=params.sandbox.instance(),
        work=work,
        store=store.root,
        retries=params.retries.count,
        pause_s=params.retries.pause_s,
    )
