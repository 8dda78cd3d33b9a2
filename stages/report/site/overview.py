"""What the front pages show: the headline, the runs side by side, the matrix, the causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stages.report.models import RunSummary, TaskOutcome, TrialOutcome
from stages.report.site.shown import clean, count, money, seconds, words
from stages.report.statistics import Rate, rate
from stages.suite.models import Status

MISNAMED = "misnamed_gold"


@dataclass(frozen=True)
class Spent:
    """What some trials took together, or on average."""

    cost_usd: float
    tokens_in: float
    """Read by the model: new, from a cache, and into one."""
    tokens_out: float
    elapsed_s: float
    turns: float

    def per(self, many: int) -> Spent | None:
        """The same for each of so many; null where there are none."""
        if not many:
            return None
        values = (self.cost_usd, self.tokens_in, self.tokens_out, self.elapsed_s, self.turns)
        return Spent(*(value / many for value in values))


def spent(trials: Sequence[TrialOutcome]) -> Spent:
    """What the trials took together."""
    tokens = [trial.tokens for trial in trials]
    return Spent(
        cost_usd=sum(trial.cost_usd for trial in trials),
        tokens_in=sum(each.input + each.cache_read + each.cache_write for each in tokens),
        tokens_out=sum(each.output for each in tokens),
        elapsed_s=sum(trial.elapsed_s for trial in trials),
        turns=sum(trial.turns for trial in trials),
    )


@dataclass(frozen=True)
class RunView:
    """A run with everything that is said of it as a whole."""

    run: RunSummary
    slug: str
    """Its part of an address; empty for the first run."""
    scoreable: Rate
    """Passed, of the tasks that can be scored."""
    all: Rate
    """Passed, of all tasks."""
    trial_rate: Rate
    """Passed, of the trials that have a verdict."""
    official: int
    strict: int | None
    """Null where there is no strict score."""
    differing: tuple[str, ...]
    """Tasks on which official and strict score differ."""
    sealed: int
    ran: int
    """Tasks with at least one trial."""
    resolved: tuple[tuple[str, str], ...]
    """Tasks that pass only through a resolution, with which."""
    misnamed: tuple[str, ...]
    """Tasks whose gold file has another name than the config says."""
    unscoreable: tuple[tuple[str, str], ...]
    """Tasks that cannot be scored, with why."""
    flaky: tuple[str, ...]
    total: Spent
    per_task: Spent | None
    per_pass: Spent | None


def view_run(run: RunSummary, slug: str) -> RunView:
    """Count a run."""
    trials = run.trials
    strict = [task for task in run.tasks if task.passed_strictly is not None]
    ran = sum(bool(task.trials) for task in run.tasks)
    verdicts = [trial for trial in trials if trial.passed is not None]
    return RunView(
        run=run,
        slug=slug,
        scoreable=rate(run.passed, run.scoreable),
        all=rate(run.passed, len(run.tasks)),
        trial_rate=rate(sum(trial.passed is True for trial in verdicts), len(verdicts)),
        official=sum(task.passed_officially is True for task in run.tasks),
        strict=sum(task.passed_strictly is True for task in strict) if strict else None,
        differing=tuple(
            task.instance_id for task in strict if task.passed_strictly != task.passed_officially
        ),
        sealed=sum(trial.sealed for trial in trials),
        ran=ran,
        resolved=tuple(
            (task.instance_id, ", ".join(words(mark) for mark in resolutions(task)))
            for task in run.tasks
            if task.passed and not task.passed_officially
        ),
        misnamed=tuple(
            task.instance_id
            for task in run.tasks
            if task.audit is Status.GOLD_MISNAMED or MISNAMED in resolutions(task)
        ),
        unscoreable=tuple(
            (task.instance_id, f"{words(task.audit.value)}: {task.detail}")
            for task in run.tasks
            if not task.audit.scoreable
        ),
        flaky=tuple(task.instance_id for task in run.tasks if task.flaky),
        total=spent(trials),
        per_task=spent(trials).per(ran),
        per_pass=spent(trials).per(run.passed),
    )


def resolutions(task: TaskOutcome) -> list[str]:
    """What the task's trials needed beyond the official look-up."""
    return sorted({mark for trial in task.trials for mark in trial.resolutions})


STATES = {
    "pass": ("✓", "passed"),
    "resolved": ("✓*", "passed, only through a resolution"),
    "flaky": ("±", "some trials passed, some failed"),
    "fail": ("✗", "failed"),
    "unscored": ("–", "no verdict"),
    "none": ("·", "not run"),
    "absent": ("", "not in this run"),
}
"""What can be said of a task in a run: mark and meaning."""


def state(task: TaskOutcome | None) -> str:
    """Which of `STATES` a task is in."""
    if task is None:
        return "absent"
    if not task.trials:
        return "none" if task.audit.scoreable else "unscored"
    if task.flaky:
        return "flaky"
    if task.passed is None:
        return "unscored"
    if not task.passed:
        return "fail"
    return "pass" if task.passed_officially else "resolved"


