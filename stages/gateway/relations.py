"""Tables, views and columns of the open database, found by whatever name they are asked by."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from stages.common.files import Record
from stages.common.sql import quote
from stages.gateway.connection import Reader
from stages.gateway.models import CallError, failed

TableName = Annotated[
    str, Field(description="Table or view: `name` or `schema.name`; case does not matter.")
]


class Column(Record):
    """A column."""

    name: str
    type: str


class Relation(Record):
    """A table or a view."""

    schema_name: str
    name: str
    kind: str
    """`table` or `view`."""
    columns: tuple[Column, ...]

    @property
    def sql(self) -> str:
        """Its quoted name."""
        return quote(self.schema_name, self.name)

    @property
    def label(self) -> str:
        """Its name for a reader: with the schema, where that is not `main`."""
        return self.name if self.schema_name == "main" else f"{self.schema_name}.{self.name}"

    def column(self, name: str) -> Column:
        """A column by its name in any case.

        Raises:
            CallError: there is none; the message has the nearest names.
        """
        wanted = name.strip().strip('"')
        for column in self.columns:
            if column.name == wanted:
                return column
        for column in self.columns:
            if column.name.lower() == wanted.lower():
                return column
        raise unknown(f"column of {self.label}", wanted, [column.name for column in self.columns])


def unknown(kind: str, wanted: str, names: Iterable[str]) -> CallError:
    """The error for a name that does not exist, with the nearest that do."""
    choices = sorted(set(names))
    folded = {name.lower(): name for name in choices}
    near = difflib.get_close_matches(wanted.lower(), list(folded), n=4, cutoff=0.5)
    near += [name for name in folded if wanted.lower() in name and name not in near][:4]
    if near:
        remedy = "nearest: " + ", ".join(folded[name] for name in near)
    else:
        remedy = f"there are: {', '.join(choices[:30])}" if choices else "there are none"
    return failed(f"no {kind} {wanted!r}", remedy)


def relations(reader: Reader) -> list[Relation]:
    """Every table and view of the database, by schema and name, without row counts."""
    kinds = reader.catalog(
        "SELECT schema_name, table_name, 'table' FROM duckdb_tables() "
        "WHERE database_name = current_database() AND NOT internal UNION ALL "
        "SELECT schema_name, view_name, 'view' FROM duckdb_views() "
        "WHERE database_name = current_database() AND NOT internal ORDER BY ALL"
    )
    columns: dict[tuple[str, str], list[Column]] = {}
    for schema, table, name, kind in reader.catalog(
        "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = current_database() AND NOT internal "
        "ORDER BY schema_name, table_name, column_index"
    ):
        columns.setdefault((schema, table), []).append(Column(name=name, type=kind))
    return [
        Relation(
            schema_name=schema,
            name=name,
            kind=kind,
            columns=tuple(columns.get((schema, name), ())),
        )
        for schema, name, kind in kinds
    ]


def find(reader: Reader, name: str) -> Relation:
    """The relation of that name; `main` is preferred where several schemas have it.

    Raises:
        CallError: there is none; the message has the nearest names.
    """
    found = relations(reader)
    match = pick(found, name)
    if match is None:
        raise unknown("table or view", name, [relation.label for relation in found])
    return match


def pick(found: Iterable[Relation], name: str) -> Relation | None:
    """The relation of that name among `found`, if there is one."""
    wanted = name.strip().replace('"', "").lower()
    matches = [
        relation
        for relation in found
        if relation.name.lower() == wanted
        or wanted.endswith(f"{relation.schema_name}.{relation.name}".lower())
    ]
    ranked = sorted(
        matches, key=lambda item: (item.name.lower() != wanted, item.schema_name != "main")
    )
    exact = [item for item in matches if f".{item.schema_name}.{item.name}".lower() in f".{wanted}"]
    return next(iter(exact or ranked), None)


def count(reader: Reader, relation: Relation) -> int:
    """How many rows it has."""
    return int(reader.rows(f"SELECT count(*) FROM {relation.sql}")[0][0])


def count_or_reason(reader: Reader, relation: Relation) -> int | str:
    """How many rows it has, or why it cannot be read (a broken view)."""
    try:
        return count(reader, relation)
    except CallError as error:
        if error.outcome != "failed":
            raise
        return f"cannot be read: {error.what.splitlines()[0]}"
