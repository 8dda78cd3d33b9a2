"""Exports a scored run: `python -m stages.report.export --format spider2|inspect|csv|parquet`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.files import CODE_ROOT, cache_root
from stages.common.params import load_params
from stages.report.export.read import Note, clean, read_run
from stages.report.export.rows import write_rows
from stages.report.export.spider2 import write_spider2
from stages.suite.storage import OLDEST

FORMATS = ("spider2", "inspect", "csv", "parquet")


def run() -> int:
    """Write the export, and say where it is and what is to be known of it."""
    given = _arguments(sys.argv[1:])
    chosen: str = given.format
    if chosen == "inspect" and importlib.util.find_spec("inspect_ai") is None:
        return _run_apart(sys.argv[1:])
    out: Path = given.out or given.results / "export" / chosen
    found = read_run(load_params(), given.results)
    notes: list[Note]
    if chosen == "spider2":
        notes = write_spider2(found, out, given.trial, given.storage)
    elif chosen == "inspect":
        from stages.report.export.inspect_log import write_inspect

        notes = write_inspect(found, out)
    else:
        notes = write_rows(found, out, "csv" if chosen == "csv" else "parquet")
    _report(make_console(), out, notes)
    return 0


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m stages.report.export", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--out", type=Path, help="default: results/export/<format>")
    parser.add_argument("--results", type=Path, default=Path("results"), help="the run's folder")
    parser.add_argument(
        "--trial", type=int, default=0, help="spider2: which trial of each task (default 0)"
    )
    parser.add_argument(
        "--storage",
        default=OLDEST,
        help=f"spider2: DuckDB storage version of what is written anew (default {OLDEST})",
    )
    return parser.parse_args(arguments)


def _run_apart(arguments: list[str]) -> int:
    """Export in the environment that has Inspect; raises `UserError` where there is none.

    Inspect and DVC ask for different versions of the same packages, so it has its own.
    """
    place = cache_root() / "extras" / "inspect"
    python = place / "bin" / "python"
    here = Path(sys.prefix).resolve() == place.resolve()
    if here or not (python.is_file() and list(place.glob("lib/*/site-packages/inspect_ai"))):
        lock = CODE_ROOT / "extras" / "inspect.lock"
        uv = Path(sys.executable).with_name("uv")
        path, file, program, own = (
            _short(item) for item in (place, lock, uv, Path(sys.executable))
        )
        raise UserError(
            "Inspect AI is not installed: it is an optional extra, in an environment of its own",
            where=str(place),
            remedy=f"{program} venv --allow-existing -p {own} {path} && "
            f"{program} pip sync --require-hashes -p {path} {file}",
        )
    command = [str(python), "-m", "stages.report.export", *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(CODE_ROOT)}).returncode


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _report(console: Console, out: Path, notes: list[Note]) -> None:
    for note in notes:
        console.print(clean(str(note)), soft_wrap=True, markup=False, highlight=False)
    console.print(f"written: {out}", soft_wrap=True, markup=False)


if __name__ == "__main__":
    main(run)
