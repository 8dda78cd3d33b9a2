"""The agent that does nothing: its score shows what the start database is worth."""

from __future__ import annotations

from dataclasses import dataclass

from stages.agent.models import Outcome, TrialFolder, TrialSpec, TrialStatus


@dataclass(frozen=True)
class NopAgent:
    """Leaves the project and its start database as they are."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        """Do nothing, successfully."""
        return Outcome(status=TrialStatus.COMPLETED)
