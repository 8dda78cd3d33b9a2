"""Finds out for each task whether it can be scored, and if not, why."""

from __future__ import annotations

from pathlib import Path

import duckdb

from stages.common.files import Record
from stages.common.params import SuiteParams
from stages.common.sql import quote
from stages.suite.layout import Slot
from stages.suite.models import AuditEntry, Evaluation, Status
from stages.suite.overlap import Overlap, overlaps
from stages.suite.tables import Relation, columns, first_line, opened, relations, resolve

PRECEDENCE = (
    Status.NO_START_DATABASE,
    Status.NO_GOLD,
    Status.GOLD_UNREADABLE,
    Status.GOLD_INCOMPLETE,
    Status.BAD_COLUMNS,
    Status.GOLD_EQUALS_START,
    Status.GOLD_MISNAMED,
)
"""Which finding names a task's status when there are several: what must be mended first.

Without a start database nothing runs; without a gold file there is nothing to open; a file
that does not open has no tables; without the tables no columns can be checked; and gold that
an idle agent meets is worse than gold under another name, which is merely used.
"""


class Finding(Record):
    """One thing found on a task; without a status it is worth saying and no more."""

    status: Status | None
    text: str


class _Graded(Record):
    """A graded table as found in gold."""

    name: str
    relation: Relation
    names: tuple[str, ...] | None
    """Gold's column names; null for a view that cannot be described here."""
    graded: tuple[int, ...]
    """Positions that are graded; empty for all."""


def audit_suite(
    suite: SuiteParams, slots: list[Slot], evaluations: dict[str, Evaluation]
) -> list[AuditEntry]:
    """One entry a slot. What is wrong with one task's files never stops the others."""
    return [
        audit_task(slot, evaluations.get(slot.instance_id), suite.gold_databases / slot.instance_id)
        for slot in slots
    ]


def audit_task(slot: Slot, evaluation: Evaluation | None, gold_folder: Path) -> AuditEntry:
    """The audit's finding on one task: its status by `PRECEDENCE`, and everything in `detail`."""
    findings, start = _check_start(slot)
    gold: Path | None = None
    if evaluation is None:
        findings.append(_of(Status.NO_GOLD, "the evaluation config has no line for it"))
    else:
        gold, more = _find_gold(evaluation, gold_folder)
        findings += more
        if gold is not None:
            findings += _check_gold(gold, evaluation, start)
    ranked = sorted(findings, key=_rank)
    status = ranked[0].status if ranked else None
    return AuditEntry(
        instance_id=slot.instance_id,
        status=status or Status.SCOREABLE,
        detail="; ".join(finding.text for finding in ranked),
        gold_database=gold,
        evaluation=evaluation,
    )


def _of(status: Status, text: str) -> Finding:
    return Finding(status=status, text=text)


def _note(text: str) -> Finding:
    return Finding(status=None, text=text)


def _rank(finding: Finding) -> int:
    return len(PRECEDENCE) if finding.status is None else PRECEDENCE.index(finding.status)


def _check_start(slot: Slot) -> tuple[list[Finding], Path | None]:
    """What is to be said of the start database, and its file where it opens."""
    if slot.task is None:
        return [_of(Status.NO_START_DATABASE, slot.note)], None
    path = slot.task.start_database
    try:
        with opened(path) as connection:
            relations(connection)
    except duckdb.Error as error:
        text = f"the start database cannot be opened: {first_line(error, path)}"
        return [_of(Status.NO_START_DATABASE, text)], None
    return ([_note(slot.note)] if slot.note else []), path


def _find_gold(evaluation: Evaluation, folder: Path) -> tuple[Path | None, list[Finding]]:
    """The gold file that is scored against, and what is to be said of it."""
    if not folder.is_dir():
        return None, [_of(Status.NO_GOLD, "it has no gold folder")]
    configured = folder / evaluation.gold
    if configured.is_file():
        return configured, []
    others = sorted(
        path for path in folder.glob("*.duckdb") if path.is_file() and path.name[:2] != "._"
    )
    if len(others) == 1:
        text = f"gold {evaluation.gold} is absent; {others[0].name}, the only one there, is used"
        return others[0], [_of(Status.GOLD_MISNAMED, text)]
    names = ", ".join(path.name for path in others) or "no database"
    return None, [_of(Status.NO_GOLD, f"gold {evaluation.gold} is absent; there is {names}")]


def _check_gold(path: Path, evaluation: Evaluation, start: Path | None) -> list[Finding]:
    try:
        with opened(path) as connection:
            findings, graded = _check_tables(connection, evaluation)
        if start is not None and len(graded) > 0:
            # A table that is missing from gold cannot equal anything: only notes are left then.
            complete = all(finding.status is None for finding in findings)
            findings += _check_overlap(path, start, graded, complete)
    except duckdb.Error as error:
        text = f"gold {path.name} cannot be read: {first_line(error, path)}"
        return [_of(Status.GOLD_UNREADABLE, text)]
    return findings


