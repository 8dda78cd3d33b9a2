"""Is each derived date right, and does it matter? `make verify-dates`, for suites with solutions.

Builds every task with its known solution on the derived date, the days before and after it, and
40 days later, and compares the graded tables with gold and with each other.
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
from rich.table import Table

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.files import Record, cache_root, copy_tree, write_json
from stages.common.params import SuiteParams, load_params
from stages.common.sql import quote_text
from stages.dates.models import read_gold_build_dates
from stages.dates.rebuild.carve import LEFTOVERS
from stages.dates.rebuild.compare import (
    Relation,
    common_columns,
    equal_rows,
    read_relation,
)
from stages.dates.rebuild.faults import one_line
from stages.dates.rebuild.session import SESSIONS, BrokenOffError, Parsed, RebuildError, Session
from stages.stack.environments import Stack, ensure_stack, stack_lock
from stages.stack.host import freeze_views
from stages.suite import tables
from stages.suite.models import AuditEntry, Evaluation, Task, read_audit, read_tasks

TASKS = Path("results/suite/tasks.json")
AUDIT = Path("results/suite_audit.json")
DATES = Path("data/gold_build_dates.json")
OUT = Path("results/verify_dates.json")
OFFSETS = (0, -1, 1, 40)
"""Days from the derived date to the days that are built; the first is the date itself."""
WORKERS = 2


class DateCheck(Record):
    """What building one task on four days found."""

    date: datetime.date
    reproduces: bool | None
    """Whether every graded table on the derived date is gold's; null where it was not built."""
    depends: bool | None
    """Whether any graded table is another on one of the other days."""
    days: dict[str, str]
    """Day to what was found, against gold."""
    note: str = ""


class _Graded(Record):
    """One graded table: where the result and gold hold it, and which columns are graded."""

    name: str
    result: tuple[str, str]
    gold: tuple[str, str, str]
    columns: tuple[str, ...]


