"""Runs things in a stack's environment, on the task's clock, in a scrubbed environment."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stages.common.errors import UserError, reason
from stages.common.files import CODE_ROOT
from stages.stack.clock import clock_environment
from stages.stack.dbt import DAY_VARIABLE, STACK_VARIABLE
from stages.stack.environments import Stack

WRAPPER = CODE_ROOT / "stages" / "stack" / "bin"
"""The folder of the dbt wrapper; it stands first on PATH."""


def stack_environment(stack: Stack, day: datetime.date, home: Path) -> dict[str, str]:
    """The whole environment of a process sandbox: nothing of the caller's is passed on."""
    return sandbox_environment(stack.prefix, day, home, WRAPPER)


def sandbox_environment(
    prefix: Path, day: datetime.date, home: Path, wrapper: Path
) -> dict[str, str]:
    """The whole environment of a sandbox that has its stack at `prefix`.

    `home` takes HOME and temporary files, so that no state outlives the sandbox; `wrapper` is
    the folder of the dbt wrapper, which comes before the stack's own dbt.
    """
    return {
        "PATH": os.pathsep.join((str(wrapper), str(prefix / "bin"), "/usr/bin", "/bin")),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "DO_NOT_TRACK": "1",
        "DBT_NO_VERSION_CHECK": "1",
        # The one that dbt itself reads: a project may demand a dbt that the stack is not.
        "DBT_VERSION_CHECK": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
        STACK_VARIABLE: str(prefix),
        DAY_VARIABLE: day.isoformat(),
    }


def run_bounded(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a command in its own process group; at the limit the whole group is killed.

    Standard error is merged into standard output. A command that ran into the limit comes
    back with return code -9 and a last line that says so.
    """
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\nkilled: not done after {timeout_s:g} s\n"
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return subprocess.CompletedProcess(list(command), process.returncode, output, "")


def run_dbt(
    stack: Stack,
    project: Path,
    arguments: Sequence[str],
    *,
    day: datetime.date,
    timeout_s: float = 600,
) -> subprocess.CompletedProcess[str]:
    """Run the stack's dbt in a project's folder, at `day` 12:00:00 UTC.

    Standard output and error come back together in `stdout`.
    """
    home = Path(tempfile.mkdtemp(prefix="spider2-home-"))
    try:
        return run_bounded(
            [str(WRAPPER / "dbt"), *arguments],
            cwd=project,
            environment=stack_environment(stack, day, home),
            timeout_s=timeout_s,
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)


def freeze_views(
    stack: Stack, database: Path, out: Path, day: datetime.date, *, timeout_s: float = 600
) -> None:
    """Read every view of a database once, at `day` under the stack's DuckDB, into `out`.

    Writes `out/views.duckdb` (a table a view) and `out/views.json` (one finding a view).

    Raises:
        UserError: the file cannot be read at all by the stack's DuckDB.
    """
    home = Path(tempfile.mkdtemp(prefix="spider2-home-"))
    environment = stack_environment(stack, day, home)
    environment |= clock_environment(stack.prefix, day) | {"PYTHONPATH": str(CODE_ROOT)}
    program = [str(stack.python), "-P", "-m", "stages.stack.views"]
    try:
        done = run_bounded(
            [*program, str(database.resolve()), str(out.resolve()), str(timeout_s)],
            cwd=home,
            environment=environment,
            timeout_s=timeout_s + 60,
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if done.returncode != 0:
        raise UserError(
            f"the views of {database.name} cannot be read with DuckDB "
            f"{stack.versions['duckdb']} of stack {stack.name!r}: {reason(done.stdout)}",
            where=str(database),
            remedy="use a stack whose DuckDB opens this file (`stack` in params.yaml)",
        )
