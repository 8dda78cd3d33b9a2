"""The scores on a console."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stages.common.params import Params
from stages.relay.config import Mode
from stages.report.scores import Scores, TaskScore

CONTROL_NOTES = {
    "oracle": "oracle applies the known solutions: its score shows that the pipeline works.",
    "nop": "nop does nothing: its score shows what the start databases are worth.",
}


def control_note(params: Params) -> str:
    """What the score of a control agent, or of a recording, does not say; printed wherever it is.

    Empty for an agent that is measured.
    """
    if params.agent.needs_model and params.model.relay.get("mode") == Mode.PLAY:
        return (
            f"{params.model.name} plays recordings back: its score shows that the pipeline works, "
            "and says nothing of a model."
        )
    return CONTROL_NOTES.get(params.agent.name, "")


def print_scores(console: Console, scores: Scores, params: Params) -> None:
    """A line a task, the headline with its denominators, then the strict score beside it."""
    driven = f", model {params.model.name}" if params.agent.needs_model else ""
    title = f"suite {params.suite.name}, agent {params.agent.name}{driven}"
    table = Table(title=title, title_justify="left")
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
    if note := control_note(params):
        console.print(note, soft_wrap=True, style="dim")


def _verdict(score: TaskScore) -> str:
    if score.passed is None:
        return "[dim]unscored[/]"
    if score.flaky:
        return f"[red]failed[/] {score.trials_passed}/{score.trials_scored}"
    if not score.passed:
        return "[red]failed[/]"
    return "[green]passed[/]" if score.passed_officially else "[yellow]passed*[/]"
