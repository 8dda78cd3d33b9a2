"""The trial store: finished trials under their run key, whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from stages.common.files import cache_root, walk
from stages.common.links import link_tree
from stages.run.models import TaskResult

RESULT = "task_result.json"


class TrialStore:
    """Finished trials at `<root>/<run key>/`; a key that is there is complete."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_root() / "trials"

    def find(self, key: str, budget_usd: float | None = None) -> Path | None:
        """The folder of a finished trial, or None.

        One that a budget ended is found only under a `budget_usd` for one trial that is no
        larger: with more money it would have gone on.
        """
        folder = self.root / key
        if not (folder / RESULT).is_file():
            return None
        ended_by = TaskResult.read(folder / RESULT).budget_usd
        if ended_by is not None and (budget_usd is None or budget_usd > ended_by):
            return None
        return folder

    def publish(self, folder: Path, key: str) -> Path:
        """Move a finished trial's folder into the store by one rename.

        Where another run has published the same key meanwhile, that one stays, unless a smaller
        budget had ended it. Files are made read-only: `results/runs` may share them.
        """
        for path in walk(folder):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o555)
        self.root.mkdir(parents=True, exist_ok=True)
        place = self.root / key
        budget = TaskResult.read(folder / RESULT).budget_usd
        if place.exists() and self.find(key, budget) is None:
            shutil.rmtree(place)
        try:
            folder.rename(place)
        except OSError:
            if self.find(key, budget) is None:
                raise
            shutil.rmtree(folder)
        return place

    def link(self, key: str, target: Path) -> None:
        """Make a finished trial appear at `target` without a second copy where possible."""
        link_tree(self.root / key, target)

    def results(self) -> Iterator[TaskResult]:
        """The result of every finished trial, newest first."""
        files = self.root.glob(f"*/{RESULT}")
        for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True):
            yield TaskResult.read(path)
