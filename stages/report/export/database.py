"""Copies a trial's database for others to read: views as they were frozen, in an old format."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
from pydantic import TypeAdapter

from stages.common.sql import quote, quote_text
from stages.evaluate.databases import ReadError, open_database
from stages.evaluate.models import Reason
from stages.report.export.read import first
from stages.suite.storage import is_newer

ISOLATED: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "threads": 1,
}
"""One thread keeps the rows in their order."""


@dataclass(frozen=True)
class Gold:
    """What a trial's database is scored against."""

    database: Path
    graded: tuple[str, ...] | None
    """The config's names; null for every table."""

    def moving(self) -> frozenset[str]:
        """Graded tables, in lower case, that gold shows by a view.

        Empty where gold cannot be read: that is not the trial's fault.
        """
        try:
            _, views = _contents(self.database)
        except ReadError:
            return frozenset()
        names = {name.lower() for schema, name, _ in views if schema == "main"}
        return frozenset(names if self.graded is None else names & self._graded())

    def fixed(self, moving: frozenset[str]) -> frozenset[str]:
        """Graded tables, in lower case, that gold holds as such."""
        if self.graded is not None:
            return frozenset(self._graded() - moving)
        tables, _ = _contents(self.database)
        return frozenset(name.lower() for _, name in tables)

    def _graded(self) -> set[str]:
        return {name.lower() for name in self.graded or ()}


def copy_database(
    trial: Path, database: str, out: Path, storage: str, gold: Gold | None = None
) -> tuple[str, ...]:
    """Write the database of a trial's folder to `out`; what is to be known of it.

    `database` is relative to the trial's `project/`. Without views, and in the oldest format,
    the file is copied as it is; else its tables are written to a new one of the DuckDB storage
    version `storage`, each view as the table that `frozen/` holds of it. Where gold itself
    shows a graded table by a view, the official script compares with what that shows on the
    day of scoring: there a view of the trial stays one.

    Raises:
        ReadError: it is absent, leads out of the trial's folder, or cannot be opened.
    """
    source = trial / "project" / database
    if not source.resolve().is_relative_to(trial.resolve()):
        detail = f"{source.name} is a link that leads out of the trial's folder"
        raise ReadError(Reason.UNREADABLE, detail)
    tables, views = _contents(source)
    moving = gold.moving() if gold else frozenset()
    shown = {name.lower() for schema, name, _ in views if schema == "main"}
    notes = [
        f"gold's {name} is a view, the trial's a table: officially they can agree on the gold "
        "date alone"
        for name in sorted(moving - shown)
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    log = source.with_name(source.name + ".wal")
    if not views and not log.exists() and not is_newer(source):
        shutil.copyfile(source, out)
        return tuple(notes)
    fixed = gold.fixed(moving) if gold and moving else None
    live = [view for view in views if fixed is not None and view[1].lower() not in fixed]
    frozen, missing = _frozen(trial / "frozen", [view[:2] for view in views if view not in live])
    notes += missing
    try:
        notes += _write(source, trial / "frozen" / "views.duckdb", out, storage, tables, frozen)
        notes += _create_views(out, live)
    except BaseException:
        out.unlink(missing_ok=True)
        raise
    return tuple(notes)


def check_storage(version: str) -> str | None:
    """What DuckDB says against a storage version; null where it knows it."""
    with duckdb.connect() as connection:
        try:
            connection.execute(
                f"ATTACH ':memory:' AS tried (STORAGE_VERSION {quote_text(version)})"
            )
        except duckdb.Error as error:
            return first(error)
    return None


def _contents(source: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """Schema and name of the tables and of the views, these with their SQL; sorted."""
    mine = "NOT internal AND NOT temporary AND database_name = current_database() ORDER BY ALL"
    with open_database(source) as connection:
        try:
            tables = connection.execute(
                f"SELECT schema_name, table_name FROM duckdb_tables() WHERE {mine}"
            ).fetchall()
            views = connection.execute(
                f"SELECT schema_name, view_name, sql FROM duckdb_views() WHERE {mine}"
            ).fetchall()
        except Exception as error:
            detail = f"{source.name} cannot be read: {first(error)}"
            raise ReadError(Reason.UNREADABLE, detail) from error
    return [(str(a), str(b)) for a, b in tables], [(str(a), str(b), str(c)) for a, b, c in views]


def _frozen(folder: Path, views: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """Which views `folder` holds as tables, and a note on each that it does not."""
    if not views:
        return [], []
    try:
        text = (folder / "views.json").read_bytes()
        found = {
            (item["schema"], item["view"]): item
            for item in TypeAdapter(list[dict[str, str | int | None]]).validate_json(text)
        }
    except (OSError, ValueError, KeyError) as error:
        return [], [f"its views were not frozen and are left out: {first(error)}"]
    frozen, notes = [], []
    for view in views:
        finding = found.get(view)
        if finding is not None and finding.get("status") == "frozen":
            frozen.append(view)
        else:
            why = finding.get("error") if finding else "it was not frozen"
            notes.append(f"view {quote(*view)} is left out: {str(why).splitlines()[0]}")
    return frozen, notes


def _write(
    source: Path,
    frozen_views: Path,
    out: Path,
    storage: str,
    tables: list[tuple[str, str]],
    frozen: list[tuple[str, str]],
) -> list[str]:
    """Write tables, and views from where they are frozen; a note on each that could not be."""
    notes: list[str] = []
    with duckdb.connect(config=ISOLATED) as connection:
        path = quote_text(str(source.resolve()))
        connection.execute(f"ATTACH {path} AS result (TYPE duckdb, READ_ONLY)")
        if frozen:
            path = quote_text(str(frozen_views.resolve()))
            connection.execute(f"ATTACH {path} AS frozen (TYPE duckdb, READ_ONLY)")
        path, version = quote_text(str(out.resolve())), quote_text(storage)
        connection.execute(f"ATTACH {path} AS export (STORAGE_VERSION {version})")
        connection.execute("SET enable_external_access = false")
        for catalog, names in (("result", tables), ("frozen", frozen)):
            notes += [note for name in names if (note := _copy(connection, catalog, *name))]
        connection.execute("DETACH export")
    return notes


def _create_views(out: Path, views: list[tuple[str, str, str]]) -> list[str]:
    """Create views by their own SQL, in an order that works; a note on each that has none.

    The file is opened by its name, since views ask for tables in a catalog of that name.
    """
    if not views:
        return []
    faults: dict[str, str] = {}
    with duckdb.connect(str(out), config=ISOLATED | {"enable_external_access": False}) as writer:
        waiting = views
        while waiting:
            left = []
            for schema, name, sql in waiting:
                try:
                    writer.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
                    writer.execute(f"USE {quote(schema)}")
                    writer.execute(sql)
                except duckdb.Error as error:
                    faults[quote(schema, name)] = first(error)
                    left.append((schema, name, sql))
                else:
                    faults.pop(quote(schema, name), None)
            if len(left) == len(waiting):
                break
            waiting = left
    return [f"view {name} is left out: {fault}" for name, fault in faults.items()]


def _copy(
    connection: duckdb.DuckDBPyConnection, catalog: str, schema: str, name: str
) -> str | None:
    """Copy one table; why it could not be, or null. What ends the whole database is raised."""
    target = quote("export", schema, name)
    try:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote('export', schema)}")
        source = quote(catalog, schema, name)
        connection.execute(f"CREATE TABLE {target} AS SELECT * FROM {source}")
    except (duckdb.FatalException, duckdb.InternalException):
        raise
    except duckdb.Error as error:
        return f"table {quote(schema, name)} is left out: {first(error)}"
    return None
