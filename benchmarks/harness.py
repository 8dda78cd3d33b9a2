"""What the pipeline itself costs: the starter suite with the agent `nop`, in a clone."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from benchmarks.clone import call
from benchmarks.ratio import Ratio
from stages.run.models import TaskResult

FEW = "tasks=[courier001,museum001,shelter001,toolshed001]"
NOP = ("dvc", "exp", "run", "-S", "agent=nop")
ANEW = ("--force", "--single-item", "run")


def measure(root: Path) -> list[Ratio]:
    """The ratios, in the clone at `root`."""
    call(root, *NOP)
    nothing = call(root, "dvc", "repro")
    shutil.rmtree(root / ".cache" / "trials")
    one = call(root, *NOP, "-S", "concurrency.max_workers=1", *ANEW)
    shutil.rmtree(root / ".cache" / "trials")
    three = call(root, *NOP, *ANEW)
    reused = call(root, *NOP, *ANEW)
    # The other stack, since its databases are like none that DVC's cache already has.
    call(root, "dvc", "exp", "run", "-S", "agent=oracle", "-S", "stack=spider2", "-S", FEW)
    disk, single = disk_use(root)
    return [
        Ratio(what="a database in store, cache and results", part=disk, whole=single, unit="bytes"),
        Ratio(what="3 workers to 1 worker, nop", part=three, whole=one, unit="s"),
        Ratio(what="dvc repro with nothing to do to a run", part=nothing, whole=three, unit="s"),
        Ratio(what="all trials reused to all trials run", part=reused, whole=three, unit="s"),
    ]


def disk_use(root: Path) -> tuple[int, int]:
    """Bytes of the trials' databases on disk, and what one copy of each would take.

    Looked at are the trial store, DVC's cache and the workspace; a file that several of them
    share through a hard link counts once. (A file system with reflinks shares blocks between
    files that this counts apart.)
    """
    found: dict[int, int] = {}
    single = 0
    for path in sorted((root / "results" / "runs").glob("*/*/task_result.json")):
        result = TaskResult.read(path)
        shown = path.parent / "project" / result.database
        digest = hashlib.md5(shown.read_bytes()).hexdigest()
        cached = root / ".dvc" / "cache" / "files" / "md5" / digest[:2] / digest[2:]
        stored = root / ".cache" / "trials" / result.run_key / "project" / result.database
        for file in (shown, cached, stored):
            found[file.stat().st_ino] = file.stat().st_size
        single += shown.stat().st_size
    return sum(found.values()), single