@dataclass(frozen=True)
class Cell:
    """One task in one run."""

    state: str
    ref: str
    """The trial that a click opens: `<trial>` or `<trial>@<run>`; empty where there is none."""
    texts: dict[str, str]
    """What the cell says, by what is asked."""
    heat: dict[str, float]
    """How much of the row's largest it is, from 0 to 1, for what is a number."""
    title: str


def reference(trial: int, slug: str) -> str:
    """The part of an address that names a trial."""
    return f"{trial}@{slug}" if slug else str(trial)


def first_reference(task: TaskOutcome, slug: str) -> str:
    """The trial to look at first: one that failed, else one without verdict, else the first."""
    if not task.trials:
        return reference(0, slug)
    order = {False: 0, None: 1, True: 2}
    return reference(min(task.trials, key=lambda trial: order[trial.passed]).trial, slug)


METRICS = ("cost", "time", "turns", "tokens")


def make_matrix(views: Sequence[RunView]) -> list[tuple[str, list[Cell]]]:
    """A row for each task that any run knows, with a cell for each run."""
    tables = [{task.instance_id: task for task in view.run.tasks} for view in views]
    names = sorted({name for table in tables for name in table})
    numbers = {
        (name, view.slug): _numbers(table.get(name))
        for name in names
        for view, table in zip(views, tables, strict=True)
    }
    most = {key: max((each[key] for each in numbers.values()), default=0.0) for key in METRICS}
    return [
        (
            name,
            [
                _cell(table.get(name), view, numbers[name, view.slug], most)
                for view, table in zip(views, tables, strict=True)
            ],
        )
        for name in names
    ]


def _numbers(task: TaskOutcome | None) -> dict[str, float]:
    if task is None or not task.trials:
        return dict.fromkeys(METRICS, 0.0)
    mean = spent(task.trials).per(len(task.trials))
    assert mean is not None
    tokens = mean.tokens_in + mean.tokens_out
    values = (mean.cost_usd, mean.elapsed_s, mean.turns, tokens)
    return dict(zip(METRICS, values, strict=True))


def _cell(
    task: TaskOutcome | None, view: RunView, numbers: dict[str, float], most: dict[str, float]
) -> Cell:
    found = state(task)
    mark, meaning = STATES[found]
    if task is None:
        return Cell(found, "", {"verdict": mark}, {}, meaning)
    many = len(task.trials)
    ran = many > 0
    texts = {
        "verdict": f"{task.passes}/{many}" if many > 1 else mark,
        "scores": f"{_mark(task.passed_officially)} {_mark(task.passed_strictly)}",
        "cause": clean(", ".join(words(cause) for cause in task.causes)) or mark,
        "cost": money(numbers["cost"]) if ran else mark,
        "time": seconds(numbers["time"]) if ran else mark,
        "turns": f"{numbers['turns']:.0f}" if ran else mark,
        "tokens": count(numbers["tokens"]) if ran else mark,
    }
    reason = next((trial.reason for trial in task.trials if not trial.passed), "")
    title = f"{view.run.label}: {meaning}" + (f" – {reason or task.detail}"[:300])
    heat = {key: numbers[key] / most[key] for key in METRICS if most[key]}
    return Cell(found, first_reference(task, view.slug), texts, heat, title.rstrip(" –"))


def _mark(passed: bool | None) -> str:
    return "–" if passed is None else "✓" if passed else "✗"


def make_causes(views: Sequence[RunView]) -> list[tuple[str, list[list[tuple[str, str]]]]]:
    """For each cause, and each run, the tasks with a trial that failed of it, with references."""
    names = Counter(cause for view in views for task in view.run.tasks for cause in _failing(task))
    rows = []
    for cause, _ in names.most_common():
        row = [
            [
                (task.instance_id, first_reference(task, view.slug))
                for task in view.run.tasks
                if cause in _failing(task)
            ]
            for view in views
        ]
        rows.append((cause, row))
    return rows


def _failing(task: TaskOutcome) -> list[str]:
    """Why a task's trials did not pass; one that failed for no known cause did for another."""
    found: dict[str, None] = {}
    for trial in task.trials:
        if not trial.passed:
            found |= dict.fromkeys(trial.causes or (("other",) if trial.passed is False else ()))
    return list(found)


def plot_data(views: Sequence[RunView]) -> dict[str, Any]:
    """The numbers behind the plots, for the browser."""
    causes = make_causes(views)
    first = views[0]
    return {
        "runs": [
            {
                "label": clean(view.run.label),
                "driver": clean(view.run.driver),
                "rate": view.scoreable.value,
                "low": view.scoreable.low,
                "high": view.scoreable.high,
                "cost": view.per_task.cost_usd if view.per_task else 0,
            }
            for view in views
        ],
        "causes": [
            {"cause": clean(words(cause)), "tasks": [len(tasks) for tasks in row]}
            for cause, row in causes
        ],
        "tasks": [
            {
                "id": clean(task.instance_id),
                "ref": first_reference(task, first.slug),
                "state": state(task),
                **_numbers(task),
            }
            for task in first.run.tasks
            if task.trials
        ],
    }