def verify_suite(
    suite: SuiteParams,
    tasks: list[Task],
    audit: list[AuditEntry],
    dates: Mapping[str, datetime.date],
    limit_s: float,
) -> dict[str, DateCheck]:
    """Check every task that has a solution and gold, two at a time; sorted by instance id."""
    stack = ensure_stack(suite.gold_stack, stack_lock(suite.gold_stack))
    gold = {entry.instance_id: entry for entry in audit if entry.status.scoreable}
    chosen = [
        task
        for task in sorted(tasks, key=lambda task: task.instance_id)
        if task.instance_id in gold
        and task.instance_id in dates
        and (suite.solutions / task.instance_id).is_dir()
    ]
    if not chosen:
        raise UserError(
            f"suite {suite.name!r} has no task with a known solution",
            where=str(suite.solutions),
            remedy="choose a suite with solutions (`-S suite=starter`)",
        )
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        jobs = {
            task.instance_id: pool.submit(
                verify_task,
                task,
                gold[task.instance_id],
                suite.solutions / task.instance_id,
                dates[task.instance_id],
                stack,
                limit_s,
            )
            for task in chosen
        }
        try:
            return {name: job.result() for name, job in jobs.items()}
        except BaseException:
            SESSIONS.end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def verify_task(
    task: Task,
    entry: AuditEntry,
    solution: Path,
    date: datetime.date,
    stack: Stack,
    limit_s: float,
) -> DateCheck:
    """Build one task on the four days; a failure is a note, never an exception."""
    works = cache_root() / "work-rebuilds"
    works.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"verify-{task.instance_id}-", dir=works))
    try:
        return _verify(task, entry, solution, date, stack, limit_s, root)
    except (RebuildError, UserError, duckdb.Error) as error:
        return DateCheck(
            date=date, reproduces=None, depends=None, days={}, note=one_line(str(error))
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _verify(
    task: Task,
    entry: AuditEntry,
    solution: Path,
    date: datetime.date,
    stack: Stack,
    limit_s: float,
    root: Path,
) -> DateCheck:
    assert entry.gold_database is not None and entry.evaluation is not None
    project = root / "project"
    copy_tree(task.project, project, skip=LEFTOVERS)
    if task.overlay is not None:
        copy_tree(task.overlay, project)
    copy_tree(solution, project)
    with (
        Session(stack, project, task.database, date, limit_s=limit_s) as session,
        duckdb.connect() as connection,
    ):
        connection.execute("SET TimeZone = 'UTC'")
        parsed = session.parse()
        graded = _graded(connection, entry.gold_database, entry.evaluation, parsed)
        if any(item.gold[0] == "frozen" for item in graded):
            freeze_views(stack, entry.gold_database, root / "frozen", date)
            _attach(connection, root / "frozen" / "views.duckdb", "frozen")
        golds = {item.name: read_relation(connection, *item.gold) for item in graded}
        built: dict[datetime.date, dict[str, Relation | None]] = {}
        for offset in OFFSETS:
            day = date + datetime.timedelta(days=offset)
            built[day] = _build(session, connection, day, parsed, graded, f"d{len(built)}")
        differing = {
            day: [
                item.name
                for item in graded
                if not _same(connection, golds[item.name], built[day][item.name], item.columns)
            ]
            for day in built
        }
        depends = any(
            not _same(connection, first, built[day][item.name], item.columns)
            for item in graded
            if (first := built[date][item.name]) is not None
            for day in built
        )
    return DateCheck(
        date=date,
        reproduces=not differing[date],
        depends=depends if all(built[date].values()) else None,
        days={
            day.isoformat(): f"not like gold: {', '.join(names)}" if names else "like gold"
            for day, names in differing.items()
        },
    )


def _graded(
    connection: duckdb.DuckDBPyConnection,
    gold: Path,
    evaluation: Evaluation,
    parsed: Mapping[str, Parsed],
) -> list[_Graded]:
    """The graded tables, each in gold (a view as it was frozen) and in the result."""
    with tables.opened(gold) as opened:
        among = tables.relations(opened)
        names = evaluation.condition_tabs or tuple(item.label for item in among)
        found = [(name, tables.resolve(name, among)) for name in names]
        columns = {name: tables.columns(opened, item) for name, item in found if item is not None}
    _attach(connection, gold, "gold")
    positions = evaluation.condition_cols or ((),) * len(names)
    places = {node.alias.lower(): (node.schema, node.alias) for node in parsed.values()}
    graded = []
    for (name, relation), chosen in zip(found, positions, strict=True):
        if relation is None:
            raise RebuildError(f"gold has no table {name}")
        every = columns[name]
        graded.append(
            _Graded(
                name=name,
                result=places.get(relation.name.lower(), (relation.table_schema, relation.name)),
                gold=(
                    "frozen" if relation.is_view else "gold",
                    relation.table_schema,
                    relation.name,
                ),
                columns=tuple(every[i] for i in chosen) if chosen else tuple(every),
            )
        )
    return graded


def _build(
    session: Session,
    connection: duckdb.DuckDBPyConnection,
    day: datetime.date,
    parsed: Mapping[str, Parsed],
    graded: list[_Graded],
    place: str,
) -> dict[str, Relation | None]:
    """The graded tables of one day's build; null where one was not built."""
    nodes = [node.name for node in parsed.values() if node.kind in ("model", "seed", "snapshot")]
    try:
        out, failed = session.build(day, nodes, [(item.name, *item.result) for item in graded])
    except BrokenOffError:
        raise
    except RebuildError:
        return {item.name: None for item in graded}
    _attach(connection, out, place)
    return {
        item.name: None
        if item.name in failed
        else read_relation(connection, place, "main", item.name)
        for item in graded
    }


def _attach(connection: duckdb.DuckDBPyConnection, path: Path, name: str) -> None:
    connection.execute(f"ATTACH {quote_text(str(path))} AS {name} (READ_ONLY)")


def _same(
    connection: duckdb.DuckDBPyConnection,
    wanted: Relation,
    offered: Relation | None,
    columns: tuple[str, ...],
) -> bool:
    """Whether both hold the same rows over the graded columns, by name."""
    if offered is None:
        return False
    names = {name.casefold() for name in columns}
    compared = [column for column in common_columns(wanted, offered) if column.name in names]
    return len(compared) == len(names) and equal_rows(connection, wanted, offered, compared)


def run() -> int:
    """Check the suite of params.yaml; 1 where a derived date does not reproduce gold."""
    for path in (TASKS, AUDIT, DATES):
        if not path.is_file():
            raise UserError(f"no {path} here", remedy="dvc repro dates")
    params = load_params()
    checks = verify_suite(
        params.suite,
        read_tasks(TASKS),
        read_audit(AUDIT),
        read_gold_build_dates(DATES),
        params.dates.rebuild_s,
    )
    write_json(OUT, checks)
    _print(checks)
    return 0 if all(check.reproduces for check in checks.values()) else 1


def _print(checks: Mapping[str, DateCheck]) -> None:
    table = Table("task", "date", "gold at that date", "depends on the date", "not like gold")
    for name, check in checks.items():
        others = [day for day, found in check.days.items() if found != "like gold"]
        table.add_row(
            name,
            check.date.isoformat(),
            _word(check.reproduces, "reproduced", "[red]not reproduced[/]"),
            _word(check.depends, "yes", "no"),
            ", ".join(others) or check.note,
        )
    console = make_console()
    console.print(table)
    right = sum(check.reproduces is True for check in checks.values())
    matter = sum(check.depends is True for check in checks.values())
    console.print(
        f"{len(checks)} tasks with a solution: {right} reproduce gold at the derived date, "
        f"{matter} depend on the date"
    )


def _word(value: bool | None, yes: str, no: str) -> str:
    return "not built" if value is None else yes if value else no


if __name__ == "__main__":
    main(run)
