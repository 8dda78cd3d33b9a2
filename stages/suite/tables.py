"""The tables and views of one DuckDB file, and how a graded name is found among them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from stages.common.files import Record
from stages.common.sql import quote


class Relation(Record):
    """A table or view."""

    name: str
    table_schema: str = "main"
    is_view: bool = False

    @property
    def quoted(self) -> str:
        """Schema and name as SQL."""
        return quote(self.table_schema, self.name)

    @property
    def label(self) -> str:
        """As a reader names it: without the schema where that is main."""
        return self.name if self.table_schema == "main" else f"{self.table_schema}.{self.name}"


@contextmanager
def opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection to one file that reaches nothing beyond it.

    The catalog has the file's stem as its name, which the file's views may count on. Raises
    `duckdb.Error` for a file that is no database, is damaged or is of a newer format.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": False,
        "autoload_known_extensions": False,
    }
    connection = duckdb.connect(str(path), read_only=True, config=config)
    try:
        yield connection
    finally:
        connection.close()


def first_line(error: duckdb.Error, path: Path) -> str:
    """DuckDB's first line on `path`, with the file's name in place of its absolute path."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line.replace(str(path.resolve()), path.name).replace(str(path), path.name)


def relations(connection: duckdb.DuckDBPyConnection) -> list[Relation]:
    """Every table and view of the opened file, sorted by schema and name."""
    rows = connection.execute(
        """
        SELECT schema_name, table_name, false FROM duckdb_tables()
        WHERE database_name = current_database() AND NOT internal AND NOT temporary
        UNION ALL
        SELECT schema_name, view_name, true FROM duckdb_views()
        WHERE database_name = current_database() AND NOT internal AND NOT temporary
        ORDER BY ALL
        """
    ).fetchall()
    return [Relation(table_schema=row[0], name=row[1], is_view=row[2]) for row in rows]


def columns(connection: duckdb.DuckDBPyConnection, relation: Relation) -> list[str]:
    """A relation's column names in order; raises `duckdb.Error` for a view that does not bind."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation.quoted}").fetchall()
    return [row[0] for row in rows]


def respelled(name: str) -> str | None:
    """`fct_x` for `fact_x` and the other way round, in any case; None for other names.

    Published configs and golds disagree on these prefixes.
    """
    for prefix, other in (("fct_", "fact_"), ("fact_", "fct_")):
        if name.lower().startswith(prefix):
            return other + name[len(prefix) :]
    return None


def resolve(name: str, among: list[Relation]) -> Relation | None:
    """The relation that a graded name stands for, or none; the evaluate stage looks alike.

    In this order, without regard to case as DuckDB has it: `schema.name`; the name in `main`;
    there with `fct_` and `fact_` exchanged; the name in the only other schema that has it;
    there with the prefix exchanged.
    """
    wanted, other = name.lower(), respelled(name.lower())
    for relation in among:
        if f"{relation.table_schema}.{relation.name}".lower() == wanted:
            return relation
    spellings = [wanted] if other is None else [wanted, other]
    for in_main in (True, False):
        for spelling in spellings:
            found = [
                relation
                for relation in among
                if (relation.table_schema == "main") is in_main
                and relation.name.lower() == spelling
            ]
            if len(found) == 1:
                return found[0]
    return None
