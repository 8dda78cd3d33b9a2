"""The dbt command of a sandbox: the stack's dbt, on the task's clock where the clock matters.

Standard library only: it runs under the stack's Python.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from stages.stack.clock import clock_environment

STACK_VARIABLE = "SPIDER2_STACK"
DAY_VARIABLE = "SPIDER2_GOLD_DATE"

ON_TASK_CLOCK = frozenset(
    {
        "run",
        "build",
        "compile",
        "seed",
        "snapshot",
        "test",
        "run-operation",
        "show",
        "retry",
        "clone",
    }
)
"""Subcommands that evaluate SQL or Jinja whose outcome can depend on the day."""

TAKES_VALUE = frozenset(
    {
        "--defer-state",
        "--deprecated-defer",
        "--deprecated-favor-state",
        "--deprecated-state",
        "--event-time-end",
        "--event-time-start",
        "--indirect-selection",
        "--log-file-max-bytes",
        "--log-format",
        "--log-format-file",
        "--log-level",
        "--log-level-file",
        "--log-path",
        "--partial-parse-file-path",
        "--printer-width",
        "--profile",
        "--profiles-dir",
        "--project-dir",
        "--record-timing-info",
        "--resource-type",
        "--state",
        "--target",
        "--target-path",
        "--threads",
        "--upload-to-artifacts-ingest-api",
        "--vars",
        "--warn-error-options",
        "-r",
        "-t",
    }
)
"""Options before the subcommand whose next word is their value, not the subcommand."""


def subcommand(arguments: Sequence[str]) -> str | None:
    """The dbt subcommand in `arguments`, past any global flags; None where there is none."""
    words = iter(arguments)
    for word in words:
        if word in TAKES_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def vendored_packages(arguments: Sequence[str], folder: Path) -> list[str]:
    """The packages already lying in the project's `dbt_packages/`, by folder name."""
    project = folder
    for position, word in enumerate(arguments):
        if word == "--project-dir" and position + 1 < len(arguments):
            project = folder / arguments[position + 1]
        elif word.startswith("--project-dir="):
            project = folder / word.partition("=")[2]
    packages = project / "dbt_packages"
    if not packages.is_dir():
        return []
    return sorted(path.name for path in packages.iterdir() if (path / "dbt_project.yml").is_file())


def main() -> int:
    """Replace this process by the stack's dbt; returns only where there is nothing to run.

    `deps` leaves vendored packages alone: it would delete them and then fail offline.
    """
    given = sys.argv[1:]
    prefix, day = os.environ.get(STACK_VARIABLE), os.environ.get(DAY_VARIABLE)
    if not prefix or not day:
        print(f"dbt: {STACK_VARIABLE} and {DAY_VARIABLE} must be set", file=sys.stderr)
        return 2
    command = subcommand(given)
    if command == "deps" and (packages := vendored_packages(given, Path.cwd())):
        print(f"Packages are installed already, nothing to fetch: {', '.join(packages)}")
        return 0
    environment = dict(os.environ)
    if command in ON_TASK_CLOCK:
        environment.update(clock_environment(Path(prefix), datetime.date.fromisoformat(day)))
    program = str(Path(prefix) / "bin" / "dbt")
    return os.execve(program, [program, *given], environment)
