"""One Inspect AI evaluation log a run: a sample a trial, with transcript, scores and usage.

Needs the extra `inspect`: `python -m stages.report.export --format inspect` says how to get it.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalSample,
    EvalSampleLimit,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ModelOutput, ModelUsage
from inspect_ai.scorer import Score
from inspect_ai.viewer import ViewerConfig

from stages.common.errors import UserError
from stages.common.files import digest_text
from stages.evaluate.models import TaskVerdict
from stages.report.export.place import fresh_folder, write_notes
from stages.report.export.read import Note, Run, RunTrial, clean, read_events
from stages.report.export.transcript import make_transcript
from stages.report.summary import cause
from stages.run.models import TaskResult, TrialStatus

SCORES = ("passed", "official", "strict")
"""The headline's verdict, the official script's, and the strict comparison's."""

LIMITS = {
    TrialStatus.TIMEOUT: ("time", "elapsed_s"),
    TrialStatus.MAX_TURNS: ("turn", "turns"),
    TrialStatus.OVER_BUDGET: ("cost", "cost_usd"),
}
"""Inspect's name of the limit that ended a trial, and what had been used of it."""


def write_inspect(run: Run, out: Path) -> list[Note]:
    """Write the run's log to the folder `out`; what is missing of single trials.

    Raises:
        UserError: no trial was run, or `out` holds something else.
    """
    notes = run.notes
    samples = []
    for item in run.trials:
        if item.folder is None:
            continue
        sample, note = _sample(run, item)
        samples.append(sample)
        if note:
            notes.append(Note(about=item.name, text=note))
    if not samples:
        raise UserError(
            "no trial of this run is there", where=str(run.folder / "runs"), remedy="make run"
        )
    log = _log(run, samples)
    stamp = log.eval.created.replace(":", "-")
    with fresh_folder(out) as folder:
        named = re.sub(r"[^\w.-]+", "-", f"{stamp}_{run.suite}-{run.driver}_{log.eval.task_id}")
        write_eval_log(log, str(folder / f"{named}.eval"))
        about = f"suite {run.suite}, agent {run.agent}, model {run.model or 'none'}"
        opened = f"inspect view --log-dir {out}"
        write_notes(folder, [about, f"to be opened with: {opened}"], notes)
    return notes


def _log(run: Run, samples: list[EvalSample]) -> EvalLog:
    written = (run.folder / "verdicts.json").stat().st_mtime
    created = _stamp(datetime.datetime.fromtimestamp(written, datetime.UTC))
    keys = [item.result.run_key if item.result else item.name for item in run.trials]
    identity = digest_text(run.suite, run.driver, created, *keys)[:22]
    sealed = sum(bool(item.result and item.result.sealed) for item in run.trials)
    usage = _sum([sample.model_usage[run.driver] for sample in samples if sample.model_usage])
    note = run.caveat
    return EvalLog(
        status="success",
        eval=EvalSpec(
            eval_id=identity,
            run_id=identity,
            task_id=identity,
            created=created,
            task=run.suite,
            model=run.driver,
            dataset=EvalDataset(
                name=run.suite,
                samples=len(run.tasks),
                sample_ids=[entry.instance_id for entry in run.tasks],
            ),
            config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
            # A trace holds whatever a model and its tools wrote.
            viewer=ViewerConfig(trust_content=False),
            metadata={
                "agent": run.agent,
                **run.chosen,
                "scoreable_tasks": sum(entry.status.scoreable for entry in run.tasks),
                "sealed_trials": sealed,
                **({"note": note} if note else {}),
            },
        ),
        plan=EvalPlan(steps=[EvalPlanStep(solver=run.agent, params=dict(run.chosen))]),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=sum(sample.error is None for sample in samples),
            scores=[total for name in SCORES if (total := _total(name, samples))],
        ),
        stats=EvalStats(model_usage={run.driver: usage}),
        samples=samples,
    )


def _total(name: str, samples: list[EvalSample]) -> EvalScore | None:
    """The share of the trials with this score that passed; null where none has it."""
    scores = [sample.scores for sample in samples if sample.scores]
    values = [given[name].value for given in scores if name in given]
    if not values:
        return None
    share = sum(value == "C" for value in values) / len(values)
    return EvalScore(
        name=name,
        scorer=name,
        scored_samples=len(values),
        unscored_samples=len(samples) - len(values),
        metrics={"accuracy": EvalMetric(name="accuracy", value=share)},
    )


