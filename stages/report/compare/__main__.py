"""`make compare A=… B=…`: is run B better than run A? `python -m stages.report.compare A B`.

A and B are git revisions, experiments, or `workspace`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from stages.common.console import make_console
from stages.common.errors import UnknownChoiceError, main
from stages.common.files import write_json
from stages.report.compare.compare import Comparison, compare
from stages.report.models import RunSummary
from stages.report.revisions import read_run
from stages.report.statistics import Interval, Rate

FAILED = 2
"""Exit code of a comparison that was told to fail on what it found."""


def run(arguments: list[str] | None = None) -> int:
    """Compare, print, and by option fail: for CI."""
    parser = argparse.ArgumentParser(prog="python -m stages.report.compare", description=__doc__)
    parser.add_argument("a", help="a git revision, an experiment, or workspace")
    parser.add_argument("b", help="what is compared with it")
    parser.add_argument(
        "--fail-on-regression", action="store_true", help="exit 2 where B is significantly worse"
    )
    parser.add_argument(
        "--fail-on-flip", metavar="TASK,…", help="exit 2 where one of these flips; * for any task"
    )
    parser.add_argument("--json", type=Path, help="also write the comparison to this file")
    given = parser.parse_args(arguments)
    a, b = read_run(given.a), read_run(given.b)
    watched = _watched(given.fail_on_flip, a, b)
    found = compare(a, b)
    console = make_console()
    print_comparison(console, found)
    if given.json:
        write_json(given.json, found)
    flipped = [flip.instance_id for flip in found.flips if flip.instance_id in watched]
    if flipped:
        console.print(f"failed: {', '.join(flipped)} flipped", soft_wrap=True, markup=False)
        return FAILED
    if given.fail_on_regression and found.significant and found.lost > found.gained:
        console.print("failed: a significant regression")
        return FAILED
    return 0


def _watched(given: str | None, a: RunSummary, b: RunSummary) -> set[str]:
    known = {task.instance_id for run in (a, b) for task in run.tasks}
    if given is None:
        return set()
    if given == "*":
        return known
    for name in given.split(","):
        if name not in known:
            raise UnknownChoiceError("task", name, known, where="--fail-on-flip")
    return set(given.split(","))


def print_comparison(console: Console, found: Comparison) -> None:
    """The choices that differ, the flips with their causes, the numbers, and the sentence."""
    if found.settings:
        chosen = Table("chosen", found.a, found.b, box=None)
        for name, values in found.settings.items():
            chosen.add_row(name, *values)
        console.print(chosen)
    else:
        console.print("Nothing was chosen differently.")
    console.print()
    if found.flips:
        flips = Table("task", "", found.a, found.b, box=None)
        for flip in found.flips:
            flips.add_row(
                flip.instance_id,
                "[green]gained[/]" if flip.passed_in_b else "[red]lost[/]",
                _side(flip.trials_a, flip.causes_a),
                _side(flip.trials_b, flip.causes_b),
            )
        console.print(flips)
        console.print()
    numbers = Table("", found.a, found.b, "difference (95 %)", box=None)
    numbers.add_row("tasks passed", _rate(found.rate_a), _rate(found.rate_b), "")
    numbers.add_row("share of trials passed", "", "", _interval(found.trial_rate, "{:+.3f}"))
    numbers.add_row("dollars a task", "", "", _interval(found.cost_usd, "{:+.4f}"))
    numbers.add_row("seconds a task", "", "", _interval(found.elapsed_s, "{:+.1f}"))
    console.print(numbers)
    for label, names in ((found.a, found.only_in_a), (found.b, found.only_in_b)):
        if names:
            console.print(f"scored in {label} alone: {', '.join(names)}", soft_wrap=True)
    console.print()
    console.print(found.sentence(), soft_wrap=True, highlight=False, markup=False)


def _side(trials: str, causes: tuple[str, ...]) -> str:
    return f"{trials} {', '.join(causes)}".strip()


def _rate(value: Rate) -> str:
    share = f"{value.value:.1%}" if value.value is not None else "-"
    return f"{value.part}/{value.whole} ({share}, {value.low:.1%} to {value.high:.1%})"


def _interval(value: Interval | None, form: str) -> str:
    if value is None:
        return "-"
    return f"{form.format(value.mean)} ({form.format(value.low)} to {form.format(value.high)})"


if __name__ == "__main__":
    main(run)
