"""Scores one result database against gold: a verdict for each graded table, and for the trial."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

import duckdb

from stages.evaluate.databases import GradedDatabase, ReadError, Reading, first_line
from stages.evaluate.diagnosis.diagnose import diagnose
from stages.evaluate.disagree import disagreement
from stages.evaluate.models import (
    Cause,
    Diagnosis,
    Reason,
    Resolution,
    TableVerdict,
    TaskVerdict,
)
from stages.evaluate.official.compare import EvaluatorError, compare
from stages.evaluate.strict.compare import compare_strictly, graded_positions
from stages.evaluate.table import Table
from stages.run.models import TrialStatus
from stages.suite.models import Evaluation

EVERY_TABLE = "*"
"""Stands for gold's tables where the config lists none and gold cannot be read."""

UNCOUNTABLE = (duckdb.Error, MemoryError)
"""What DuckDB raises on a value that it cannot cast, or for want of memory."""

NOT_COMPARED = "gold cannot be compared with"


def evaluate_database(
    result: Path,
    result_frozen: Path | None,
    gold: Path,
    gold_frozen: Path | None,
    evaluation: Evaluation,
    day: datetime.date | None = None,
) -> tuple[TableVerdict, ...]:
    """Judge every graded table of a result database, in the config's order.

    `result_frozen` and `gold_frozen` are the folders with what the databases' views showed
    (views.duckdb, views.json), null where they have none; `day` is the date that the result was
    built on, where it is known. Whatever is wrong with the result
    fails its table; where gold cannot be compared with, the table has no verdict.
    """
    with ExitStack() as stack:
        try:
            graded = stack.enter_context(GradedDatabase(gold, gold_frozen))
        except ReadError as error:
            listed = evaluation.condition_tabs or (EVERY_TABLE,)
            return tuple(_gold_fault(name, error.detail) for name in listed)
        names = evaluation.condition_tabs
        tables = tuple(graded.table_names()) if names is None else names
        columns = evaluation.condition_cols
        orders = evaluation.ignore_orders
        columns = ((),) * len(tables) if columns is None else columns
        orders = (False,) * len(tables) if orders is None else orders
        if not len(tables) == len(columns) == len(orders):
            detail = (
                f"the evaluation config has {len(tables)} tables, {len(columns)} lists of "
                f"columns and {len(orders)} orders"
            )
            return tuple(_gold_fault(name, detail) for name in tables)
        offered: GradedDatabase | ReadError
        try:
            offered = stack.enter_context(GradedDatabase(result, result_frozen))
        except ReadError as error:
            offered = error
        marks = _marks(gold, evaluation)
        return tuple(
            _judge_table(graded, offered, name, positions, ignore_order, marks, day)
            for name, positions, ignore_order in zip(tables, columns, orders, strict=True)
        )


def _marks(gold: Path, evaluation: Evaluation) -> tuple[Resolution, ...]:
    if gold.name == PurePosixPath(evaluation.gold).name:
        return ()
    return (Resolution.MISNAMED_GOLD,)


def unread(
    table: str,
    reason: Reason,
    detail: str,
    resolutions: tuple[Resolution, ...] = (),
    gold_rows: int | None = None,
) -> TableVerdict:
    """The verdict on a table that the result does not have, or that cannot be read."""
    return TableVerdict(
        table=table,
        official=False,
        reason=reason,
        detail=detail,
        resolutions=resolutions,
        strict=False,
        strict_detail=detail,
        diagnosis=Diagnosis(
            cause=Cause(reason.value),
            text=detail,
            gold_rows=gold_rows,
            result_rows=None,
            columns=(),
            rows=(),
            days_off=None,
        ),
    )


def _gold_fault(table: str, detail: str) -> TableVerdict:
    return TableVerdict(
        table=table,
        official=None,
        reason=Reason.ERROR,
        detail=f"gold cannot be scored: {detail}",
        strict_detail=NOT_COMPARED,
    )


def _judge_table(
    gold: GradedDatabase,
    result: GradedDatabase | ReadError,
    table: str,
    columns: Sequence[int],
    ignore_order: bool,
    marks: tuple[Resolution, ...],
    day: datetime.date | None,
) -> TableVerdict:
    try:
        wanted = gold.read(table)
    except ReadError as error:
        return _gold_fault(table, error.detail)
    marks = _union(marks, wanted.resolutions)
    try:
        offered = _read_result(result, table)
    except ReadError as error:
        return unread(table, error.reason, error.detail, marks, wanted.table.rows)
    marks = _union(marks, offered.resolutions)
    found = judge(wanted.table, offered.table, columns, ignore_order, day)
    return found.model_copy(update={"table": table, "resolutions": marks})


