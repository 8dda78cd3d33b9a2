"""Writes the report's folder: front pages, a page and a trace a trial, and what they need."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from stages.common.files import write_text
from stages.report.models import RunSummary, TaskOutcome, TrialOutcome
from stages.report.site import overview, shown
from stages.report.site.files import RunFiles
from stages.report.site.fit import PAGE, Level, fit, room
from stages.report.site.libraries import write_libraries
from stages.report.site.page import fit_calls, fit_changes, key_names, page_context
from stages.report.site.payload import file_name, write_piece
from stages.report.site.timeline import make_timeline

HERE = Path(__file__).parent


def make_environment() -> Environment:
    """The templates: everything that they print is cleaned and escaped."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown.finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("seconds", "money", "count", "words", "cut", "one_line"):
        environment.filters[name] = getattr(shown, name)
    environment.filters["key_names"] = key_names
    environment.filters["urlencode_all"] = lambda text: quote(text, safe="@")
    environment.globals["STATES"] = overview.STATES
    return environment


def write_site(out: Path, run: RunSummary, others: Sequence[RunSummary] = ()) -> None:
    """Write the report on `run`, with `others` beside it, as the folder `out`.

    What was there is replaced. Runs with a results folder get a page and a trace for each
    trial; of the others the outcomes are shown. The same runs give the same bytes.
    """
    shutil.rmtree(out, ignore_errors=True)
    for path in sorted((HERE / "static").iterdir()):
        write_text(out / "assets" / path.name, path.read_text(encoding="utf-8"))
    write_libraries(out / "assets")
    views = [overview.view_run(each, slug) for each, slug in _slugs([run, *others])]
    pages = _Pages(out / "data", views)
    for view in views:
        pages.write_run(view)
    context = _front(views, pages)
    html = make_environment().get_template("index.html.j2").render(context)
    write_text(out / "index.html", html)


def _slugs(runs: Sequence[RunSummary]) -> list[tuple[RunSummary, str]]:
    """Each run with its part of an address: none for the first, which most links are for."""
    taken: dict[str, int] = {}
    found = []
    for number, run in enumerate(runs):
        slug = file_name(run.label) if number else ""
        taken[slug] = taken.get(slug, 0) + 1
        found.append((run, slug if taken[slug] == 1 else f"{slug}.{taken[slug]}"))
    return found


class _Pages:
    """Writes the pages of all trials, and remembers which there are."""

    def __init__(self, folder: Path, views: Sequence[overview.RunView]) -> None:
        self.folder = folder
        self.views = views
        self.room = room(sum(len(view.run.trials) for view in views))
        environment = make_environment()
        self.page = environment.get_template("page.html.j2")
        self.trace = environment.get_template("trace.html.j2")
        self.written: dict[str, dict[str, str]] = {}
        """By task and reference, the name of the page's piece."""
        self.instructions: dict[str, str] = {}

    def write_run(self, view: overview.RunView) -> None:
        """The pages of one run."""
        files = RunFiles(view.run.results)
        for task in view.run.tasks:
            known = files.tasks.get(task.instance_id)
            if known:
                self.instructions.setdefault(task.instance_id, known.instruction)
            for trial in task.trials or (None,):
                self._write_trial(view, task, trial, files)

    def _write_trial(
        self,
        view: overview.RunView,
        task: TaskOutcome,
        trial: TrialOutcome | None,
        files: RunFiles,
    ) -> None:
        number = trial.trial if trial else 0
        ref = overview.reference(number, view.slug)
        piece = (
            f"{f'of-{view.slug}' if view.slug else 'run'}/{file_name(task.instance_id)}-{number}"
        )
        name = task.instance_id
        context = page_context(view, task, trial, files, self.views)
        changes = files.changes(name, number) if trial else None
        calls = files.calls(name, number) if trial else []
        events = files.events(name, number) if trial else []

        def page(level: Level) -> str:
            return self.page.render(
                context,
                changes=None if changes is None else fit_changes(changes, level),
                calls=fit_calls(calls, level),
                trace=f"{piece}-trace" if events else "",
            )

        def trace(level: Level) -> str:
            line = make_timeline(events, level.text)
            return self.trace.render(line=line, path=f"runs/{name}/{number}/trace.json")

        packed = fit(page, int(self.room * PAGE))
        write_piece(self.folder, piece, packed)
        self.written.setdefault(name, {})[ref] = piece
        if events:
            left = self.room - len(packed)
            write_piece(
                self.folder, f"{piece}-trace", fit(trace, left, [event.text for event in events])
            )


def _front(views: Sequence[overview.RunView], pages: _Pages) -> dict[str, Any]:
    """What the front pages' template needs."""
    matrix = overview.make_matrix(views)
    index = {
        "tasks": [
            {
                "id": name,
                "first": next((cell.ref for cell in cells if cell.ref), ""),
                "pages": pages.written.get(name, {}),
                "state": cells[0].state,
                "text": shown.clean(pages.instructions.get(name, ""))[:600],
            }
            for name, cells in matrix
        ],
        "plots": overview.plot_data(views),
    }
    return {
        "views": views,
        "first": views[0],
        "matrix": matrix,
        "causes": overview.make_causes(views),
        "refs": {name: cells[0].ref for name, cells in matrix},
        "state": overview.state,
        "spent": overview.spent,
        "index": index,
    }
