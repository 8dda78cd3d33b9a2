"""Pairs gold's rows with the result's, so that what differs can be shown side by side."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stages.evaluate.strict.kinds import Facet
from stages.evaluate.strict.sides import Side

Vector = npt.NDArray[Any]

KEY_FROM = (12, 6, 5)
"""A key is sought among so many leading columns: one column, two columns, three."""

ENOUGH = 0.5
"""The share of the shorter table's rows that a key has to pair, or the next one is tried."""


@dataclass(frozen=True)
class Pairing:
    """Rows of gold and of the result that belong together, by row number from 0."""

    key: tuple[tuple[int, int], ...]
    """The key's columns, in gold and in the result; empty where rows are paired by number."""
    gold: Vector
    result: Vector
    """Row numbers, in the order of gold's rows."""
    only_gold: Vector
    only_result: Vector


def pair_by_number(gold: Side, result: Side) -> Pairing:
    """The first row with the first, and so on."""
    both = np.arange(min(gold.rows, result.rows))
    rest = (np.arange(len(both), side.rows) for side in (gold, result))
    return Pairing((), both, both, *rest)


def pair_by_key(gold: Side, result: Side, without: Collection[int] = ()) -> Pairing | None:
    """Pair rows by the leading columns that are unique in gold and in the result too.

    A column serves where the result has one of its name and kind, where it holds no
    floating-point numbers, and where it is not among `without`. Null where no key pairs any
    rows.
    """
    best: Pairing | None = None
    for key in _keys(gold, result, without):
        found = _paired(gold, result, key)
        if len(found.gold) >= ENOUGH * min(gold.rows, result.rows):
            return found
        if len(found.gold) and (best is None or len(found.gold) > len(best.gold)):
            best = found
    return best


def namesake(gold: Side, at: int, result: Side) -> int | None:
    """The result's column of the same name, case aside."""
    name = gold.name(at).lower()
    return next(
        (other for other in range(len(result.facets)) if result.name(other).lower() == name), None
    )


def _keys(
    gold: Side, result: Side, without: Collection[int]
) -> Iterator[tuple[tuple[int, int], ...]]:
    shared: list[tuple[int, int]] = []
    for at, known in enumerate(gold.facets):
        other = namesake(gold, at, result)
        if at in without or other is None or not (known.exact and result.facets[other].exact):
            continue
        if known.kind == result.facets[other].kind:
            shared.append((at, other))
    unique: list[set[tuple[int, int]]] = []
    for size, leading in enumerate(KEY_FROM, 1):
        for key in itertools.combinations(shared[:leading], size):
            if any(smaller <= set(key) for smaller in unique):
                continue
            if _is_unique(gold, [gold.facets[at] for at, _ in key]):
                unique.append(set(key))
                yield key


def _is_unique(gold: Side, facets: list[Facet]) -> bool:
    codes = ", ".join(known.text_code for known in facets)
    sql = f"SELECT count(DISTINCT hash({codes})) FROM {gold.table.source}"
    ((distinct,),) = gold.table.connection.execute(sql).fetchall()
    return bool(distinct == gold.rows)


def _paired(gold: Side, result: Side, key: tuple[tuple[int, int], ...]) -> Pairing:
    ours = gold.row_codes([gold.facets[at].text_code for at, _ in key])
    theirs = result.row_codes([result.facets[other].text_code for _, other in key])
    found, places = np.unique(theirs, return_index=True)
    if not len(found):
        nothing = np.arange(0)
        return Pairing(key, nothing, nothing, np.arange(len(ours)), nothing)
    at = np.minimum(np.searchsorted(found, ours), len(found) - 1)
    there = found[at] == ours
    rows, others = np.flatnonzero(there), places[at[there]]
    rest = np.ones(len(theirs), dtype=bool)
    rest[others] = False
    return Pairing(key, rows, others, np.flatnonzero(~there), np.flatnonzero(rest))
