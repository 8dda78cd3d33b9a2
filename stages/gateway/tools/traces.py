"""Tools that look into a statement's steps and back at earlier calls."""

from __future__ import annotations

from typing import Annotated

import sqlglot
from pydantic import Field
from sqlglot import exp

from stages.common.sql import quote
from stages.gateway import log
from stages.gateway.desk import Desk
from stages.gateway.models import Answer, CallError, failed
from stages.gateway.render import clip, join, table
from stages.gateway.tools.queries import Sql, allow


def debug_cte_query(
    desk: Desk,
    sql: Sql,
    sample: Annotated[int, Field(ge=0, le=10, description="Sample rows of each step.")] = 2,
) -> Answer:
    """Run a WITH query step by step: how many rows each CTE has, up to the first that fails.

    Use it to find where rows get lost, multiply, or become NULL.
    """
    allow(desk, sql)
    tree = _parsed(sql)
    clause = tree.args.get("with_") or tree.args.get("with")
    if not isinstance(clause, exp.With):
        raise failed("the statement has no WITH clause", "use query_database")
    names = [step.alias for step in clause.expressions]
    steps: list[tuple[str, str]] = []
    for number, name in enumerate(names, start=1):
        part = clause.copy()
        part.set("expressions", part.expressions[:number])
        steps.append((name, f"{part.sql('duckdb')} SELECT * FROM {quote(name)}"))
    steps.append(("(final)", sql))
    judged = [(name, allow(desk, text)) for name, text in steps]
    rows: list[tuple[str, str]] = []
    samples: list[str | Answer] = []
    with desk.open() as reader:
        for name, allowed in judged:
            reader.check(allowed)
            try:
                # A new line first: the statement may end in a comment.
                count = reader.rows(f"SELECT count(*) FROM ({allowed.sql}\n)")[0][0]
                rows.append((name, str(count)))
                if sample:
                    head, found = reader.select(f"FROM ({allowed.sql}\n) LIMIT {sample}")
                    samples.append(table(head, found, desk.limits, title=f"`{name}`"))
            except CallError as error:
                rows.append((name, f"{error.outcome}: {clip(error.what, 300)}"))
                break
    wide = desk.limits.model_copy(update={"cell": 320})
    return join([table(["step", "rows"], rows, wide), *samples], desk.limits)


def _parsed(sql: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(sql, read="duckdb")
    except (sqlglot.ParseError, sqlglot.TokenError, RecursionError) as error:
        raise failed(
            f"the statement cannot be taken apart: {str(error).splitlines()[0]}",
            "use query_database on the parts",
        ) from None


def query_history(
    desk: Desk,
    last: Annotated[int, Field(ge=1, le=200, description="How many calls to show.")] = 20,
    only_failed: Annotated[
        bool, Field(description="Only calls that were refused, failed or ran out of time.")
    ] = False,
) -> Answer:
    """Show the latest calls of this task, newest last: tool, statement, rows, duration, outcome."""
    calls = log.read(desk.settings.log, last=2000)
    if only_failed:
        calls = [call for call in calls if call.outcome not in ("ok", "cut")]
    rows = [
        (
            call.tool,
            clip(call.sql or str(call.arguments), 200),
            "" if call.rows is None else call.rows,
            call.ms,
            call.outcome,
            clip(call.error, 100),
        )
        for call in calls[-last:]
    ]
    wide = desk.limits.model_copy(update={"cell": 200})
    return table(["tool", "sql or arguments", "rows", "ms", "outcome", "error"], rows, wide)
