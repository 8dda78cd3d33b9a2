"""The agent that does nothing: its score shows what the start database is worth."""

from __future__ import annotations

import time
from dataclasses import dataclass

from stages.agent.models import Outcome, TrialFolder, TrialSpec, TrialStatus


@dataclass(frozen=True)
class NopAgent:
    """Leaves the project and its start database as they are."""

    wait_s: float = 0.0
    """Seconds that it waits first: what an agent does while a model thinks."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        """Do nothing, successfully."""
        time.sleep(self.wait_s)
        return Outcome(status=TrialStatus.COMPLETED)