def judge(
    wanted: Table,
    offered: Table,
    columns: Sequence[int],
    ignore_order: bool,
    day: datetime.date | None = None,
) -> TableVerdict:
    """Both verdicts on a table of the result, and the diagnosis where either fails.

    Args:
        wanted: Gold's table.
        offered: The result's.
        columns: Graded positions in gold; empty grades all.
        ignore_order: Whether the order of the rows is passed over.
        day: The date that the result was built on, where it is known.

    Returns a verdict without a table's name and without resolutions.
    """
    error: EvaluatorError | None = None
    official: bool | None
    try:
        found = compare(wanted, offered, columns, ignore_order)
        official, reason, detail = found.matched, Reason.MATCHED, found.detail
        if not official:
            reason = Reason.VALUES_DIFFER
    except EvaluatorError as raised:
        error, official, reason = raised, False, Reason.ERROR
        detail = f"the official evaluator raises: {raised.text}"
        if raised.side == "gold":
            official = None
    positions = graded_positions(wanted, columns)
    if official is None or positions is None:
        return TableVerdict(
            table="", official=official, reason=reason, detail=detail, strict_detail=NOT_COMPARED
        )
    verdict = TableVerdict(table="", official=official, reason=reason, detail=detail)
    try:
        strict = compare_strictly(wanted, offered, positions, ignore_order)
    except UNCOUNTABLE as raised:  # the headline does not hang on it
        text = f"the strict comparison cannot be made: {first_line(raised)}"
        diagnosis = None if official else _undiagnosed(f"{detail} ({text})")
        return verdict.model_copy(update={"strict_detail": text, "diagnosis": diagnosis})
    diagnosis = None
    if not (official and strict.matched):
        try:
            diagnosis = diagnose(wanted, offered, positions, ignore_order, strict, error, day)
        except UNCOUNTABLE as raised:
            diagnosis = _undiagnosed(f"{strict.detail} (no diagnosis: {first_line(raised)})")
    return verdict.model_copy(
        update={
            "strict": strict.matched,
            "strict_detail": strict.detail,
            "diagnosis": diagnosis,
            "disagreement": disagreement(official, strict, diagnosis, detail),
        }
    )


def _undiagnosed(text: str) -> Diagnosis:
    return Diagnosis(
        cause=Cause.ERROR,
        text=text,
        gold_rows=None,
        result_rows=None,
        columns=(),
        rows=(),
        days_off=None,
    )


def _read_result(result: GradedDatabase | ReadError, table: str) -> Reading:
    if isinstance(result, ReadError):
        raise result
    return result.read(table)


def _union(*groups: Sequence[Resolution]) -> tuple[Resolution, ...]:
    return tuple(sorted({mark for group in groups for mark in group}))


def task_verdict(
    instance_id: str, trial: int, status: TrialStatus | None, tables: tuple[TableVerdict, ...]
) -> TaskVerdict:
    """Sum up a trial's tables: it passes where every graded table matches.

    It passes officially where, besides, the official script needs no resolution to read them,
    and strictly where every table matches strictly, resolutions allowed.
    """
    marks = _union(*(table.resolutions for table in tables))
    unscored = [table for table in tables if table.official is None]
    failed = [table for table in tables if table.official is False]
    passed: bool | None = not failed
    if not tables:
        passed, reason = None, "no table is graded"
    elif unscored:
        passed, reason = None, _sentence(unscored, tables)
    elif failed:
        reason = _sentence(failed, tables)
    else:
        reason = f"all {len(tables)} graded tables match"
    return TaskVerdict(
        instance_id=instance_id,
        trial=trial,
        status=status,
        passed=passed,
        passed_officially=not failed and not unscored and not marks,
        passed_strictly=_strictly(tables) if passed is not None else None,
        resolutions=marks,
        tables=tables,
        reason=reason,
    )


def _strictly(tables: Sequence[TableVerdict]) -> bool | None:
    found = [table.strict for table in tables]
    if False in found:
        return False
    return None if None in found else True


def _sentence(found: Sequence[TableVerdict], tables: Sequence[TableVerdict]) -> str:
    first = found[0]
    share = f" ({len(found)} of {len(tables)} tables)" if len(tables) > 1 else ""
    told = first.official is False and first.diagnosis is not None
    word = first.diagnosis.cause if told and first.diagnosis else first.reason
    return f"{first.table}: {word.replace('_', ' ')}{share}: {first.detail}"


def unscored(
    instance_id: str,
    trial: int,
    status: TrialStatus | None,
    reason: str,
    tables: Sequence[str] = (),
) -> TaskVerdict:
    """The verdict on a trial that counts neither for nor against the agent, and why.

    `tables` names the graded tables, where they are known; each is listed as not scored.
    """
    return TaskVerdict(
        instance_id=instance_id,
        trial=trial,
        status=status,
        passed=None,
        passed_officially=None,
        tables=tuple(
            TableVerdict(table=name, official=None, reason=Reason.NOT_SCORED, detail=reason)
            for name in tables
        ),
        reason=reason,
    )
