"""`python -m benchmarks.report [folder]`: a report of 68 tasks and 5 models, its size and speed."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.chromium import chromium, missing, opening_ms
from benchmarks.runs import make_runs
from stages.common.files import CODE_ROOT, walk
from stages.common.params import load_params
from stages.report.site import write_site


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in walk(folder))


def run() -> None:
    """Make up the runs, write the report, open it some times, and print what it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where to leave the report")
    parser.add_argument("--tasks", type=int, default=68)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--events", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out: Path = given.folder or Path(scratch) / "report"
        runs = make_runs(
            Path(scratch),
            load_params(CODE_ROOT / "params.yaml"),
            tasks=given.tasks,
            models=given.models,
            trials=given.trials,
            events=given.events,
        )
        started = time.monotonic()
        write_site(out, runs[0], runs[1:])
        print(
            f"written in {time.monotonic() - started:.1f} s; made up {size(Path(scratch)):,} bytes"
        )
        print(f"{size(out):,} bytes, of these data {size(out / 'data'):,}")
        if why := missing():
            print(f"not opened: {why}")
            return
        with chromium() as driver:
            times = [opening_ms(driver, (out / "index.html").resolve()) for _ in range(5)]
        print(f"usable after {statistics.median(times):.0f} ms (median of 5: {times})")


if __name__ == "__main__":
    run()
