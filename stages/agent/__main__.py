"""The sandbox's two commands: `python -m stages.agent solve` and `… finish SECONDS`.

Both run in the trial's folder, which holds `spec.json` and `project/`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hydra.utils import instantiate

from stages.agent.finish import finish
from stages.agent.models import UNFINISHED, Agent, TrialFolder, TrialSpec, TrialStatus
from stages.agent.workdir import prepare
from stages.common.errors import main


def run() -> int:
    """Carry out the command on the command line."""
    folder = TrialFolder(Path.cwd())
    spec = TrialSpec.read(folder.spec)
    if sys.argv[1] == "finish":
        finish(spec, folder, float(sys.argv[2]))
        return 0
    prepare(spec, folder)
    agent: Agent = instantiate(spec.agent)
    os.chdir(folder.project)
    outcome = agent.solve(spec, folder)
    outcome.write(folder.outcome)
    return UNFINISHED if outcome.status is TrialStatus.INFRA_ERROR else 0


if __name__ == "__main__":
    main(run)
