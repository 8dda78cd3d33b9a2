"""The tool that says what a join does to the number of rows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from stages.common.sql import quote
from stages.gateway.desk import Desk
from stages.gateway.models import Answer, failed
from stages.gateway.relations import TableName, find
from stages.gateway.render import join, table


def compare_join_types(
    desk: Desk,
    left: TableName,
    right: TableName,
    left_columns: Annotated[str, Field(description="Comma-separated join columns of the left.")],
    right_columns: Annotated[
        str, Field(description="Those of the right, in the same order; empty: the same names.")
    ] = "",
) -> Answer:
    """Compare INNER, LEFT, RIGHT and FULL join of two tables by the rows that each would give.

    Rows are counted from the keys, so that nothing large is built. It also shows rows without a
    partner and how far the join fans out.
    """
    with desk.open() as reader:
        first, second = find(reader, left), find(reader, right)
        ours = [first.column(name).name for name in left_columns.split(",")]
        named = right_columns if right_columns.strip() else left_columns
        theirs = [second.column(name).name for name in named.split(",")]
        if len(ours) != len(theirs):
            raise failed(
                f"{len(ours)} columns on the left and {len(theirs)} on the right",
                "name as many on both sides",
            )
        keys = [f"k{index}" for index in range(len(ours))]
        equal = " AND ".join(f"l.{key} = r.{key}" for key in keys)
        sides = []
        for relation, columns in ((first, ours), (second, theirs)):
            listed = ", ".join(
                f"{quote(name)} AS {key}" for name, key in zip(columns, keys, strict=True)
            )
            sides.append(f"SELECT {listed}, count(*) AS n FROM {relation.sql} GROUP BY ALL")
        row = reader.rows(
            f"WITH l AS ({sides[0]}), r AS ({sides[1]}), "
            f"both_sides AS (SELECT l.n AS ln, r.n AS rn FROM l JOIN r ON {equal}) "
            "SELECT (SELECT coalesce(sum(n), 0) FROM l), (SELECT coalesce(sum(n), 0) FROM r), "
            "coalesce(sum(ln * rn), 0), coalesce(sum(ln), 0), coalesce(sum(rn), 0), "
            "coalesce(max(rn), 0), coalesce(max(ln), 0) FROM both_sides"
        )[0]
        left_rows, right_rows, inner, left_met, right_met, most_right, most_left = map(int, row)
        left_only, right_only = left_rows - left_met, right_rows - right_met
        kinds = [
            ("INNER", inner),
            ("LEFT", inner + left_only),
            ("RIGHT", inner + right_only),
            ("FULL", inner + left_only + right_only),
        ]
        notes = [
            f"{first.label}: {left_rows} rows, {left_only} without a partner, "
            f"up to {most_right} partners each.",
            f"{second.label}: {right_rows} rows, {right_only} without a partner, "
            f"up to {most_left} partners each.",
        ]
        if most_right > 1:
            notes.append(
                f"FAN-OUT: a row of {first.label} can meet {most_right} rows of {second.label}; "
                f"sums over {first.label} would count twice."
            )
        condition = " AND ".join(
            f"{first.label}.{a} = {second.label}.{b}" for a, b in zip(ours, theirs, strict=True)
        )
        return join(
            [
                table(["join", "rows"], kinds, desk.limits, title=f"On {condition}"),
                "\n".join(notes),
            ],
            desk.limits,
        )
