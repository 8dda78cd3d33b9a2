"""Imports run one way, and what works inside a sandbox is all in the run key."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from stages.run.keys import IN_SANDBOX

FLOW = ("suite", "dates", "run", "evaluate", "report")
MAY_IMPORT = {
    "common": {"common"},
    "stack": {"common", "stack"},
    "agent": {"common", "stack", "agent"},
    "gateway": {"common", "gateway"},
    "relay": {"common", "relay"},
    "suite": {"common", "stack", "suite"},
    "dates": {"common", "stack", "suite", "dates"},
    "run": {"common", "stack", "agent", "relay", "suite", "dates", "run"},
    "evaluate": {"common", "stack", "suite", "dates", "run", "evaluate"},
    "report": {
        "common",
        "suite",
        "dates",
        "agent",
        "gateway",
        "relay",
        "run",
        "evaluate",
        "report",
    },
}
"""An agent knows nothing of gold, and evaluation nothing of agents. The report reads the files of
all, so it knows their records."""


def imported(path: Path) -> set[str]:
    """The packages below stages/ that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("stages.")}
    return found


def test_every_package_is_named_here(repository: Path) -> None:
    packages = {path.parent.name for path in (repository / "stages").glob("*/__init__.py")}
    assert packages == set(MAY_IMPORT)


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_never_run_against_the_flow(repository: Path, package: str) -> None:
    for path in (repository / "stages" / package).rglob("*.py"):
        assert imported(path) <= MAY_IMPORT[package], path


def test_no_module_is_too_long_to_hold_one_thing(repository: Path) -> None:
    long = {
        path.relative_to(repository).as_posix(): len(path.read_text().splitlines())
        for path in (repository / "stages").rglob("*.py")
    }
    assert {name: lines for name, lines in long.items() if lines > 400} == {}


def test_the_run_key_covers_every_module_that_a_sandbox_imports(repository: Path) -> None:
    program = (
        "import sys, stages.agent.__main__, stages.agent.nop, stages.agent.oracle\n"
        "import stages.agent.claude, stages.gateway.server\n"
        "import stages.stack.views, stages.stack.snapshot, stages.stack.dbt\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('stages.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=True
    )
    files = {
        Path(name).relative_to(repository / "stages").as_posix() for name in done.stdout.split()
    }
    assert "agent/workdir.py" in files
    missing = {
        name
        for name in files
        if not name.endswith("__init__.py")
        and not any(name == part or name.startswith(f"{part}/") for part in IN_SANDBOX)
    }
    assert missing == set()
