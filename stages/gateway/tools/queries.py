"""Tools that run, check and explain a statement of the client's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import sqlglot
from pydantic import Field
from sqlglot import exp

from stages.gateway.connection import Reader
from stages.gateway.desk import Desk
from stages.gateway.models import Answer, CallError, failed
from stages.gateway.policy import Allowed
from stages.gateway.relations import relations, unknown
from stages.gateway.render import bounded, join, table

Sql = Annotated[
    str,
    Field(description="One statement that reads: SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE."),
]


def query_database(
    desk: Desk,
    sql: Sql,
    rows: Annotated[
        int, Field(ge=1, description="Most rows to show; the server's own limit holds too.")
    ] = 100,
) -> Answer:
    """Run one SELECT on the task's database and show its rows.

    DuckDB's dialect, on the date that dbt builds with (current_date). Jinja is not understood:
    write table names, not ref(). The answer says CUT when there are more rows.
    """
    allowed = allow(desk, sql)
    with desk.open() as reader:
        reader.check(allowed)
        names, found = _select(reader, allowed)
        limits = desk.limits.model_copy(update={"rows": min(rows, desk.limits.rows)})
        return table(names, found, limits)


def validate_sql(desk: Desk, sql: Sql) -> Answer:
    """Check a SELECT without running it: its syntax, its names, and its result's column types.

    It also warns of what is legal and often wrong (a join without condition, `= NULL`, LIMIT
    without ORDER BY, row_number without ORDER BY, NOT IN with a subquery).
    """
    allowed = allow(desk, sql)
    with desk.open() as reader:
        reader.check(allowed)
        _explained(reader, allowed)
        parts: list[str | Answer] = ["VALID: it parses, and all its names exist."]
        columns = result_columns(reader, allowed.sql)
        if columns:
            parts.append(table(["column", "type"], columns, desk.limits, title="Result"))
        if found := warnings(sql):
            parts.append("Warnings:\n" + "\n".join(f"- {warning}" for warning in found))
        return join(parts, desk.limits)


def explain_query(desk: Desk, sql: Sql) -> Answer:
    """Show DuckDB's plan of a SELECT without running it: join order and estimated row counts."""
    allowed = allow(desk, sql)
    with desk.open() as reader:
        reader.check(allowed)
        plan = _explained(reader, allowed)
    text = bounded(plan, desk.limits.bytes)
    return Answer(text=f"```\n{text}\n```", cut=text != plan)


def allow(desk: Desk, sql: str) -> Allowed:
    """See `Desk.judge`; a statement that fails for its Jinja is told so."""
    try:
        return desk.judge(sql)
    except CallError as error:
        if "{{" in sql or "{%" in sql:
            raise CallError(
                error.outcome,
                f"{error.what.splitlines()[0]} (the statement holds Jinja, which only dbt reads)",
                remedy="write table names instead of ref() and source(); after `dbt compile` the "
                "SQL lies in target/compiled/",
            ) from None
        raise


def result_columns(reader: Reader, sql: str) -> list[tuple[str, str]]:
    """Names and types of a SELECT's columns; none for DESCRIBE and its like."""
    try:
        return [(row[0], row[1]) for row in reader.rows(f"DESCRIBE {sql}")]
    except CallError as error:
        if error.outcome != "failed":
            raise
        return []


def _select(reader: Reader, allowed: Allowed) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    try:
        return reader.select(allowed.sql)
    except CallError as error:
        raise _helped(reader, error) from None


def _explained(reader: Reader, allowed: Allowed) -> str:
    try:
        return "\n".join(str(row[1]) for row in reader.rows(f"EXPLAIN {allowed.sql}"))
    except CallError as error:
        raise _helped(reader, error) from None


def _helped(reader: Reader, error: CallError) -> CallError:
    """The error with the nearest table names, where it is about a table that does not exist."""
    head = error.what.splitlines()[0] if error.what else ""
    if error.outcome != "failed" or "Table with name" not in head:
        return error
    wanted = head.split("Table with name")[1].split("does not exist")[0].strip(' "')
    found = unknown("table", wanted, [item.label for item in relations(reader)])
    return failed(error.what, found.remedy)


def warnings(sql: str) -> list[str]:
    """What is legal and often wrong in a statement; empty where sqlglot cannot parse it."""
    try:
        tree = sqlglot.parse_one(sql, read="duckdb")
    except (sqlglot.ParseError, sqlglot.TokenError, RecursionError):
        return []
    found = []
    for join_node in tree.find_all(exp.Join):
        bare = not any(join_node.args.get(part) for part in ("on", "using", "method"))
        lateral = isinstance(join_node.this, exp.Lateral | exp.Unnest)
        if bare and not lateral and join_node.kind != "CROSS":
            found.append(f"`{join_node.sql('duckdb')[:80]}` has no condition")
    for equals in tree.find_all(exp.EQ, exp.NEQ):
        if isinstance(equals.expression, exp.Null) or isinstance(equals.this, exp.Null):
            found.append(f"`{equals.sql('duckdb')[:80]}` is never true: use IS NULL")
    for select in tree.find_all(exp.Select):
        if select.args.get("limit") and not select.args.get("order"):
            found.append("LIMIT without ORDER BY: which rows come is not defined")
    for window in tree.find_all(exp.Window):
        if isinstance(window.this, exp.RowNumber) and not window.args.get("order"):
            found.append("row_number() without ORDER BY: the numbering is not defined")
    for member in tree.find_all(exp.Not):
        if isinstance(member.this, exp.In) and member.this.args.get("query"):
            found.append("NOT IN (subquery) is empty when the subquery holds a NULL")
    return list(dict.fromkeys(found))
