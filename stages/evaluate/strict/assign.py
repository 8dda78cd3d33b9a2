"""Gives each graded column of gold a column of the result for its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

Pair = tuple[int, int]
"""A column of gold and one of the result, by position."""

TRIES = 2000
"""Sets of pairs to test at most, so that a table of many alike columns ends."""


class UndecidedError(Exception):
    """No assignment was found in `TRIES` tries, and not all were tried."""


def injective(candidates: Mapping[int, Sequence[int]]) -> dict[int, int] | None:
    """Any assignment in which no column serves twice; null where there is none."""
    rows = list(candidates)
    width = 1 + max((item for items in candidates.values() for item in items), default=0)
    grid = np.zeros((len(rows), width), dtype=bool)
    for at, row in enumerate(rows):
        grid[at, list(candidates[row])] = True
    found = maximum_bipartite_matching(csr_array(grid), perm_type="column")
    if (found < 0).any():
        return None
    return {row: int(found[at]) for at, row in enumerate(rows)}


def likeliest(candidates: Mapping[int, Sequence[int]]) -> dict[int, int] | None:
    """Each column's likeliest candidate that is still free; null where none is."""
    taken: dict[int, int] = {}
    for column in _order(candidates):
        used = set(taken.values())
        free = next((item for item in candidates[column] if item not in used), None)
        if free is None:
            return None
        taken[column] = free
    return taken


def _order(candidates: Mapping[int, Sequence[int]]) -> list[int]:
    """Columns of few candidates go first."""
    return sorted(candidates, key=lambda column: (len(candidates[column]), column))


def assign(
    candidates: Mapping[int, Sequence[int]],
    holds: Callable[[tuple[Pair, ...]], bool],
    alike: Callable[[int, int], bool],
) -> dict[int, int] | None:
    """An assignment under which the rows agree; null where there is none.

    Args:
        candidates: For each column of gold the columns of the result, the likeliest first.
        holds: Whether the rows agree on these pairs of columns; false for some pairs makes
            it false for all that include them.
        alike: Whether two columns of the result are the same in every row: where one fails,
            so does the other.

    Raises:
        UndecidedError: see `TRIES`.
    """
    if injective(candidates) is None:
        return None
    guess = likeliest(candidates)
    if guess is not None and holds(tuple(guess.items())):
        return guess
    return _Search(_order(candidates), candidates, holds, alike).run()


class _Search:
    def __init__(
        self,
        order: Sequence[int],
        candidates: Mapping[int, Sequence[int]],
        holds: Callable[[tuple[Pair, ...]], bool],
        alike: Callable[[int, int], bool],
    ) -> None:
        self._order = order
        self._candidates = candidates
        self._holds = holds
        self._alike = alike
        self._left = TRIES

    def run(self) -> dict[int, int] | None:
        """Columns with one candidate at once, since there is no choice; then depth first."""
        sure = [column for column in self._order if len(self._candidates[column]) == 1]
        pairs = tuple((column, self._candidates[column][0]) for column in sure)
        if pairs and not self._holds(pairs):
            return None
        found = self._extend(pairs)
        return None if found is None else dict(found)

    def _extend(self, pairs: tuple[Pair, ...]) -> tuple[Pair, ...] | None:
        if len(pairs) == len(self._order):
            return pairs
        column = self._order[len(pairs)]
        used = {result for _, result in pairs}
        failed: list[int] = []
        for candidate in self._candidates[column]:
            if candidate in used or any(self._alike(candidate, other) for other in failed):
                continue
            if self._left == 0:
                raise UndecidedError
            self._left -= 1
            longer = (*pairs, (column, candidate))
            if self._holds(longer) and (found := self._extend(longer)) is not None:
                return found
            failed.append(candidate)
        return None
