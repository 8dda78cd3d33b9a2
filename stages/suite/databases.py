"""Builds start databases from CSV files and SELECTs, readable by the oldest stack's DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb

from stages.common.errors import UserError
from stages.common.sql import quote, quote_text
from stages.suite.sources import BuildSources, DatabaseSource, TableSource, ViewSource

STORAGE_VERSION = "v1.0.0"
"""Without it, a file of DuckDB 2.0 cannot be opened by 1.1."""


SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "TimeZone": "UTC",
    "autoinstall_known_extensions": False,
    # A table's name that is missing must not be answered with a Python variable.
    "python_enable_replacements": False,
}


def build_start(sources: BuildSources, folder: Path, target: Path) -> None:
    """Build a task's start databases below `target`.

    `folder` holds the CSV and SQL files. The content depends on these alone: one thread, rows
    in file order, no clock. (The bytes still differ from build to build: DuckDB stores random
    ids.) Raises `UserError` naming the table's file when DuckDB refuses it.
    """
    for database in sources.databases:
        path = target / database.file
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(config=SETTINGS)
        try:
            _fill(connection, database, folder, path)
        finally:
            connection.close()


def _fill(
    connection: duckdb.DuckDBPyConnection, database: DatabaseSource, folder: Path, path: Path
) -> None:
    catalog = quote(path.stem)
    connection.execute(
        f"ATTACH {quote_text(str(path))} AS {catalog} (STORAGE_VERSION '{STORAGE_VERSION}')"
    )
    connection.execute(f"USE {catalog}")
    items: tuple[TableSource | ViewSource, ...] = (*database.tables, *database.views)
    for item in items:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(item.schema_name)}")
        place = quote(item.schema_name, item.name)
        if isinstance(item, TableSource):
            statements = _table(item, place, folder)
        else:
            statements = [f"CREATE VIEW {place} AS {_select(folder / item.sql)}"]
        for statement in statements:
            try:
                connection.execute(statement)
            except duckdb.Error as error:
                file = item.csv if isinstance(item, TableSource) and item.csv else item.sql
                raise UserError(
                    f"{item.name} of task {folder.name} cannot be built: {error}",
                    where=str(folder / (file or "")),
                    remedy="mend that file, or the columns in build.yaml",
                ) from None
    connection.execute(f"FORCE CHECKPOINT {catalog}")
    connection.execute("USE memory")
    connection.execute(f"DETACH {catalog}")


def _table(table: TableSource, place: str, folder: Path) -> list[str]:
    if table.sql is not None:
        return [f"CREATE TABLE {place} AS {_select(folder / table.sql)}"]
    assert table.csv is not None and table.columns is not None
    path = folder / table.csv
    if not path.is_file():
        raise _missing(path)
    columns = ", ".join(f"{quote(name)} {kind}" for name, kind in table.columns.items())
    kinds = ", ".join(
        f"{quote_text(name)}: {quote_text(kind)}" for name, kind in table.columns.items()
    )
    reader = (
        f"read_csv({quote_text(str(path))}, columns = {{{kinds}}}, header = true, "
        f"auto_detect = false, delim = ',', quote = '\"', escape = '\"', nullstr = '')"
    )
    return [f"CREATE TABLE {place} ({columns})", f"INSERT INTO {place} SELECT * FROM {reader}"]


def _select(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip().rstrip(";")
    except FileNotFoundError:
        raise _missing(path) from None


def _missing(path: Path) -> UserError:
    return UserError(
        f"build.yaml of task {path.parent.name} names a file that is not there: {path.name}",
        where=str(path),
        remedy="add the file, or mend build.yaml",
    )
