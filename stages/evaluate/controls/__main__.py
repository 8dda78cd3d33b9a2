"""`python -m stages.evaluate.controls`: does each control and mutant get the verdict it must get?

Without arguments for the suite of params.yaml, with `--gold`, `--start` and `--config` for any
folders. Writes a JSON report, and exits with 1 where a verdict is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.files import write_json
from stages.evaluate.controls.check import Found, Judge, check_task
from stages.evaluate.controls.models import Report, report
from stages.evaluate.controls.show import show
from stages.evaluate.controls.subjects import Candidate, of_folders, of_suite, subject
from stages.evaluate.score import judge

OUT = Path("results/controls.json")


def check(candidates: Sequence[Candidate], judging: Judge = judge) -> Report:
    """Run the controls and mutants of every task that can be scored.

    `judging` gives both verdicts on two tables.
    """
    found = Found()
    skipped: dict[str, str] = {}
    tasks = 0
    for candidate in candidates:
        chosen = subject(candidate)
        if isinstance(chosen, str):
            skipped[candidate.entry.instance_id] = chosen
            continue
        tasks += 1
        check_task(chosen, found, judging)
    return report(found.outcomes, tasks, found.tables, found.not_made, skipped)


def run(arguments: Sequence[str] | None = None, judging: Judge = judge) -> int:
    """Check, print, write the report; 1 where a verdict is wrong or nothing was checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gold", type=Path, help="one folder a task with its gold database")
    parser.add_argument("--start", type=Path, help="one folder a task with its start database")
    parser.add_argument("--config", type=Path, help="the evaluation config, spider2_eval.jsonl")
    parser.add_argument("--json", type=Path, default=OUT, help=f"the report (default: {OUT})")
    given = parser.parse_args(arguments)
    folders = [path for path in (given.gold, given.start, given.config) if path is not None]
    if len(folders) not in (0, 3):
        raise UserError(
            "--gold, --start and --config belong together",
            remedy="give all three, or none for the suite of params.yaml",
        )
    candidates = of_folders(*folders) if folders else of_suite()
    found = check(candidates, judging)
    write_json(given.json, found)
    show(found, make_console())
    if not found.tasks:
        raise UserError("no task can be scored, so that nothing was checked")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    main(run)
