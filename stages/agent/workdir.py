"""Makes a trial's project folder ready for its agent."""

from __future__ import annotations

import shutil
from pathlib import Path

from stages.agent.models import TrialFolder, TrialSpec
from stages.common.errors import UserError, reason
from stages.stack.inside import run_on_task_clock

SNAPSHOT = "reference_snapshot.md"

STALE = ("target", "partial_parse.msgpack", "logs")
"""Left in some projects by an earlier dbt of another version and on another day."""


def prepare(spec: TrialSpec, folder: TrialFolder) -> None:
    """Remove what an earlier dbt left, and write the reference snapshot.

    Raises:
        UserError: the start database cannot be read by the stack's DuckDB.
    """
    for name in STALE:
        remove(folder.project / name)
    database = folder.project / spec.database
    done = run_on_task_clock("stages.stack.snapshot", str(database), str(folder.project / SNAPSHOT))
    if done.returncode != 0:
        raise UserError(
            f"the start database cannot be read by the stack's DuckDB: {reason(done.stdout)}",
            where=f"{spec.instance_id}: {spec.database}",
            remedy="choose a stack whose DuckDB opens it (`-S stack=…`), or mend the file",
        )


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
