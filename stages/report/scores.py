"""The numbers of a run: what passed, out of how many, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any

from stages.common.files import Record
from stages.evaluate.models import Reason, TaskVerdict
from stages.report.statistics import pass_all, pass_at, rate
from stages.run.models import TaskResult, TrialStatus
from stages.suite.models import AuditEntry


class TaskScore(Record):
    """One task over all its trials."""

    instance_id: str
    audit: str
    """The audit's status."""
    statuses: tuple[TrialStatus, ...]
    """How each trial ended; empty where none was run."""
    passed: bool | None
    """True when every trial passed; null where it cannot be scored or was not run."""
    passed_officially: bool | None
    """The same by the official script, which knows no resolutions."""
    passed_strictly: bool | None = None
    """The same by the strict score."""
    trials_scored: int = 0
    trials_passed: int = 0
    tables: int
    """Graded tables, over all trials."""
    tables_passed: int
    tables_strict: int = 0
    """Graded tables that pass strictly."""
    tables_disagreeing: int = 0
    """Graded tables on which the official and the strict verdict differ."""
    elapsed_s: float
    """Seconds over all trials."""
    reason: str
    """Why it did not pass, or what it only passed through; empty for a plain pass."""

    @property
    def flaky(self) -> bool:
        """Some trials passed, and some failed."""
        return 0 < self.trials_passed < self.trials_scored

    @property
    def ran(self) -> bool:
        """Whether any trial was run at all."""
        return any(status is not TrialStatus.NOT_RUN for status in self.statuses)


class Disagreement(Record):
    """A table on which the official and the strict verdict differ."""

    instance_id: str
    trial: int
    table: str
    why: str


class Scores(Record):
    """All tasks of a run, with the totals."""

    tasks: tuple[TaskScore, ...]
    trials: tuple[TaskResult, ...]
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def scoreable(self) -> int:
        """Tasks that the audit found can be scored."""
        return sum(score.audit in ("scoreable", "gold_misnamed") for score in self.tasks)

    @property
    def passed(self) -> int:
        """Tasks that passed."""
        return sum(score.passed is True for score in self.tasks)

    @property
    def passed_officially(self) -> int:
        """Tasks that pass by the official script too, which knows no resolutions."""
        return sum(score.passed_officially is True for score in self.tasks)

    @property
    def passed_strictly(self) -> int:
        """Tasks that pass by the strict score, which stands beside the official one."""
        return sum(score.passed_strictly is True for score in self.tasks)

    @property
    def sealed(self) -> int:
        """Trials that ran in an isolating sandbox."""
        return sum(result.sealed for result in self.trials)

    def headline(self) -> str:
        """The score in one line, with its denominators."""
        resolved = self.passed - self.passed_officially
        aside = f"{resolved} of them only through a resolution (*); " if resolved else ""
        seen = rate(self.passed, self.scoreable)
        flaky = [score.instance_id for score in self.tasks if score.flaky]
        aside += f"flaky: {', '.join(flaky)}; " if flaky else ""
        return (
            f"passed {_share(self.passed, self.scoreable)} scoreable, "
            f"{_share(self.passed, len(self.tasks))} all tasks; "
            f"95 % interval {seen.low:.1%} to {seen.high:.1%} of scoreable; {aside}"
            f"{self.sealed} of {len(self.trials)} trials sealed"
        )

    def strict_line(self) -> str:
        """The strict score in one line; it is no part of the headline."""
        differ = len(self.disagreements)
        word = "table" if differ == 1 else "tables"
        return (
            f"strict score: {_share(self.passed_strictly, self.scoreable)} scoreable; "
            f"it differs from the official verdict on {differ} {word}"
        )

    def metrics(self) -> dict[str, Any]:
        """results/metrics.json: the totals, numbers only."""
        statuses = Counter(result.status for result in self.trials)
        return {
            "tasks": {
                "all": len(self.tasks),
                "scoreable": self.scoreable,
                "not_run": sum(not score.ran for score in self.tasks),
                "flaky": sum(score.flaky for score in self.tasks),
                "passed": self.passed,
                "passed_officially": self.passed_officially,
                "passed_strictly": self.passed_strictly,
                "passed_of_scoreable": _ratio(self.passed, self.scoreable),
                "passed_of_all": _ratio(self.passed, len(self.tasks)),
            },
            "tables": {
                "graded": sum(score.tables for score in self.tasks),
                "passed": sum(score.tables_passed for score in self.tasks),
                "strict": sum(score.tables_strict for score in self.tasks),
                "strict_disagreeing": sum(score.tables_disagreeing for score in self.tasks),
            },
            "trials": {"all": len(self.trials), "sealed": self.sealed},
            "pass_at": self._over_tasks(pass_at),
            "pass_all": self._over_tasks(pass_all),
            "cost": {
                "usd": round(sum(result.cost_usd for result in self.trials), 6),
                "tokens_input": sum(result.tokens.input for result in self.trials),
                "tokens_output": sum(result.tokens.output for result in self.trials),
                "tokens_cache_read": sum(result.tokens.cache_read for result in self.trials),
                "tokens_cache_write": sum(result.tokens.cache_write for result in self.trials),
            },
            "errors": {
                status.value: statuses[status]
                for status in TrialStatus
                if status is not TrialStatus.COMPLETED
            },
        }

    def _over_tasks(self, chance: Callable[[int, int, int], float]) -> dict[str, float]:
        """`chance(k, trials, passes)`, mean over the scored tasks, for every k they all allow."""
        scored = [score for score in self.tasks if score.trials_scored]
        most = min((score.trials_scored for score in scored), default=0)
        return {
            str(k): round(
                fmean(chance(k, score.trials_scored, score.trials_passed) for score in scored), 4
            )
            for k in range(1, most + 1)
        }

    def by_task(self) -> dict[str, dict[str, bool]]:
        """results/tasks.json: whether each scored task passed, and nothing noisier."""
        return {
            score.instance_id: {"passed": score.passed}
            for score in self.tasks
            if score.passed is not None
        }

    def plot(self) -> list[dict[str, Any]]:
        """The plot's rows: each run task's share of graded tables that match gold."""
        return [
            {"task": score.instance_id, "share_passed": _ratio(score.tables_passed, score.tables)}
            for score in self.tasks
            if score.tables
        ]


