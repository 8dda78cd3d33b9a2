"""What is done to every text from outside before it is shown: masked, made visible, cut."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from stages.report.secrets import mask

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Colours and cursor moves of a terminal."""

UNSEEN = {code: chr(0x2400 + code) for code in range(32) if code not in (9, 10)} | {
    0x7F: "\u2421",
    # Marks that turn the reading direction can make text read as something else.
    **{
        code: f"‹U+{code:04X}›"
        for code in (0x200B, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
    },
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
"""Characters that would not be seen, or could not be written, by what stands for them."""


SHORTEST = 15
"""No credential is shorter."""


def clean(text: str) -> str:
    """The text with line ends alike, no terminal colours, unseen characters shown, and masked."""
    if len(text) < SHORTEST and text.isprintable():
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return mask(text.translate(UNSEEN))


def finalize(value: Any) -> Any:
    """Jinja's last step before escaping: whatever a template prints goes through `clean`."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return clean(value)
    return "" if value is None else value


@dataclass(frozen=True)
class Cut:
    """A text, or its beginning and end."""

    head: str
    tail: str
    left_out: int
    """Characters between the two."""
    total: int

    @property
    def note(self) -> str:
        """What is missing, for the reader."""
        return f"{self.left_out:,} of {self.total:,} characters left out here"


def cut(text: str, limit: int) -> Cut:
    """At most `limit` characters: two thirds from the beginning, the rest from the end."""
    if len(text) <= limit:
        return Cut(text, "", 0, len(text))
    head = limit * 2 // 3
    tail = limit - head
    return Cut(text[:head], text[-tail:], len(text) - limit, len(text))


def one_line(text: str, limit: int = 160) -> str:
    """The first line that holds something, shortened."""
    line = next((line.strip() for line in text[: 20 * limit].splitlines() if line.strip()), "")
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def seconds(value: float) -> str:
    """A duration: `0.4 s`, `12 s`, `3:05 min`, `1:02 h`."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 100:
        return f"{value:.0f} s"
    if value < 6000:
        return f"{int(value) // 60}:{int(value) % 60:02d} min"
    return f"{int(value) // 3600}:{int(value) % 3600 // 60:02d} h"


def money(value: float) -> str:
    """US dollars, with as many digits as such a small sum needs."""
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.4f}"


def count(value: float) -> str:
    """A number of things: `950`, `12.3k`, `4.56M`."""
    if value < 10_000:
        return f"{value:,.0f}"
    return f"{value / 1000:,.1f}k" if value < 1_000_000 else f"{value / 1_000_000:,.2f}M"


def words(label: str) -> str:
    """A label of the program, for reading: `values_differ` as `values differ`."""
    return label.replace("_", " ")
