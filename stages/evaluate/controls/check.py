"""Runs the controls and mutants of one task, and holds each verdict against what it must be."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from stages.evaluate.controls import expected
from stages.evaluate.controls.models import Control, Kind, Outcome
from stages.evaluate.controls.mutate import Mutator
from stages.evaluate.controls.numbered import Mutation, Numbered
from stages.evaluate.databases import GradedDatabase, ReadError, first_line
from stages.evaluate.models import TableVerdict
from stages.evaluate.score import evaluate_database, judge, task_verdict
from stages.evaluate.strict.compare import graded_positions
from stages.evaluate.table import Table
from stages.suite.models import Evaluation

Judge = Callable[[Table, Table, Sequence[int], bool], TableVerdict]

LARGE = 20_000
"""Graded cells from which on mutants of a kind are made of one column only, not of `EACH`."""
EACH = 3
HUGE = 20_000_000
"""Graded cells from which on no mutants are made."""


@dataclass(frozen=True)
class Subject:
    """A task's databases, and how they are graded."""

    instance_id: str
    gold: Path
    gold_frozen: Path | None
    """The folder with what gold's views showed; null where it has none."""
    start: Path
    evaluation: Evaluation


@dataclass
class Found:
    """What checking one or more tasks found."""

    outcomes: list[Outcome] = field(default_factory=list)
    tables: int = 0
    """Tables that mutants were made of."""
    not_made: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Graded:
    name: str
    table: Table
    columns: tuple[int, ...]
    """As the config has them."""
    positions: tuple[int, ...]
    """From 0, each once."""
    ignore_order: bool


def check_task(subject: Subject, found: Found, judging: Judge = judge) -> None:
    """Add a task's controls and mutants to what was found.

    `judging` gives both verdicts on two tables.
    """
    passing = _check_controls(subject, found)
    with GradedDatabase(subject.gold, subject.gold_frozen) as gold:
        graded = [item for item in _read(gold, subject.evaluation) if item.name in passing]
        for item in graded:
            place = f"{subject.instance_id} {item.name}"
            if item.table.rows * len(item.positions) > HUGE:
                found.not_made.append(f"{place}: {item.table.rows} rows are too many for mutants")
                continue
            found.tables += 1
            found.outcomes += _mutants(subject, item, judging, found.not_made)
            found.outcomes += _swapped(subject, item, graded, judging)


def _check_controls(subject: Subject, found: Found) -> set[str]:
    """Judge whole databases; returns the tables on which gold passes against itself."""
    passing: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="controls-") as folder:
        empty = Path(folder) / "empty.duckdb"
        duckdb.connect(str(empty)).close()
        for control, database, frozen in (
            (Control.GOLD, subject.gold, subject.gold_frozen),
            (Control.START, subject.start, None),
            (Control.EMPTY, empty, None),
        ):
            tables = evaluate_database(
                database, frozen, subject.gold, subject.gold_frozen, subject.evaluation
            )
            verdict = task_verdict(subject.instance_id, 1, None, tables)
            outcome = Outcome(
                instance_id=subject.instance_id,
                table="",
                kind=control,
                what=verdict.reason,
                changed=True,
                official=verdict.passed,
                official_must=control.must_pass,
                strict=verdict.passed_strictly,
                strict_must=control.must_pass,
            )
            found.outcomes.append(_weighed(outcome, verdict.reason))
            if control is Control.GOLD:
                passing = {item.table for item in tables if item.official and item.strict}
    return passing


def _read(gold: GradedDatabase, evaluation: Evaluation) -> Iterator[_Graded]:
    names = evaluation.condition_tabs
    names = tuple(gold.table_names()) if names is None else names
    every = evaluation.condition_cols or ((),) * len(names)
    orders = evaluation.ignore_orders or (False,) * len(names)
    for name, columns, ignore_order in zip(names, every, orders, strict=False):
        try:
            table = gold.read(name).table
        except ReadError:
            continue  # the control has said so
        positions = graded_positions(table, columns)
        if positions is not None:
            yield _Graded(name, table, columns, positions, ignore_order)