def make_scores(
    audit: Iterable[AuditEntry],
    verdicts: Iterable[TaskVerdict],
    results: Mapping[tuple[str, int], TaskResult],
    selected: tuple[str, ...] | None,
) -> Scores:
    """Join audit, verdicts and results, over the selected tasks (null for all)."""
    by_task: dict[str, list[TaskVerdict]] = {}
    for verdict in verdicts:
        by_task.setdefault(verdict.instance_id, []).append(verdict)
    chosen = [entry for entry in audit if selected is None or entry.instance_id in selected]
    scores = [_score(entry, by_task.get(entry.instance_id, []), results) for entry in chosen]
    names = {score.instance_id for score in scores}
    trials = [result for key, result in sorted(results.items()) if key[0] in names]
    disagreements = [
        Disagreement(
            instance_id=name, trial=verdict.trial, table=table.table, why=table.disagreement
        )
        for name in (entry.instance_id for entry in chosen)
        for verdict in by_task.get(name, [])
        for table in verdict.tables
        if table.disagreement is not None
    ]
    return Scores(tasks=tuple(scores), trials=tuple(trials), disagreements=tuple(disagreements))


def _score(
    entry: AuditEntry,
    verdicts: list[TaskVerdict],
    results: Mapping[tuple[str, int], TaskResult],
) -> TaskScore:
    ended = [result for key, result in sorted(results.items()) if key[0] == entry.instance_id]
    tables = [table for verdict in verdicts for table in verdict.tables]
    reasons = [_why(verdict) for verdict in verdicts if not _plain_pass(verdict)]
    if not entry.status.scoreable:
        reasons = [f"{entry.status}: {entry.detail}"]
    elif not ended:
        reasons = ["not run"]
    return TaskScore(
        instance_id=entry.instance_id,
        audit=entry.status,
        statuses=tuple(result.status for result in ended),
        passed=_all([verdict.passed for verdict in verdicts]),
        trials_scored=sum(verdict.passed is not None for verdict in verdicts),
        trials_passed=sum(verdict.passed is True for verdict in verdicts),
        passed_officially=_all([verdict.passed_officially for verdict in verdicts]),
        passed_strictly=_all([verdict.passed_strictly for verdict in verdicts]),
        tables=len(tables),
        tables_passed=sum(table.reason is Reason.MATCHED for table in tables),
        tables_strict=sum(table.strict is True for table in tables),
        tables_disagreeing=sum(table.disagreement is not None for table in tables),
        elapsed_s=round(sum(result.elapsed_s for result in ended), 3),
        reason="; ".join(dict.fromkeys(reasons)),
    )


def _why(verdict: TaskVerdict) -> str:
    if verdict.passed:
        return f"passes only through {', '.join(verdict.resolutions)}"
    return verdict.reason


def _plain_pass(verdict: TaskVerdict) -> bool:
    return verdict.passed is True and not verdict.resolutions


def _all(values: list[bool | None]) -> bool | None:
    if not values or any(value is None for value in values):
        return None
    return all(values)


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} ({part / whole:.1%})" if whole else f"{part}/0"
