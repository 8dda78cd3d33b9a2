"""Runs a module of this package from inside a sandbox, in the stack's environment and its clock."""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

from stages.common.files import CODE_ROOT
from stages.stack.clock import clock_environment
from stages.stack.dbt import DAY_VARIABLE, STACK_VARIABLE


def run_on_task_clock(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` under the stack's Python at the gold date that the sandbox names.

    Standard error is merged into standard output.
    """
    prefix = Path(os.environ[STACK_VARIABLE])
    day = datetime.date.fromisoformat(os.environ[DAY_VARIABLE])
    environment = {
        **os.environ,
        **clock_environment(prefix, day),
        "PYTHONPATH": str(CODE_ROOT),
    }
    return subprocess.run(
        [str(prefix / "bin" / "python"), "-P", "-m", module, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
