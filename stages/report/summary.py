"""Reads the run that lies in a results folder, as the report's summary of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from stages.common.params import Params
from stages.evaluate.models import Reason, TableVerdict, TaskVerdict, read_verdicts
from stages.report.console import control_note
from stages.report.models import RunSummary, TaskOutcome, TrialOutcome
from stages.run.models import TaskResult, TrialStatus
from stages.suite.models import read_audit

WORKSPACE = "workspace"
"""The label of the run that lies in the workspace."""


def read_results(folder: Path) -> dict[tuple[str, int], TaskResult]:
    """Every trial's result below `folder`, by instance id and trial."""
    found = (TaskResult.read(path) for path in sorted(folder.glob("runs/*/*/task_result.json")))
    return {(result.instance_id, result.trial): result for result in found}


def read_summary(params: Params, folder: Path, label: str = WORKSPACE) -> RunSummary:
    """The summary of the scored run in `folder`, which was made with `params`."""
    results = read_results(folder)
    verdicts: dict[str, dict[int, TaskVerdict]] = {}
    for verdict in read_verdicts(folder / "verdicts.json"):
        verdicts.setdefault(verdict.instance_id, {})[verdict.trial] = verdict
    tasks = []
    for entry in read_audit(folder / "suite_audit.json"):
        if params.tasks is not None and entry.instance_id not in params.tasks:
            continue
        judged = verdicts.get(entry.instance_id, {})
        ran = {
            trial: found for (name, trial), found in results.items() if name == entry.instance_id
        }
        outcomes = [outcome(n, ran.get(n), judged.get(n)) for n in sorted({*ran, *judged})]
        tasks.append(
            TaskOutcome(
                instance_id=entry.instance_id,
                audit=entry.status,
                detail=entry.detail,
                trials=tuple(outcomes),
            )
        )
    model = params.model.name if params.agent.needs_model else None
    return RunSummary(
        label=label,
        suite=params.suite.name,
        agent=params.agent.name,
        model=model,
        params=chosen(params),
        note=control_note(params),
        tasks=tuple(tasks),
        results=folder,
    )


def chosen(params: Params) -> dict[str, str]:
    """The choices that tell one run from another, by name."""
    named = {"stack": params.stack.name, "sandbox": params.sandbox.name}
    if params.agent.needs_model:
        named |= {
            "model id": params.model.id,
            "skills": params.skills.name,
            "gateway": params.gateway.name,
        }
    return named | {"trials": str(params.trials)}


def outcome(trial: int, result: TaskResult | None, verdict: TaskVerdict | None) -> TrialOutcome:
    """Join a trial's result with its verdict; either may be missing."""
    tables = verdict.tables if verdict else ()
    base = TrialOutcome(
        trial=trial,
        status=verdict.status if verdict else None,
        passed=verdict.passed if verdict else None,
        passed_officially=verdict.passed_officially if verdict else None,
        passed_strictly=verdict.passed_strictly if verdict else None,
        resolutions=verdict.resolutions if verdict else (),
        causes=_causes(tables),
        reason=verdict.reason if verdict else "not scored",
        tables=len(tables),
        tables_passed=sum(table.reason is Reason.MATCHED for table in tables),
    )
    if result is None:
        return base
    unscored = (TrialStatus.INFRA_ERROR, TrialStatus.NOT_RUN)
    infra = (result.status.value,) if result.status in unscored else ()
    return base.model_copy(
        update={
            "status": result.status,
            "causes": base.causes or infra,
            "turns": result.turns,
            "elapsed_s": result.elapsed_s,
            "cost_usd": result.cost_usd,
            "tokens": result.tokens,
            "sealed": result.sealed,
        }
    )


def cause(table: TableVerdict) -> str | None:
    """What is wrong with a table, in one word; null where nothing is."""
    if table.reason in (Reason.MATCHED, Reason.NOT_SCORED):
        return None
    return table.diagnosis.cause.value if table.diagnosis else table.reason.value


def _causes(tables: tuple[TableVerdict, ...]) -> tuple[str, ...]:
    counted = Counter(word for table in tables if (word := cause(table)))
    return tuple(word for word, _ in counted.most_common())
