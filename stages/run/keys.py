"""Run keys: what a trial's outcome depends on, part by part."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stages.common.files import CODE_ROOT, digest_file, digest_text, digest_tree, walk
from stages.common.params import Component
from stages.run.models import RunKey
from stages.stack.environments import Stack
from stages.suite.models import Task

IN_SANDBOX = (
    "agent",
    "common/errors.py",
    "common/files.py",
    "common/sql.py",
    "gateway",
    "stack/bin",
    "stack/clock.py",
    "stack/dbt.py",
    "stack/inside.py",
    "stack/snapshot.py",
    "stack/views.py",
)
"""The code that works inside a sandbox, below stages/."""

NOT_PROJECT = (".git", ".DS_Store", "__pycache__")
"""Names that are no part of a task's project."""


@cache
def code_digest() -> str:
    """SHA-256 (hex) of the code that works inside a sandbox."""
    parts = []
    for name in IN_SANDBOX:
        path = CODE_ROOT / "stages" / name
        parts += [name, digest_tree(path, skip=NOT_PROJECT) if path.is_dir() else digest_file(path)]
    return digest_text(*parts)


def project_digest(project: Path) -> str:
    """SHA-256 (hex) of a task's project without its databases, which have a digest of their own."""
    databases = [path for path in walk(project) if path.suffix == ".duckdb"]
    return digest_tree(project, skip=NOT_PROJECT, leave_out=databases)


def settings_digest(settings: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of a mapping of plain values."""
    return digest_text(json.dumps(settings, sort_keys=True))


def client_versions() -> dict[str, str]:
    """The versions of what drives a language model."""
    return {name: version(name) for name in ("claude-agent-sdk", "mcp")}


def run_key(
    task: Task,
    trial: int,
    *,
    gold_date: datetime.date,
    agent: Mapping[str, Any],
    sandbox: Component,
    identity: Mapping[str, str],
    stack: Stack,
    solution: str | None,
    recording: Path | None,
    model: bool,
) -> RunKey:
    """The run key of one trial.

    Gold, the evaluation config, concurrency and paths are no part of it: they change no
    trial. `agent` is what builds the agent, its model, skills and gateway included, `identity`
    what the sandbox says of itself: its image's content, for example. `solution`
    is the known solution's digest where the agent is given it, `recording` the file that is
    played, `model` whether a language model is driven at all.
    """
    parts = {
        "task": task.instance_id,
        "trial": str(trial),
        "project": project_digest(task.project),
        "start_database": task.start_digest,
        "instruction": digest_text(task.instruction),
        "gold_date": gold_date.isoformat(),
        "agent": settings_digest(agent),
        "sandbox": settings_digest(sandbox.config()),
        "code": code_digest(),
        **{f"sandbox {name}": value for name, value in identity.items()},
        **{f"stack {package}": version for package, version in stack.versions.items()},
    }
    if solution is not None:
        parts["solution"] = solution
    if recording is not None:
        parts["recording"] = digest_file(recording)
    if model:
        parts |= client_versions()
    return RunKey(key=key_of(parts), parts=parts)


def key_of(parts: Mapping[str, str]) -> str:
    """SHA-256 (hex) over the named parts."""
    return digest_text(*(text for item in sorted(parts.items()) for text in item))
