"""The report stage: `python -m stages.report`; with `--print` it only prints."""

from __future__ import annotations

import argparse
from pathlib import Path

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.files import write_json
from stages.common.params import Params, load_params
from stages.evaluate.models import read_verdicts
from stages.report.console import print_scores
from stages.report.scores import Scores, make_scores
from stages.report.summary import read_results
from stages.suite.models import read_audit

RESULTS = Path("results")


def read_scores(params: Params, folder: Path = RESULTS) -> Scores:
    """The scores of the run that lies in `folder`; raises `UserError` where none does."""
    verdicts = folder / "verdicts.json"
    if not verdicts.is_file():
        raise UserError("there is no scored run yet", where=str(verdicts), remedy="make run")
    audit = read_audit(folder / "suite_audit.json")
    return make_scores(audit, read_verdicts(verdicts), read_results(folder), params.tasks)


def run() -> int:
    """Write metrics and plot, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m stages.report", description=__doc__)
    parser.add_argument("--print", action="store_true", help="write nothing")
    only_print: bool = parser.parse_args().print
    params = load_params()
    scores = read_scores(params)
    if not only_print:
        write_json(RESULTS / "metrics.json", scores.metrics())
        write_json(RESULTS / "tasks.json", scores.by_task())
        write_json(RESULTS / "plots" / "tables.json", scores.plot())
    print_scores(make_console(), scores, params)
    return 0


if __name__ == "__main__":
    main(run)
