"""What trials may spend, and the purse that all trials of a relay share."""

from __future__ import annotations

import threading
from enum import StrEnum

from pydantic import Field

from stages.common.errors import UserError
from stages.common.files import Record

STATUS = 402
"""Status of a call that is refused for want of money."""


class Budget(Record):
    """Limits in US dollars; null sets none."""

    per_trial_usd: float | None = Field(default=None, gt=0)
    per_run_usd: float | None = Field(default=None, gt=0)


class Spent(StrEnum):
    """Whose budget is spent."""

    TRIAL = "trial_over_budget"
    RUN = "run_over_budget"


class BudgetSpentError(UserError):
    """The run's budget is spent: no trial is admitted any more."""


class Purse:
    """Counts what all trials spend, and says when a budget is reached.

    A budget is checked before a call, since what a call costs is known only afterwards: each
    limit can be overshot by the calls that are under way when it is reached.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._spent = 0.0
        self._lock = threading.Lock()

    def add(self, dollars: float) -> None:
        """Count one answer."""
        with self._lock:
            self._spent += dollars

    def spent(self, by_trial: float) -> Spent | None:
        """The budget that allows no further call of a trial that has spent `by_trial`."""
        run, trial = self.budget.per_run_usd, self.budget.per_trial_usd
        if run is not None and self._spent >= run:
            return Spent.RUN
        if trial is not None and by_trial >= trial:
            return Spent.TRIAL
        return None

    def admit(self) -> None:
        """Raise `BudgetSpentError` where the run's budget is spent."""
        if self.spent(0.0) is Spent.RUN:
            raise BudgetSpentError(
                f"the run's budget of ${self.budget.per_run_usd:g} is spent",
                remedy="raise `budget.per_run_usd`, and `dvc repro` goes on",
            )