def _sample(run: Run, item: RunTrial) -> tuple[EvalSample, str]:
    """A trial's sample, and what is wrong with its trace."""
    assert item.folder is not None
    events, note = read_events(item.folder)
    began = _began(item.folder, events[-1].time_s if events else 0.0)
    instruction = run.instructions.get(item.instance_id, "")
    made = make_transcript(events, instruction, run.driver, item.name, began)
    result = item.result
    evaluation = item.entry.evaluation
    sample = EvalSample(
        id=item.instance_id,
        epoch=item.trial + 1,
        input=clean(instruction),
        target=list(evaluation.condition_tabs or ()) if evaluation else "",
        messages=made.messages,
        events=made.events,
        output=ModelOutput.from_content(run.driver, made.last),
        scores=_scores(item.verdict),
        metadata=_metadata(item),
        uuid=digest_text(item.name, result.run_key if result else "")[:22],
        started_at=_stamp(began),
        error=_error(item),
    )
    if result is None:
        return sample, note
    ended = began + datetime.timedelta(seconds=result.elapsed_s)
    update: dict[str, Any] = {
        "completed_at": _stamp(ended),
        "total_time": result.elapsed_s,
        "working_time": result.elapsed_s,
        "turn_count": result.turns,
        "limit": _limit(result),
    }
    if result.model is not None:
        update["model_usage"] = {run.driver: _usage(result)}
    return sample.model_copy(update=update), note


def _scores(verdict: TaskVerdict | None) -> dict[str, Score]:
    if verdict is None:
        return {}
    given = (verdict.passed, verdict.passed_officially, verdict.passed_strictly)
    tables = [
        {
            "table": clean(table.table),
            "official": table.official,
            "strict": table.strict,
            "reason": table.reason.value,
            "cause": cause(table),
            "detail": clean(table.detail),
        }
        for table in verdict.tables
    ]
    metadata = {"tables": tables, "resolutions": [item.value for item in verdict.resolutions]}
    return {
        name: Score(
            value="C" if passed else "I", explanation=clean(verdict.reason), metadata=metadata
        )
        for name, passed in zip(SCORES, given, strict=True)
        if passed is not None
    }


def _metadata(item: RunTrial) -> dict[str, Any]:
    found: dict[str, Any] = {
        "trial": item.trial,
        "audit": item.entry.status.value,
        "reason": clean(item.verdict.reason) if item.verdict else "not scored",
    }
    if item.note:
        found["note"] = clean(item.note)
    if item.result is not None:
        result = item.result
        found |= {
            "status": result.status.value,
            "detail": clean(result.detail),
            "gold_date": result.gold_date.isoformat(),
            "run_key": result.run_key,
            "run_key_parts": {clean(k): clean(v) for k, v in result.run_key_parts.items()},
            "sealed": result.sealed,
            "attempts": result.attempts,
            "cost_usd": result.cost_usd,
            "versions": result.versions,
        }
    return found


def _error(item: RunTrial) -> EvalError | None:
    """Why a trial is no result, or what its agent broke on; null where it came to its end."""
    if item.result is None:
        text = item.note
    elif item.result.status in (TrialStatus.AGENT_ERROR, TrialStatus.INFRA_ERROR):
        text = f"{item.result.status.value}: {item.result.detail}"
    else:
        return None
    return EvalError(message=clean(text), traceback="", traceback_ansi="")


def _limit(result: TaskResult) -> EvalSampleLimit | None:
    if result.status not in LIMITS:
        return None
    kind, used = LIMITS[result.status]
    values: dict[str, Any] = {"type": kind, "limit": float(getattr(result, used))}
    return EvalSampleLimit(**values, reason=clean(result.detail) or None)


def _usage(result: TaskResult) -> ModelUsage:
    tokens = result.tokens
    return ModelUsage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        input_tokens_cache_read=tokens.cache_read,
        input_tokens_cache_write=tokens.cache_write,
        total_tokens=tokens.input + tokens.output + tokens.cache_read + tokens.cache_write,
        total_cost=result.cost_usd,
    )


def _sum(usages: list[ModelUsage]) -> ModelUsage:
    total = ModelUsage()
    for usage in usages:
        total = total + usage
    return total


def _began(folder: Path, lasted_s: float) -> datetime.datetime:
    """About when a trial began: its trace was written when it had ended."""
    trace = folder / "trace.json"
    written = (trace if trace.is_file() else folder).stat().st_mtime
    return datetime.datetime.fromtimestamp(written - lasted_s, datetime.UTC)


def _stamp(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="seconds")
