"""One task without DVC: run it, score it, print. `python -m stages.task TASK [override …]`.

Works in a folder of its own below `.cache/task/`, with the stages' own commands; it shares the
trial store, so a trial that is finished is not run again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from stages.common.compose import compose
from stages.common.errors import UnknownChoiceError, main
from stages.common.files import CODE_ROOT, cache_root, project_root

STAGES = ("suite", "dates", "run", "evaluate", "report")


def suites() -> dict[str, Path]:
    """The suites of conf/ by name, with their root folders."""
    found = {}
    for path in sorted((CODE_ROOT / "conf" / "suite").glob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        found[path.stem] = Path((content.get("suite") or content)["root"])
    return found


def suite_of(task: str) -> str:
    """The first suite that has a task; raises `UnknownChoiceError` with all tasks there are."""
    known: set[str] = set()
    for name, root in suites().items():
        examples = CODE_ROOT / root / "examples"
        tasks = {path.name for path in examples.glob("*/")} if examples.is_dir() else set()
        if task in tasks:
            return name
        known |= tasks
    raise UnknownChoiceError("task", task, known)


def run(arguments: list[str] | None = None) -> int:
    """Carry out the command line; the exit code of the first stage that fails, else 0."""
    parser = argparse.ArgumentParser(prog="python -m stages.task", description=__doc__)
    parser.add_argument("task")
    parser.add_argument("overrides", nargs="*", help="as for -S, model=claude-sonnet-4-6 for one")
    given = parser.parse_args(arguments)
    overrides = list(given.overrides)
    if not any(item.startswith("suite=") for item in overrides):
        overrides.insert(0, f"suite={suite_of(given.task)}")
    folder = cache_root() / "task" / given.task
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "data").mkdir(parents=True)
    for path in sorted((CODE_ROOT / "data").glob("*/")):
        if path.name != "built":
            (folder / "data" / path.name).symlink_to(path)
    for name in ("stacks", "conf"):
        (folder / name).symlink_to(CODE_ROOT / name)
    compose(folder / "params.yaml", [*overrides, f"tasks=[{given.task}]"])
    environment = {
        **os.environ,
        "DVC_ROOT": str(project_root()),
        "PYTHONPATH": str(CODE_ROOT),
    }
    for stage in STAGES:
        # What the first two find on all tasks is no news here.
        quiet = stage in ("suite", "dates")
        done = subprocess.run(
            [sys.executable, "-m", f"stages.{stage}"],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL if quiet else None,
        )
        if done.returncode and stage != "run":
            return done.returncode
    print(f"everything is in {folder / 'results'}")
    return 0


if __name__ == "__main__":
    main(run)
