"""The agent that knows the answer: its score shows that task, clock, stack and scoring agree."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass

from stages.agent.models import Event, Outcome, TrialFolder, TrialSpec, TrialStatus
from stages.common.files import copy_tree

BUILD = ("dbt", "build", *(f"--resource-type={kind}" for kind in ("seed", "model", "snapshot")))
"""Everything but tests: an oracle answers for the tables, not for the project's own checks."""

KEPT_LINES = 30
"""Lines of dbt's output kept when it fails."""


@dataclass(frozen=True)
class OracleAgent:
    """Applies the task's known solution and builds the project."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        """Lay the solution over the project and run dbt; `agent_error` when dbt fails."""
        started = time.monotonic()
        copy_tree(folder.solution, folder.project)
        done = subprocess.run(
            BUILD,
            cwd=folder.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        elapsed = round(time.monotonic() - started, 3)
        events = (
            Event(time_s=0.0, turn=1, who="main", kind="tool_use", text=" ".join(BUILD)),
            Event(time_s=elapsed, turn=1, who="main", kind="tool_result", text=done.stdout),
        )
        if done.returncode == 0:
            return Outcome(status=TrialStatus.COMPLETED, turns=1, events=events)
        tail = "\n".join(done.stdout.strip().splitlines()[-KEPT_LINES:])
        return Outcome(
            status=TrialStatus.AGENT_ERROR,
            detail=f"dbt exited with {done.returncode}:\n{tail}",
            turns=1,
            events=events,
        )
