"""The evaluate stage: `python -m stages.evaluate` writes results/verdicts.json."""

from __future__ import annotations

from pathlib import Path

from stages.common.errors import UserError, main
from stages.common.params import load_params
from stages.dates.models import read_gold_build_dates
from stages.evaluate.models import TaskVerdict, write_verdicts
from stages.evaluate.trials import Scope, score_trials
from stages.suite.models import read_audit

AUDIT = Path("results/suite_audit.json")
DATES = Path("data/gold_build_dates.json")
RUNS = Path("results/runs")
VERDICTS = Path("results/verdicts.json")


def run() -> int:
    """Score every trial in results/runs; trials that fail or cannot be scored are no error."""
    params = load_params()
    for path, stage in ((AUDIT, "suite"), (DATES, "dates")):
        if not path.is_file():
            raise UserError(
                f"no {path}", where=str(Path.cwd()), remedy=f"run the {stage} stage: `dvc repro`"
            )
    audit = {entry.instance_id: entry for entry in read_audit(AUDIT)}
    scope = Scope(
        runs=RUNS,
        audit=audit,
        tasks=sorted(audit) if params.tasks is None else params.tasks,
        trials=params.trials,
        dates=read_gold_build_dates(DATES),
        fallback=params.dates.fallback,
        gold_stack=params.suite.gold_stack,
    )
    verdicts: list[TaskVerdict] = []
    for verdict in score_trials(scope):
        print(_line(verdict), flush=True)
        verdicts.append(verdict)
    write_verdicts(VERDICTS, verdicts)
    counts = {word: sum(_word(item) == word for item in verdicts) for word in WORDS.values()}
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    for line in disagreements(verdicts):
        print(line)
    return 0


def disagreements(verdicts: list[TaskVerdict]) -> list[str]:
    """A line for each table on which the official and the strict verdict differ, and why."""
    return [
        f"disagree {verdict.instance_id}/{verdict.trial} {table.table}: {table.disagreement}"
        for verdict in verdicts
        for table in verdict.tables
        if table.disagreement is not None
    ]


WORDS = {True: "pass", False: "fail", None: "unscored"}


def _word(verdict: TaskVerdict) -> str:
    return WORDS[verdict.passed]


def _line(verdict: TaskVerdict) -> str:
    seen = f" [{', '.join(verdict.resolutions)}]" if verdict.resolutions else ""
    name = f"{verdict.instance_id}/{verdict.trial}"
    return f"{_word(verdict):8} {name}{seen}: {verdict.reason}"


if __name__ == "__main__":
    main(run)
