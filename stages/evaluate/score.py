"""Scores one result database against gold: a verdict for each graded table, and for the trial."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from stages.evaluate.databases import GradedDatabase, ReadError, Reading
from stages.evaluate.models import Reason, Resolution, TableVerdict, TaskVerdict
from stages.evaluate.official import EvaluatorError, compare
from stages.run.models import TrialStatus
from stages.suite.models import Evaluation

EVERY_TABLE = "*"
"""Stands for gold's tables where the config lists none and gold cannot be read."""


def evaluate_database(
    result: Path,
    result_frozen: Path | None,
    gold: Path,
    gold_frozen: Path | None,
    evaluation: Evaluation,
) -> tuple[TableVerdict, ...]:
    """Judge every graded table of a result database, in the config's order.

    `result_frozen` and `gold_frozen` are the folders with what the databases' views showed
    (views.duckdb, views.json), null where they have none. Whatever is wrong with the result
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
            _judge_table(graded, offered, name, positions, ignore_order, marks)
            for name, positions, ignore_order in zip(tables, columns, orders, strict=True)
        )


def _marks(gold: Path, evaluation: Evaluation) -> tuple[Resolution, ...]:
    if gold.name == PurePosixPath(evaluation.gold).name:
        return ()
    return (Resolution.MISNAMED_GOLD,)


def _gold_fault(table: str, detail: str) -> TableVerdict:
    return TableVerdict(
        table=table, official=None, reason=Reason.ERROR, detail=f"gold cannot be scored: {detail}"
    )


def _judge_table(
    gold: GradedDatabase,
    result: GradedDatabase | ReadError,
    table: str,
    columns: Sequence[int],
    ignore_order: bool,
    marks: tuple[Resolution, ...],
) -> TableVerdict:
    try:
        wanted = gold.read(table)
    except ReadError as error:
        return _gold_fault(table, error.detail)
    marks = _union(marks, wanted.resolutions)
    try:
        offered = _read_result(result, table)
    except ReadError as error:
        return TableVerdict(
            table=table,
            official=False,
            reason=error.reason,
            detail=error.detail,
            resolutions=marks,
        )
    marks = _union(marks, offered.resolutions)
    try:
        found = compare(wanted.frame, offered.frame, columns, ignore_order)
    except EvaluatorError as error:
        return TableVerdict(
            table=table,
            official=None if error.side == "gold" else False,
            reason=Reason.ERROR,
            detail=f"the official evaluator raises: {error.text}",
            resolutions=marks,
        )
    return TableVerdict(
        table=table,
        official=found.matched,
        reason=Reason.MATCHED if found.matched else Reason.VALUES_DIFFER,
        detail=found.detail,
        resolutions=marks,
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

    It passes officially where, besides, the official script needs no resolution to read them.
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
        resolutions=marks,
        tables=tables,
        reason=reason,
    )


def _sentence(found: Sequence[TableVerdict], tables: Sequence[TableVerdict]) -> str:
    first = found[0]
    share = f" ({len(found)} of {len(tables)} tables)" if len(tables) > 1 else ""
    return f"{first.table}: {first.reason.replace('_', ' ')}{share}: {first.detail}"


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
