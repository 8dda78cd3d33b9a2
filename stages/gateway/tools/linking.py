"""Tools that find the tables for a question, and the way from one table to another."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from typing import Annotated

from pydantic import Field

from stages.common.files import Record
from stages.common.sql import quote
from stages.gateway.connection import Reader
from stages.gateway.desk import Desk
from stages.gateway.models import Answer, CallError
from stages.gateway.relations import Relation, TableName, find, pick, relations
from stages.gateway.render import clip, join, table

COMMON = frozenset(
    [
        "the",
        "a",
        "an",
        "of",
        "and",
        "or",
        "by",
        "for",
        "per",
        "in",
        "on",
        "to",
        "with",
        "each",
        "all",
        "from",
        "is",
        "are",
        "table",
    ]
)
LONGEST_PATH = 4
"""Joins in a path."""
KEY = re.compile(r"(^|_)(id|key|code|no|number|uuid|sk|pk|fk)$|id$", re.IGNORECASE)


def words(text: str) -> list[str]:
    """The words of a name or a sentence, in lower case and in the singular."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    found = re.findall(r"[a-z]+|\d+", split.lower().replace("_", " "))
    return [_singular(word) for word in found if word not in COMMON]


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def schema_link(
    desk: Desk,
    question: Annotated[str, Field(description="What is to be answered or built, in words.")],
    most: Annotated[int, Field(ge=1, le=50, description="How many tables to show.")] = 10,
) -> Answer:
    """Rank the tables that a question is likely to be about, by their names and columns.

    It compares words, not meaning: rare words count more. Look at schema_overview when it finds
    little.
    """
    with desk.open() as reader:
        found = relations(reader)
    asked = set(words(question))
    bags = [
        (item, set(words(item.label)), {column.name: words(column.name) for column in item.columns})
        for item in found
    ]
    seen = Counter(
        word
        for _, name, columns in bags
        for word in name | set(itertools.chain.from_iterable(columns.values()))
    )
    weight = {word: 1 + math.log((1 + len(bags)) / (1 + seen[word])) for word in asked}
    ranked = []
    for item, name, columns in bags:
        matched = [column for column, parts in columns.items() if asked & set(parts)]
        in_columns = {word for parts in columns.values() for word in parts} & asked
        score = 3 * sum(weight[word] for word in name & asked)
        score += sum(weight[word] for word in in_columns)
        if score > 0:
            ranked.append((round(score, 1), item.label, clip(", ".join(matched), 100)))
    ranked.sort(key=lambda row: (-row[0], row[1]))
    return table(
        ["score", "table", "matching columns"],
        ranked[:most],
        desk.limits,
        title=f"{len(ranked)} of {len(found)} tables share words with the question",
    )


class Link(Record):
    """A pair of columns on which two tables can be joined."""

    left: str
    right: str
    left_column: str
    right_column: str


def find_join_path(
    desk: Desk,
    left: TableName,
    right: TableName,
) -> Answer:
    """Find ways to join two tables, directly or through others, over columns that look like keys.

    Links are guessed from names (`x.customer_id = y.customer_id`, `orders.customer_id =
    customers.id`) and types, and tested: `matched` is the share of the left's distinct values
    that the right has, `unique` says whether the right's column has no duplicates.
    """
    with desk.open() as reader:
        found = relations(reader)
        first, last = find(reader, left), find(reader, right)
        paths = _paths(found, first, last)
        if not paths:
            return Answer(
                text=f"No path of up to {LONGEST_PATH} joins over key-like columns of equal name "
                f"and type from {first.label} to {last.label}. compare_join_types tests a pair of "
                "columns that you name.",
                rows=0,
            )
        parts: list[str | Answer] = []
        for number, path in enumerate(paths[:3], start=1):
            rows = [
                (
                    f"{link.left}.{link.left_column} = {link.right}.{link.right_column}",
                    *_tested(reader, found, link),
                )
                for link in path
            ]
            parts.append(
                table(["join", "matched", "unique"], rows, desk.limits, title=f"Path {number}")
            )
        return join(parts, desk.limits)


def _paths(found: list[Relation], first: Relation, last: Relation) -> list[list[Link]]:
    links: dict[str, list[Link]] = {}
    for one, other in itertools.permutations(found, 2):
        for link in _links(one, other):
            links.setdefault(one.label, []).append(link)
    paths: list[list[Link]] = []
    front: list[list[Link]] = [[link] for link in links.get(first.label, [])]
    for _ in range(LONGEST_PATH):
        paths += [path for path in front if path[-1].right == last.label]
        if paths:
            break
        reached = {link.right for path in front for link in path} | {first.label}
        front = [
            [*path, link]
            for path in front[:500]
            for link in links.get(path[-1].right, [])
            if link.right not in reached or link.right == last.label
        ]
    return paths


def _links(one: Relation, other: Relation) -> list[Link]:
    theirs = {column.name.lower(): column for column in other.columns}
    found = []
    for column in one.columns:
        name = column.name.lower()
        if not KEY.search(name):
            continue
        candidates = [name] if name != "id" else []
        # orders.customer_id = customers.id, and the other way round.
        if name.endswith("_id") and words(name[:-3]) == words(other.name)[-len(words(name[:-3])) :]:
            candidates.append("id")
        if name == "id":
            candidates.append(f"{'_'.join(words(one.name))}_id")
        found += [
            Link(
                left=one.label,
                right=other.label,
                left_column=column.name,
                right_column=theirs[candidate].name,
            )
            for candidate in candidates
            if candidate in theirs and _kind(theirs[candidate].type) == _kind(column.type)
        ]
    return found


def _kind(type_name: str) -> str:
    return "number" if re.search(r"INT|DECIMAL|DOUBLE|FLOAT", type_name) else type_name


def _tested(reader: Reader, found: list[Relation], link: Link) -> tuple[str, str]:
    one, other = pick(found, link.left), pick(found, link.right)
    if one is None or other is None:
        return "", ""
    ours, theirs = quote(link.left_column), quote(link.right_column)
    try:
        total, met, rows, distinct = reader.rows(
            f"SELECT count(*), count(*) FILTER (k IN (SELECT {theirs} FROM {other.sql})), "
            f"(SELECT count({theirs}) FROM {other.sql}), "
            f"(SELECT count(DISTINCT {theirs}) FROM {other.sql}) "
            f"FROM (SELECT DISTINCT {ours} AS k FROM {one.sql} WHERE {ours} IS NOT NULL)"
        )[0]
    except CallError as error:
        if error.outcome != "failed":
            raise
        return "cannot be read", ""
    return f"{met} of {total}", "yes" if rows == distinct else f"no ({rows} rows, {distinct} keys)"
