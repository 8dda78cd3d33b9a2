"""Prints what the controls found: what is wrong first."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from stages.evaluate.controls.models import Outcome, Report, Tally


def show(report: Report, console: Console) -> None:
    """Print the report's tables and lists."""
    for outcome in report.wrong:
        console.print(f"[red]WRONG[/] {_line(outcome)}: ", end="")
        console.print(outcome.wrong, markup=False, highlight=False)
    controls = _table("control", report.controls)
    console.print(controls)
    must_fail = [tally for tally in report.mutants if not tally.must_pass]
    console.print(_table("mutant that must fail strictly", must_fail))
    console.print(_table("mutant that must pass", [it for it in report.mutants if it.must_pass]))
    made = sum(tally.made for tally in must_fail)
    console.print(
        f"{report.tasks} tasks, {report.tables} graded tables; of {made} mutants whose content "
        f"differs, the official score lets {len(report.let_through_officially)} through, the "
        f"strict score {len(report.let_through_strictly)}"
    )
    underived = sum(tally.underived for tally in report.mutants)
    if underived:
        console.print(f"{underived} official verdicts were not worked out: tables too large")
    for outcome in report.let_through_strictly:
        reason = outcome.explained or "unexplained"
        console.print(f"through strictly: {_line(outcome)}: {reason}", markup=False)
    _list("not made", report.not_made, console)
    _list("skipped", [f"{name}: {why}" for name, why in report.skipped.items()], console)
    console.print(f"{len(report.wrong)} wrong")


def _list(word: str, lines: Iterable[str], console: Console) -> None:
    for line in lines:
        console.print(f"{word}: {line}", markup=False, highlight=False)


def _line(outcome: Outcome) -> str:
    place = f"{outcome.instance_id} {outcome.table}".strip()
    return f"{place}: {outcome.kind}, {outcome.what}"


def _table(title: str, tallies: Iterable[Tally]) -> Table:
    table = Table(title)
    for name in ("made", "no change", "pass officially", "pass strictly", "wrong"):
        table.add_column(name, justify="right")
    for tally in tallies:
        wrong = f"[red]{tally.wrong}[/]" if tally.wrong else "0"
        table.add_row(
            tally.kind.value,
            str(tally.made),
            str(tally.no_change),
            str(tally.passed_officially),
            str(tally.passed_strictly),
            wrong,
        )
    return table
