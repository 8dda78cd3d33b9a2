"""Ends a trial inside its sandbox: freezes the database's views, whatever became of the agent."""

from __future__ import annotations

import shutil

from stages.agent.models import TrialFolder, TrialSpec
from stages.common.errors import reason
from stages.common.files import write_json
from stages.stack.inside import run_on_task_clock


def finish(spec: TrialSpec, folder: TrialFolder, seconds: float) -> None:
    """Read each view once, on the task's clock and with the stack's DuckDB, into `frozen/`.

    A database that is gone or broken is the trial's result, so it is recorded, not raised.
    Then everything goes that is no result.
    """
    database = folder.project / spec.database
    if database.is_file():
        done = run_on_task_clock(
            "stages.stack.views", str(database), str(folder.frozen), str(seconds)
        )
        if done.returncode != 0:
            write_json(folder.frozen / "error.json", {"error": reason(done.stdout)})
    else:
        write_json(folder.frozen / "error.json", {"error": f"{spec.database} does not exist"})
    # Git's objects would double the project; what changed shows against the start project.
    for extra in (folder.home, folder.solution, folder.project / ".git"):
        shutil.rmtree(extra, ignore_errors=True)
