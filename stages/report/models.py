"""What the report knows of a run: typed, so that a run from anywhere can stand beside ours."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from stages.common.files import Record
from stages.run.models import Tokens, TrialStatus
from stages.suite.models import Status


class TrialOutcome(Record):
    """How one trial ended, what it took, and what its database was worth."""

    trial: int
    status: TrialStatus | None
    """Null where the trial's result cannot be read."""
    passed: bool | None
    """Null is unscored."""
    passed_officially: bool | None
    passed_strictly: bool | None = None
    resolutions: tuple[str, ...] = ()
    """What a pass needed beyond the official look-up."""
    causes: tuple[str, ...] = ()
    """What was wrong with its tables, each once, the most frequent first."""
    reason: str = ""
    """Why, in one sentence."""
    tables: int = 0
    """Graded tables."""
    tables_passed: int = 0
    turns: int = 0
    elapsed_s: float = 0.0
    cost_usd: float = 0.0
    tokens: Tokens = Tokens()
    sealed: bool = False


class TaskOutcome(Record):
    """One task of a run, over all its trials; a task that was not run has none."""

    instance_id: str
    audit: Status
    detail: str = ""
    """The audit's finding; empty when all is well."""
    trials: tuple[TrialOutcome, ...] = ()

    @property
    def passed(self) -> bool | None:
        """True when every trial passed; null where one is unscored or none was run."""
        return _all([trial.passed for trial in self.trials])

    @property
    def passed_officially(self) -> bool | None:
        """The same by the official script, which knows no resolutions."""
        return _all([trial.passed_officially for trial in self.trials])

    @property
    def passed_strictly(self) -> bool | None:
        """The same by the strict comparison."""
        return _all([trial.passed_strictly for trial in self.trials])

    @property
    def passes(self) -> int:
        """Trials that passed."""
        return sum(trial.passed is True for trial in self.trials)

    @property
    def flaky(self) -> bool:
        """True where some trials passed and some failed."""
        return len({trial.passed for trial in self.trials} - {None}) > 1

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes of all its trials, each once."""
        return tuple(dict.fromkeys(cause for trial in self.trials for cause in trial.causes))


class RunSummary(Record):
    """A run: what was chosen, and the outcome of each task."""

    label: str
    """Its name in the report, unlike all others': `workspace`, an experiment, a revision."""
    suite: str
    agent: str
    model: str | None
    """Null for an agent that is driven by none."""
    params: dict[str, str] = Field(default_factory=dict)
    """What else was chosen, by name, for the reader."""
    note: str = ""
    """What its score does not say; empty where it says what it seems to."""
    tasks: tuple[TaskOutcome, ...]
    results: Path | None = None
    """A folder laid out like `results/`, for traces and diffs; null where there is none."""

    @property
    def driver(self) -> str:
        """The model, or the agent that needs none."""
        return self.model or self.agent

    @property
    def scoreable(self) -> int:
        """Tasks that the audit found can be scored."""
        return sum(task.audit.scoreable for task in self.tasks)

    @property
    def passed(self) -> int:
        """Tasks that passed."""
        return sum(task.passed is True for task in self.tasks)

    @property
    def trials(self) -> tuple[TrialOutcome, ...]:
        """All trials of all tasks."""
        return tuple(trial for task in self.tasks for trial in task.trials)


def _all(values: list[bool | None]) -> bool | None:
    if not values or any(value is None for value in values):
        return None
    return all(values)
