"""Keeps pages within a size: the longest texts are cut first, and say so."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stages.report.site.payload import pack

TOTAL = 22_000_000
"""Bytes of all pages and traces together; the libraries and the front pages come on top."""
LARGEST = 1_000_000
"""Bytes of one trial's page and trace."""
SMALLEST = 6_000
"""Bytes that a trial may always have, however many there are."""
PAGE = 0.4
"""The page's part of them at most; the trace has the rest."""


@dataclass(frozen=True)
class Level:
    """How much of a trial is shown."""

    text: int
    """Characters of one text of a trace, or of one statement."""

    @property
    def diff(self) -> int:
        """Characters of HTML of all diffs."""
        return self.text * 75 if self.text > 100 else 0


LEVELS = tuple(
    Level(text)
    for text in (
        20_000,
        12_000,
        8_000,
        5_000,
        3_500,
        2_500,
        1_800,
        1_300,
        900,
        650,
        450,
        300,
        150,
        80,
    )
)
OVERHEAD = 1.3
"""How much larger a packed page is than its packed texts: markup and base64, at the least."""


def room(trials: int) -> int:
    """Bytes for each of so many trials."""
    return max(min(TOTAL // max(trials, 1), LARGEST), SMALLEST)


def fit(render: Callable[[Level], str], limit: int, texts: Sequence[str] = ()) -> str:
    """The packed HTML of the first level that fits into `limit` bytes, else of the last.

    `texts` are those that a level cuts: what they take packed tells which levels are worth a try.
    """
    first = bisect_left(range(len(LEVELS) - 1), True, key=lambda n: _least(texts, n) <= limit)
    longest = max(map(len, texts), default=LARGEST)
    packed = ""
    for number in range(first, len(LEVELS)):
        if packed and longest <= LEVELS[number].text and number + 1 < len(LEVELS):
            continue  # It would cut nothing more than the one before.
        packed = pack(render(LEVELS[number]))
        if len(packed) <= limit:
            break
    return packed


def _least(texts: Sequence[str], number: int) -> int:
    kept = "\n".join(text[: LEVELS[number].text] for text in texts)
    return int(len(zlib.compress(kept.encode("utf-8", errors="replace"), 1)) * OVERHEAD)
