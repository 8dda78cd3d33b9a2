"""The scores on a console."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stages.report.scores import Scores, TaskScore

CONTROL_NOTE = {
    "oracle": "oracle applies the known solutions: its score shows that the pipeline works.",
    "replay": "replay plays recordings back: its score shows that the pipeline works, and says "
    "nothing of a model.",
    "nop": "nop does nothing: its score shows what the start databases are worth.",
}
"""What the score of a control agent, or of a recording, means: said wherever it is printed."""


def print_scores(
    console: Console, scores: Scores, suite: str, agent: str, model: str | None
) -> None:
    """A line a task, the headline with its denominators, then the strict score beside it."""
    driven = f", model {model}" if model else ""
    table = Table(title=f"suite {suite}, agent {agent}{driven}", title_justify="left")
    table.add_column("task", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("tables", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for score in scores.tasks:
        table.add_row(
            score.instance_id,
            ", ".join(dict.fromkeys(score.statuses)) or "-",
            _verdict(score),
            f"{score.tables_passed}/{score.tables}" if score.statuses else "-",
            f"{score.elapsed_s:.1f} s" if score.statuses else "-",
            escape(score.reason),
        )
    console.print(table)
    console.print(scores.headline(), soft_wrap=True, highlight=False)
    console.print(scores.strict_line(), soft_wrap=True, highlight=False)
    for item in scores.disagreements:
        name = f"{item.instance_id}/{item.trial} {item.table}"
        console.print(f"  {escape(name)}: {escape(item.why)}", soft_wrap=True, highlight=False)
    if note := CONTROL_NOTE.get(model or agent):
        console.print(note, soft_wrap=True, style="dim")


def _verdict(score: TaskScore) -> str:
    if score.passed is None:
        return "[dim]unscored[/]"
    if not score.passed:
        return "[red]failed[/]"
    return "[green]passed[/]" if score.passed_officially else "[yellow]passed*[/]"
