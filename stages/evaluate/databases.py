"""Reads graded tables: officially first, then under named resolutions, views as they were frozen.

A view shows what `current_date` and the engine give when it is read, so a database's own views
are never read here; beside it lies what they showed under the task's clock and engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from types import TracebackType
from typing import Any

import duckdb
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stages.common.sql import quote
from stages.evaluate.models import Reason, Resolution
from stages.evaluate.table import Table, open_table
from stages.suite.tables import respelled

SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "memory_limit": "384MB",
    "python_enable_replacements": False,
    "temp_directory": str(Path(gettempdir()) / "graded-tables"),
}
"""A name that is no table must not turn into a file, a Python variable or a download.

What does not fit into memory goes into the temporary folder, as a database's own is read only.
"""

NO_BAR = "SET enable_progress_bar = false"
"""DuckDB would draw one over what a stage prints."""

NO_SUCH_TABLE = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.InvalidInputException,
    duckdb.ParserException,
    duckdb.PermissionException,
)
"""What DuckDB raises for a name that it does not parse or find; the rest is damage."""


class ReadError(Exception):
    """A graded table that cannot be read: `TABLE_MISSING` or `UNREADABLE`, and why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


@dataclass(frozen=True)
class Reading:
    """A graded table, and what it took to find it beyond the official lookup.

    The table can be read as long as its `GradedDatabase` is open.
    """

    table: Table
    resolutions: tuple[Resolution, ...]


@dataclass(frozen=True)
class _Entry:
    schema: str
    name: str
    is_view: bool


