"""The dates stage: `python -m stages.dates [--gold DIR --out FILE [--fallback DAY]]`."""

from __future__ import annotations

import argparse
import datetime
from collections import Counter
from pathlib import Path

from rich.table import Table

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.params import load_params
from stages.dates.find import find_in_gold, find_in_suite
from stages.dates.models import DateStatus, Evidence, GoldDate, write_gold_dates
from stages.dates.rebuild.suite import prove_dates
from stages.suite.models import read_audit, read_tasks

TASKS = Path("results/suite/tasks.json")
AUDIT = Path("results/suite_audit.json")
DATES = Path("data/gold_build_dates.json")
DETAILS = Path("results/dates.json")
PINNED = datetime.date(2024, 9, 8)
"""The fallback where `--gold` is used away from any params.yaml."""


def run(arguments: list[str] | None = None) -> int:
    """Find the dates of the suite, or of any folder of gold databases, and write both files."""
    parser = argparse.ArgumentParser(prog="python -m stages.dates", description=__doc__)
    parser.add_argument("--gold", type=Path, help="a folder with one folder of gold a task")
    parser.add_argument("--out", type=Path, help="the map's file; dates.json is written beside it")
    parser.add_argument(
        "--fallback", type=_day, help="the day for gold that tells none; default: params.yaml's"
    )
    given = parser.parse_args(arguments)
    if given.gold is None and given.out is None:
        if not AUDIT.is_file():
            raise UserError(f"no {AUDIT} here", remedy="python -m stages.suite")
        params, audit = load_params(), read_audit(AUDIT)
        dates = find_in_suite(audit, given.fallback or params.dates.fallback)
        if params.dates.rebuild and TASKS.is_file():
            dates = prove_dates(
                dates,
                read_tasks(TASKS),
                audit,
                params.suite.gold_stack,
                params.dates.rebuild_s,
            )
        write_gold_dates(DATES, DETAILS, dates)
    elif given.gold is None or given.out is None:
        raise UserError("--gold and --out go together", remedy="give both, or neither")
    else:
        details = given.out.with_name("dates.json")
        if details == given.out:
            raise UserError(
                f"{given.out} is the name of the file with the evidence",
                remedy="give --out another name; dates.json is written beside it",
            )
        dates = find_in_gold(given.gold, given.fallback or _pinned())
        write_gold_dates(given.out, details, dates)
    _print(dates)
    return 0


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no day like 2024-09-08") from None


def _pinned() -> datetime.date:
    return load_params().dates.fallback if Path("params.yaml").is_file() else PINNED


def _print(dates: dict[str, GoldDate]) -> None:
    table = Table("task", "date", "status", "evidence")
    for task, found in dates.items():
        shown = _short(found.evidence) or found.note
        if found.rebuild is not None and found.rebuild.clock_models:
            models = found.rebuild.clock_models
            more = f" and {len(models) - 1} more" if len(models) > 1 else ""
            shown = f"rebuilt: {models[0]}{more} on {len(found.rebuild.tried)} days; {shown}"
        table.add_row(task, found.date.isoformat(), found.status, shown)
    console = make_console()
    console.print(table)
    count = Counter(found.status for found in dates.values())
    console.print(", ".join(f"{count[status]} {status}" for status in DateStatus if count[status]))


def _short(evidence: tuple[Evidence, ...]) -> str:
    first = {item.rule: item for item in reversed(evidence)}
    count = Counter(item.rule for item in evidence)
    return "; ".join(
        f"{rule}{f' x{count[rule]}' if count[rule] > 1 else ''}: "
        f"{first[rule].table}.{first[rule].column} {first[rule].value}"
        for rule in count
    )


if __name__ == "__main__":
    main(run)