def _check_tables(
    connection: duckdb.DuckDBPyConnection, evaluation: Evaluation
) -> tuple[list[Finding], list[_Graded]]:
    """Whether gold holds what is graded; raises `duckdb.Error` where its rows do not read."""
    among = relations(connection)
    names = evaluation.condition_tabs
    if names is None:
        # The official evaluator lists the tables of the default schema.
        names = tuple(item.name for item in among if item.table_schema == "main")
        if not names:
            return [_of(Status.GOLD_INCOMPLETE, "gold holds no table")], []
    if not names:
        return [_of(Status.BAD_COLUMNS, "condition_tabs is empty, so nothing is graded")], []
    findings, positions = _check_lengths(evaluation, len(names))
    graded: list[_Graded] = []
    missing: list[str] = []
    for index, name in enumerate(names):
        relation = resolve(name, among)
        if relation is None:
            missing.append(name)
            continue
        if relation.label.lower() != name.lower():
            findings.append(_note(f"graded table {name} is gold's {relation.label}"))
        held, more = _columns(connection, relation)
        wanted = positions[index] if positions else ()
        findings += more + _check_positions(name, held, wanted)
        graded.append(_Graded(name=name, relation=relation, names=held, graded=wanted))
    if missing:
        text = f"gold has no table {', '.join(missing)} ({len(missing)} of {len(names)} graded)"
        findings.append(_of(Status.GOLD_INCOMPLETE, text))
    return findings, graded


def _check_lengths(
    evaluation: Evaluation, tables: int
) -> tuple[list[Finding], tuple[tuple[int, ...], ...] | None]:
    """Complaints on the config's lists, and the column positions a table where they can be used."""
    findings = []
    positions, orders = evaluation.condition_cols, evaluation.ignore_orders
    if positions is not None and len(positions) != tables:
        text = f"condition_cols has {len(positions)} entries for {tables} graded tables"
        findings.append(_of(Status.BAD_COLUMNS, text))
        positions = None
    if orders is not None and len(orders) != tables:
        text = f"ignore_orders has {len(orders)} entries for {tables} graded tables"
        findings.append(_of(Status.BAD_COLUMNS, text))
    return findings, positions


def _columns(
    connection: duckdb.DuckDBPyConnection, relation: Relation
) -> tuple[tuple[str, ...] | None, list[Finding]]:
    """A graded relation's columns. A table is read through once, a view never evaluated."""
    if relation.is_view:
        # A view may need the task's own engine, so failing here is no fault of gold.
        try:
            return tuple(columns(connection, relation)), []
        except duckdb.Error as error:
            line = (str(error).splitlines() or [""])[0]
            return None, [_note(f"gold's view {relation.label} cannot be described here: {line}")]
    names = tuple(columns(connection, relation))
    try:
        every = ", ".join(quote(name) for name in names)
        connection.execute(f"SELECT max(hash({every})) FROM {relation.quoted}").fetchall()
    except (duckdb.BinderException, duckdb.NotImplementedException):
        pass  # a type that has no hash: its blocks are not checked
    return names, []


def _check_positions(
    name: str, held: tuple[str, ...] | None, wanted: tuple[int, ...]
) -> list[Finding]:
    if held is None:
        return []
    # Negative positions count from the end, as in the official evaluator.
    outside = [position for position in wanted if not -len(held) <= position < len(held)]
    if not outside:
        return []
    listed = ", ".join(str(position) for position in outside)
    text = f"condition_cols of {name} names column {listed}, gold has {len(held)} columns"
    return [_of(Status.BAD_COLUMNS, text)]


def _check_overlap(gold: Path, start: Path, graded: list[_Graded], complete: bool) -> list[Finding]:
    """Which graded tables the start database holds already, and whether an idle agent passes."""
    pairs = {
        item.name: (item.relation, tuple(item.names[position] for position in item.graded))
        for item in graded
        if item.names is not None
        and all(-len(item.names) <= position < len(item.names) for position in item.graded)
    }
    found = overlaps(gold, start, pairs)
    equal = [name for name, kind in found.items() if kind is Overlap.EQUAL]
    stale = [name for name, kind in found.items() if kind is Overlap.OTHER]
    if complete and len(equal) == len(graded):
        text = f"the start database already holds gold's content of {', '.join(equal)}"
        return [_of(Status.GOLD_EQUALS_START, text)]
    findings = []
    if equal:
        findings.append(_note(f"the start database already holds {', '.join(equal)} as in gold"))
    if stale:
        text = f"the start database already holds {', '.join(stale)} with other content"
        findings.append(_note(text))
    return findings
