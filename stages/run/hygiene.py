"""Work directories of this run, and the removal of what a killed run left behind."""

from __future__ import annotations

import datetime
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from stages.common.files import cache_root
from stages.run.sandbox import Sandbox


def work_root() -> Path:
    """Where work directories lie: beside the store, so that finishing is a rename."""
    return cache_root() / "work"


@contextmanager
def run_folder(sandbox: Sandbox) -> Iterator[tuple[str, Path]]:
    """A run's id and its folder for work directories, removed at the end however it comes.

    The folder's lock is held as long as this process lives, so that the next start can tell
    a running run from one that was killed.
    """
    now = datetime.datetime.now(datetime.UTC)
    run_id = f"{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    folder = work_root() / run_id
    folder.mkdir(parents=True)
    lock = FileLock(_lock(folder))
    lock.acquire(timeout=0)
    try:
        yield run_id, folder
    finally:
        sandbox.cleanup(run_id)
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        _lock(folder).unlink(missing_ok=True)


def remove_leftovers(sandbox: Sandbox) -> int:
    """End and delete what killed runs have left, here and in the sandbox's engine; how many runs.

    A run whose folder is locked is alive, and left alone.
    """
    count = 0
    for run_id in sorted({path.name for path in work_root().glob("*/")} | sandbox.runs()):
        folder = work_root() / run_id
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(_lock(folder))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        sandbox.cleanup(run_id)
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        _lock(folder).unlink(missing_ok=True)
        count += 1
    return count


def _lock(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")