class _FrozenView(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_name: str = Field(alias="schema")
    view: str
    status: str
    error: str | None = None


def open_database(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file read-only, without access to other files.

    Raises:
        ReadError: there is no such file, or it is not a readable database.
    """
    if not path.is_file():
        raise ReadError(Reason.TABLE_MISSING, f"there is no database {path.name}")
    try:
        connection = duckdb.connect(str(path), read_only=True, config=SETTINGS)
        connection.execute(NO_BAR)
        return connection
    except Exception as error:
        raise ReadError(
            Reason.UNREADABLE, f"{path.name} cannot be opened: {first_line(error)}"
        ) from error


def has_views(path: Path) -> bool:
    """Whether a database holds views of a user's; raises `ReadError` where it cannot be read."""
    with GradedDatabase(path, None) as database:
        return any(entry.is_view for entry in database.entries)


def first_line(error: BaseException) -> str:
    """An exception's text without the hints that follow in further lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


class GradedDatabase:
    """One database as it is scored: its base tables, and its views as they were frozen."""

    def __init__(self, path: Path, frozen: Path | None) -> None:
        """Open `path`; `frozen` is the folder of views.duckdb and views.json, if there is one.

        Raises:
            ReadError: the file is missing or cannot be read.
        """
        self.path = path
        self._frozen = frozen
        self._open = ExitStack()
        self._connection = self._open.enter_context(open_database(path))
        self._frozen_connection: duckdb.DuckDBPyConnection | None = None
        self._frozen_views: list[_FrozenView] | None = None
        try:
            self.entries = self._list()
        except Exception as error:
            self._open.close()
            raise ReadError(
                Reason.UNREADABLE, f"{path.name} cannot be read: {first_line(error)}"
            ) from error

    def __enter__(self) -> GradedDatabase:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def table_names(self) -> list[str]:
        """What `SHOW TABLES` lists: the tables that a config without a list of tables grades."""
        rows = self._connection.execute("SHOW TABLES").fetchall()
        return [str(name) for (name,) in rows]

    def read(self, name: str) -> Reading:
        """Read a table or view by the config's name; see `Resolution` for how far it is sought.

        Raises:
            ReadError: it is in no place that is looked at, or is there and cannot be read.
        """
        try:
            return Reading(self._read_officially(name), ())
        except NO_SUCH_TABLE as error:
            failure: Exception = error
        except ReadError:
            raise
        except Exception as error:
            raise ReadError(
                Reason.UNREADABLE, f"table {name} cannot be read: {first_line(error)}"
            ) from error
        found = self._resolve(name)
        if found is None:
            raise ReadError(Reason.TABLE_MISSING, self._absence(name, failure))
        entry, resolutions = found
        return Reading(self._read_entry(entry), resolutions)

    def _list(self) -> list[_Entry]:
        rows = self._connection.execute(
            "SELECT schema_name, table_name, false FROM duckdb_tables() "
            "WHERE NOT internal AND NOT temporary AND database_name = current_database() "
            "UNION ALL SELECT schema_name, view_name, true FROM duckdb_views() "
            "WHERE NOT internal AND NOT temporary AND database_name = current_database() "
            "ORDER BY ALL"
        ).fetchall()
        return [_Entry(schema, name, is_view) for schema, name, is_view in rows]

    def _read_officially(self, name: str) -> Table:
        """A table under its name as it stands, as officially: a reserved word raises."""
        view = self._view_behind(name)
        return open_table(self._connection if view is None else self._frozen_source(view), name)

    def _view_behind(self, name: str) -> _Entry | None:
        """The view that DuckDB takes an unquoted name for; None where it is none or no parse."""
        meant = set(_named_tables(self._connection, name))
        for entry in self.entries:
            schema, view = _folded(entry.schema), _folded(entry.name)
            asked = (schema, view) in meant or (schema == "main" and ("", view) in meant)
            if entry.is_view and asked:
                return entry
        return None

    def _resolve(self, name: str) -> tuple[_Entry, tuple[Resolution, ...]] | None:
        """Where a name is beyond the official lookup: in `main`, else in just one other schema."""
        other = respelled(name)
        inside = [entry for entry in self.entries if entry.schema == "main"]
        outside = [entry for entry in self.entries if entry.schema != "main"]
        for entries, place in ((inside, None), (outside, Resolution.SCHEMA)):
            for spelling, respelling in ((name, None), (other, Resolution.FCT_FACT)):
                if spelling is None:
                    continue
                entry, case = _sole(entries, spelling)
                if entry is not None:
                    marks = {mark for mark in (place, respelling, case) if mark is not None}
                    return entry, tuple(sorted(marks or {Resolution.QUOTED_NAME}))
        return None

    def _read_entry(self, entry: _Entry) -> Table:
        source = self._frozen_source(entry) if entry.is_view else self._connection
        try:
            return open_table(source, quote(entry.schema, entry.name))
        except Exception as error:
            raise ReadError(
                Reason.UNREADABLE, f"table {entry.name} cannot be read: {first_line(error)}"
            ) from error

    def _frozen_source(self, view: _Entry) -> duckdb.DuckDBPyConnection:
        """The database of frozen views; raises `ReadError` where this view is not in it."""
        if self._frozen is None:
            raise ReadError(Reason.UNREADABLE, f"{view.name} is a view that was not frozen")
        if self._frozen_views is None:
            self._frozen_views = _read_findings(self._frozen / "views.json")
        finding = next(
            (
                item
                for item in self._frozen_views
                if (item.schema_name, item.view) == (view.schema, view.name)
            ),
            None,
        )
        if finding is None:
            raise ReadError(Reason.UNREADABLE, f"{view.name} is a view that was not frozen")
        if finding.status != "frozen":
            raise ReadError(
                Reason.UNREADABLE, f"view {view.name} cannot be read: {finding.error or 'unknown'}"
            )
        if self._frozen_connection is None:
            opened = open_database(self._frozen / "views.duckdb")
            self._frozen_connection = self._open.enter_context(opened)
        return self._frozen_connection

    def _absence(self, name: str, failure: Exception) -> str:
        places = [
            quote(entry.schema, entry.name)
            for entry in self.entries
            if entry.name.lower() == name.lower()
        ]
        if len(places) > 1:
            return f"table {name} is in several schemas: {', '.join(places)}"
        if isinstance(failure, duckdb.CatalogException):
            return f"there is no table {name}"
        return f"there is no table {name} ({first_line(failure)})"


def _named_tables(connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[tuple[str, str]]:
    """Folded schema (empty where none is given) and table that `SELECT * FROM name` asks for."""
    ((text,),) = connection.execute(
        "SELECT json_serialize_sql(?::VARCHAR)", [f"SELECT * FROM {name}"]
    ).fetchall()
    waiting: list[Any] = [json.loads(text)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if item.get("type") == "BASE_TABLE":
                yield _folded(item["schema_name"]), _folded(item["table_name"])
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _sole(entries: list[_Entry], name: str) -> tuple[_Entry | None, Resolution | None]:
    """The one entry of this name, as DuckDB folds case or, if there is none, as Unicode does."""
    same = [entry for entry in entries if _folded(entry.name) == _folded(name)]
    if same:
        return (same[0] if len(same) == 1 else None), None
    alike = [entry for entry in entries if entry.name.casefold() == name.casefold()]
    return (alike[0], Resolution.LETTER_CASE) if len(alike) == 1 else (None, None)


def _folded(name: str) -> str:
    """Lower case as DuckDB folds names: ASCII letters only."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _read_findings(path: Path) -> list[_FrozenView]:
    try:
        return TypeAdapter(list[_FrozenView]).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ReadError(
            Reason.UNREADABLE, f"the views were not frozen: {first_line(error)}"
        ) from error
