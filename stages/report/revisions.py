"""Reads a run from the workspace, a git revision or an experiment, through DVC."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dvc.api import DVCFileSystem
from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc.scm import RevError

from stages.common.errors import UserError
from stages.common.files import project_root
from stages.common.params import load_params
from stages.report.models import RunSummary
from stages.report.summary import WORKSPACE, read_summary

FILES = ("params.yaml", "results/verdicts.json", "results/suite_audit.json")
RUNS = "results/runs"


def read_run(name: str) -> RunSummary:
    """The run of a revision, an experiment, or of the workspace.

    Raises:
        UserError: there is no such revision, or it holds no scored run, or one whose files are
            no longer in DVC's cache.
    """
    if name == WORKSPACE:
        folder = Path("results")
        if not (folder / "verdicts.json").is_file():
            raise UserError("there is no scored run in the workspace", remedy="make run")
        return read_summary(load_params(), folder)
    with _checked_out(name) as folder:
        summary = read_summary(load_params(folder / "params.yaml"), folder / "results", name)
    return summary.model_copy(update={"results": None})


def experiments() -> list[str]:
    """The names of all experiments that DVC knows, by name."""
    with Repo(str(project_root())) as repo:
        found = repo.experiments.ls(all_commits=True)
    return sorted({name for entries in found.values() for name, _ in entries})


@contextmanager
def _checked_out(name: str) -> Iterator[Path]:
    """The few small files of a revision that a comparison reads, in a temporary folder."""
    target = Path(tempfile.mkdtemp(prefix="spider2-compare-"))
    try:
        _fetch(name, target)
        yield target
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _fetch(name: str, target: Path) -> None:
    try:
        there = DVCFileSystem(str(project_root()), rev=name)
        found = [f"/{path}" for path in FILES]
        found += list(there.glob(f"/{RUNS}/*/*/task_result.json"))
        for path in found:
            place = target / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(there.read_bytes(path))
    except RevError:
        raise UserError(
            f"there is no revision or experiment {name!r}",
            remedy=f"`dvc exp show` and `git log` list them; the present one is {WORKSPACE!r}",
        ) from None
    except (DvcException, OSError) as error:
        raise UserError(
            f"{name!r} holds no scored run that can be read: {error}",
            remedy="a run is read from what `dvc.lock` of that revision names: commit it with "
            "`git add dvc.lock results`, or `dvc pull` where its cache is elsewhere",
        ) from None
