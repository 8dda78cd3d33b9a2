"""A trial's result, and the one table of what follows from each way of ending."""

from __future__ import annotations

import datetime
from pathlib import Path

from pydantic import Field

from stages.agent.models import Tokens, TrialStatus
from stages.common.files import Record, read_json, write_json

__all__ = ["POLICY", "Policy", "RunKey", "TaskResult", "Tokens", "TrialStatus"]


class Policy(Record):
    """What follows from a trial's status."""

    retry: bool
    """Try again in a fresh work directory."""
    keep: bool
    """Put it into the trial store, where later runs find it."""
    score: bool
    """Let it count for or against the agent."""


RESULT = Policy(retry=False, keep=True, score=True)
POLICY: dict[TrialStatus, Policy] = {
    TrialStatus.COMPLETED: RESULT,
    TrialStatus.AGENT_ERROR: RESULT,
    TrialStatus.TIMEOUT: RESULT,
    TrialStatus.MAX_TURNS: RESULT,
    TrialStatus.OVER_BUDGET: RESULT,
    TrialStatus.INFRA_ERROR: Policy(retry=True, keep=False, score=False),
    TrialStatus.NOT_RUN: Policy(retry=False, keep=False, score=False),
}
"""The only place that decides this. An infrastructure failure says nothing of the agent."""


class RunKey(Record):
    """A SHA-256 over everything that can change a trial's outcome, and its named parts."""

    key: str
    parts: dict[str, str]


class TaskResult(Record):
    """results/runs/<task>/<trial>/task_result.json."""

    instance_id: str
    trial: int
    agent: str
    model: str | None
    status: TrialStatus
    detail: str = ""
    """One sentence on what went wrong; empty when nothing did."""
    run_key: str
    run_key_parts: dict[str, str]
    gold_date: datetime.date
    sealed: bool
    """True where the sandbox isolates the agent."""
    database: str
    """Path of the database, relative to `project/`."""
    turns: int = Field(ge=0)
    elapsed_s: float
    """Seconds of the last attempt."""
    sandbox_s: float = 0.0
    """Of these, the seconds in which the sandbox's commands ran; the rest is the harness's own."""
    attempts: int = Field(ge=1)
    """How often it was tried, infrastructure failures included."""
    cost_usd: float
    tokens: Tokens
    budget_usd: float | None = None
    """The budget for one trial, where that is what ended it: with more, it is run again."""
    versions: dict[str, str]
    refused: dict[str, int] = Field(default_factory=dict)
    """Calls that the relay refused the sandbox, by what was asked for."""

    @classmethod
    def read(cls, path: Path) -> TaskResult:
        """Read what `write` wrote."""
        return cls.model_validate(read_json(path))

    def write(self, path: Path) -> None:
        """Write as JSON."""
        write_json(path, self)
