"""Rewrites databases of a newer storage format, so that every stack's DuckDB opens them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import duckdb

from stages.common.sql import quote, quote_text
from stages.suite.tables import opened

OLDEST = "v1.0.0"
"""The storage version that all DuckDB releases from 0.10 on read."""


def is_newer(path: Path) -> bool:
    """Whether a database is of a newer format than `OLDEST`; raises `duckdb.Error`."""
    with opened(path) as connection:
        row = connection.execute(
            "SELECT tags['storage_version'] FROM duckdb_databases() "
            "WHERE database_name = current_database()"
        ).fetchone()
    return row is not None and row[0] is not None and not str(row[0]).startswith(OLDEST)


def rewrite(path: Path) -> bool:
    """Rewrite a newer database in place, rows in their order; whether there was need to.

    Raises `duckdb.Error` where it cannot be opened, or holds what the older format has no
    place for; the file is then as before.
    """
    if not is_newer(path):
        return False
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=".rewriting-"))
    try:
        # The catalog keeps its name, the file's stem, since views may ask for it.
        renewed, catalog = folder / path.name, quote(path.stem)
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1")
            connection.execute(f"ATTACH {quote_text(str(path))} AS {catalog} (READ_ONLY)")
            connection.execute(
                f"ATTACH {quote_text(str(renewed))} AS rewritten (STORAGE_VERSION '{OLDEST}')"
            )
            connection.execute(f"COPY FROM DATABASE {catalog} TO rewritten")
        renewed.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True