def _mutants(
    subject: Subject, graded: _Graded, judging: Judge, not_made: list[str]
) -> Iterator[Outcome]:
    rows = Numbered(graded.table, graded.positions)
    large = rows.rows * len(graded.positions) > LARGE
    seed = f"{subject.instance_id}/{graded.name}"
    mutator = Mutator(rows, seed, 1 if large else EACH, graded.ignore_order)
    try:
        for mutation in mutator.mutations():
            try:
                mutant = rows.make(mutation)
            except duckdb.Error as error:
                place = f"{subject.instance_id} {graded.name}"
                reason = first_line(error)
                not_made.append(f"{place}: {mutation.kind}, {mutation.what}: {reason}")
                continue
            yield _judged(subject, graded, rows, mutation, mutant, judging)
    finally:
        rows.drop()


def _judged(
    subject: Subject,
    graded: _Graded,
    rows: Numbered,
    mutation: Mutation,
    mutant: Table,
    judging: Judge,
) -> Outcome:
    kind = mutation.kind
    outcome = Outcome(
        instance_id=subject.instance_id,
        table=graded.name,
        kind=kind,
        what=mutation.what,
        changed=True,
    )
    moved = kind in (Kind.ROWS_REORDERED, Kind.ROWS_REORDERED_COUNTS)
    alike = not kind.must_pass or moved
    if alike and rows.same(mutant, in_order=moved or not graded.ignore_order):
        return outcome.model_copy(update={"changed": False})
    changed = [graded.positions[at] for at in mutation.changed]
    must_pass = kind.must_pass and not (kind is Kind.COLUMNS_RENAMED and rows.rows == 0)
    outcome = outcome.model_copy(update={"strict_must": must_pass})
    return _compared(outcome, graded, mutant, changed, judging)


def _swapped(
    subject: Subject, graded: _Graded, others: Sequence[_Graded], judging: Judge
) -> Iterator[Outcome]:
    """Another graded table under this one's name."""
    place = others.index(graded)
    other = others[(place + 1) % len(others)]
    if other is graded:
        return
    outcome = Outcome(
        instance_id=subject.instance_id,
        table=graded.name,
        kind=Kind.TABLES_SWAPPED,
        what=f"with {other.name}",
        changed=True,
        strict_must=False,
    )
    yield _compared(outcome, graded, other.table, graded.positions, judging)


def _compared(
    outcome: Outcome,
    graded: _Graded,
    mutant: Table,
    changed: Sequence[int],
    judging: Judge,
) -> Outcome:
    """The outcome with the verdicts of a mutant, and those that it must get."""
    ignore_order = graded.ignore_order
    must = expected.official(graded.table, mutant, graded.columns, changed, ignore_order)
    outcome = outcome.model_copy(update={"official_must": must})
    try:
        verdict = judging(graded.table, mutant, graded.columns, ignore_order)
    except Exception as error:  # a comparator that breaks is what is looked for
        return outcome.model_copy(
            update={"wrong": f"the comparison raises {type(error).__name__}: {first_line(error)}"}
        )
    outcome = outcome.model_copy(
        update={
            "official": verdict.official,
            "strict": verdict.strict,
            "disagreement": verdict.disagreement,
        }
    )
    if verdict.strict and outcome.strict_must is False:
        choice = expected.other_choice(graded.table, mutant, graded.positions, ignore_order)
        if choice is not None:
            names = [graded.table.columns[at].name for at in graded.positions]
            pairs = zip(names, choice, strict=True)
            taken = [f"{ours!r} in {theirs!r}" for ours, theirs in pairs if ours != theirs]
            how = ", ".join(taken) or "each column under its own name"
            text = f"it holds exactly the graded columns' rows too: {how}"
            outcome = outcome.model_copy(update={"strict_must": True, "explained": text})
    return _weighed(outcome, f"{verdict.detail}; strictly: {verdict.strict_detail}")


def _weighed(outcome: Outcome, detail: str) -> Outcome:
    """The outcome with what is wrong about it."""
    faults = []
    if outcome.official_must is not None and outcome.official is not outcome.official_must:
        faults.append(f"officially {_word(outcome.official)}, not {_word(outcome.official_must)}")
    if outcome.strict is not outcome.strict_must:
        faults.append(f"strictly {_word(outcome.strict)}, not {_word(outcome.strict_must)}")
    if not faults:
        return outcome
    return outcome.model_copy(update={"wrong": f"{', '.join(faults)}: {detail}"})


def _word(verdict: bool | None) -> str:
    return {True: "passes", False: "fails", None: "no verdict"}[verdict]
