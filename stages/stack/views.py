"""Freezes a database's views: reads each once, and keeps what it showed as a table beside it.

A view evaluates `current_date`, and the engine's rules, whenever it is read. Runs under the
stack's Python and on the task's clock: `python -m stages.stack.views DATABASE OUT SECONDS`.
Needs DuckDB and the standard library only.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb

from stages.common.sql import quote, quote_text

MISSING_CATALOG = re.compile(r'(?:[Cc]atalog|schema) "([^".]+)(?:\.[^"]*)?" does not exist')
"""How DuckDB 1.1 and 2.0 say that a view names a catalog that is not attached."""


class Source:
    """The database whose views are read, attached read-only under a catalog name."""

    def __init__(self, connection: Any, database: Path, home: str) -> None:
        self.connection = connection
        self.path = quote_text(str(database))
        self.home = home
        self.catalog = database.stem
        self._attach()

    def _attach(self) -> None:
        self.connection.execute(f"ATTACH {self.path} AS {quote(self.catalog)} (READ_ONLY)")
        self.connection.execute(f"USE {quote(self.catalog)}")

    def rename(self, catalog: str) -> None:
        """Attach the same file under another name: views of a renamed file ask for the old one."""
        self.connection.execute(f"USE {quote(self.home)}")
        self.connection.execute(f"DETACH {quote(self.catalog)}")
        self.catalog = catalog
        self._attach()

    def views(self) -> list[tuple[str, str]]:
        """Schema and name of every view that a user made, sorted."""
        rows = self.connection.execute(
            "SELECT schema_name, view_name FROM duckdb_views() "
            "WHERE NOT internal AND database_name = ? ORDER BY ALL",
            [self.catalog],
        ).fetchall()
        return [(schema, view) for schema, view in rows]

    def copy_view(self, schema: str, view: str) -> int:
        """Copy one view's rows to a table of the same name at home; how many there are."""
        table = quote(self.home, schema, view)
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(self.home, schema)}")
        tried = {self.catalog}
        while True:
            name = quote(self.catalog, schema, view)
            try:
                self.connection.execute(f"CREATE TABLE {table} AS SELECT * FROM {name}")
                break
            except duckdb.Error as error:
                missing = MISSING_CATALOG.search(str(error))
                if missing is None or missing.group(1) in tried:
                    raise
                tried.add(missing.group(1))
                self.rename(missing.group(1))
        return int(self.connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def freeze(database: Path, out: Path, seconds: float) -> None:
    """Write `out/views.duckdb` (a table a view, same schema and name) and `out/views.json`.

    A view that cannot be read, or not within `seconds` for all of them together, is listed
    as failed with its error. A write-ahead log that a killed process left is merged first.
    """
    out.mkdir(parents=True, exist_ok=True)
    if database.with_name(database.name + ".wal").exists():
        with duckdb.connect(str(database)) as writer:
            writer.execute("CHECKPOINT")
    building = out / "frozen_views_in_building.duckdb"
    building.unlink(missing_ok=True)
    deadline = time.monotonic() + seconds
    with duckdb.connect(str(building)) as connection:
        source = Source(connection, database, building.stem)
        report = [read_view(source, *name, deadline) for name in source.views()]
    building.replace(out / "views.duckdb")
    (out / "views.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def read_view(source: Source, schema: str, view: str, deadline: float) -> dict[str, Any]:
    """Freeze one view, interrupted at `deadline` (monotonic seconds); the finding as JSON."""
    found: dict[str, Any] = {"schema": schema, "view": view, "rows": None, "error": None}
    left = deadline - time.monotonic()
    if left <= 0:
        return found | {"status": "failed", "error": "not read: the time limit was used up"}
    alarm = threading.Timer(left, source.connection.interrupt)
    alarm.start()
    try:
        return found | {"status": "frozen", "rows": source.copy_view(schema, view)}
    except duckdb.Error as error:
        return found | {"status": "failed", "error": str(error).strip()}
    finally:
        alarm.cancel()


if __name__ == "__main__":
    freeze(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
