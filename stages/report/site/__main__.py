"""`make report`: writes results/report/ from the workspace and all experiments.

`python -m stages.report.site [--alone]`
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.params import load_params
from stages.report.models import RunSummary
from stages.report.revisions import experiments, read_run
from stages.report.site.write import write_site
from stages.report.summary import WORKSPACE

OUT = Path("results/report")


def run() -> int:
    """Write the report; an experiment that cannot be read is told, and left out."""
    parser = argparse.ArgumentParser(prog="python -m stages.report.site", description=__doc__)
    parser.add_argument("--alone", action="store_true", help="the workspace's run alone")
    alone: bool = parser.parse_args().alone
    console = make_console()
    ours = read_run(WORKSPACE)
    others = [] if alone else list(_others(ours, console))
    write_site(OUT, ours, others)
    console.print(f"the report is {OUT / 'index.html'}", soft_wrap=True)
    return 0


def _others(ours: RunSummary, console: Console) -> Iterator[RunSummary]:
    """The experiments of the same suite, each run once: one that is in the workspace is ours."""
    for name in experiments():
        try:
            other = read_run(name)
        except UserError as error:
            console.print(f"left out {name}: {error.what}", soft_wrap=True, markup=False)
            continue
        if other.suite == load_params().suite.name and other.tasks != ours.tasks:
            yield other


if __name__ == "__main__":
    main(run)
