"""What an agent changed in its project, file by file, against the start project."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from stages.common.files import walk
from stages.report.site.highlight import language, lines
from stages.report.site.shown import clean

NOT_WRITTEN = (
    ".claude",
    ".git",
    ".user.yml",
    "CLAUDE.md",
    "__pycache__",
    "dbt_packages",
    "logs",
    "reference_snapshot.md",
    "target",
)
"""Names that the harness or dbt lays down, not the agent."""

NOT_TEXT = (".duckdb", ".wal", ".parquet", ".db", ".png", ".gz", ".zip", ".msgpack")
LARGEST = 200_000
"""Bytes of a file that is still compared."""
MOST_LINES = 4_000
"""Lines of a file that is still compared."""
MOST_FILES = 200
CONTEXT = 3
"""Unchanged lines that are shown around a change."""
LINE = 2_000
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Line:
    """One line of a diff."""

    kind: str
    """`same`, `added` or `removed`."""
    old: int | None
    new: int | None
    html: Markup


@dataclass(frozen=True)
class Change:
    """One file that is not as it was."""

    path: str
    kind: str
    """`added`, `removed` or `changed`."""
    hunks: tuple[tuple[Line, ...], ...]
    added: int
    removed: int
    note: str = ""
    """Why there is no diff, or what is missing from it."""

    def weight(self) -> int:
        """Characters of its HTML."""
        return sum(len(line.html) + 40 for hunk in self.hunks for line in hunk)


def find_changes(project: Path, *starts: Path | None) -> list[Change]:
    """The files of `project` that differ from the start project, SQL first.

    `starts` are the folders that were laid over one another to make it. Links are passed over:
    an agent may have made them, and they may point anywhere.
    """
    before: dict[str, Path] = {}
    for start in starts:
        if start is not None:
            before |= dict(_texts(start))
    after = dict(_texts(project))
    names = sorted({*before, *after}, key=lambda name: (not name.endswith(".sql"), name))
    found = []
    for name in names:
        change = _compare(name, before.get(name), after.get(name))
        if change is not None:
            found.append(change)
    return found[:MOST_FILES]


def _texts(root: Path) -> Iterator[tuple[str, Path]]:
    for path in walk(root, skip=NOT_WRITTEN):
        if path.suffix.lower() not in NOT_TEXT and not path.is_symlink() and path.is_file():
            yield path.relative_to(root).as_posix(), path


def _compare(name: str, before: Path | None, after: Path | None) -> Change | None:
    sizes = [path.stat().st_size if path else 0 for path in (before, after)]
    if before and after and sizes[0] == sizes[1] and before.read_bytes() == after.read_bytes():
        return None
    kind = "changed" if before and after else "added" if after else "removed"
    if max(sizes) > LARGEST:
        note = f"{max(sizes):,} bytes: too large to be compared here"
        return Change(name, kind, (), 0, 0, note)
    texts = [path.read_bytes() if path else b"" for path in (before, after)]
    if any(b"\0" in text for text in texts):
        return Change(name, kind, (), 0, 0, f"no text, {max(sizes):,} bytes")
    old, new = (clean(text.decode("utf-8", errors="replace")) for text in texts)
    if old == new:
        return Change(name, kind, (), 0, 0, "empty" if not new else "only line ends differ")
    return diff(name, kind, old, new)


def diff(name: str, kind: str, old: str, new: str) -> Change:
    """The change from one cleaned text to another, with its syntax marked."""
    lexer = language(name)
    was, now = _split(old, lexer), _split(new, lexer)
    if max(len(was[0]), len(now[0])) > MOST_LINES:
        note = f"{max(len(was[0]), len(now[0])):,} lines: too many to be compared here"
        return Change(name, kind, (), 0, 0, note)
    matcher = difflib.SequenceMatcher(None, was[0], now[0])
    hunks = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
        hunk: list[Line] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                pairs = zip(range(i1, i2), range(j1, j2), strict=True)
                hunk += [Line("same", i + 1, j + 1, now[1][j]) for i, j in pairs]
                continue
            hunk += [Line("removed", i + 1, None, was[1][i]) for i in range(i1, i2)]
            hunk += [Line("added", None, j + 1, now[1][j]) for j in range(j1, j2)]
        hunks.append(tuple(hunk))
    kinds = [line.kind for hunk in hunks for line in hunk]
    return Change(name, kind, tuple(hunks), kinds.count("added"), kinds.count("removed"))


def _split(text: str, lexer: str | None) -> tuple[list[str], list[Markup]]:
    """The lines of a text, plain and marked; a final newline makes no line of its own."""
    shown = "\n".join(
        line if len(line) <= LINE else f"{line[:LINE]}… ({len(line):,} characters)"
        for line in text.split("\n")
    )
    plain, marked = text.split("\n"), lines(shown, lexer)
    if plain[-1] == "":
        return plain[:-1], marked[:-1]
    return plain, marked
