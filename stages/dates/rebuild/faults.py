"""Reads dbt's messages: why a project does not parse, and which model is to blame."""

from __future__ import annotations

import re

_BLAMED = (
    re.compile(r"\b[Mm]odel '(?:\w+\.)*(\w+)'"),
    re.compile(r"\b[Ss]napshot '(?:\w+\.)*(\w+)'"),
    re.compile(r"\bin (?:model|snapshot) (\w+)"),
)


_LACKED = re.compile(r"depends on a node named '([^']+)'")


def lacked(message: str) -> str | None:
    """The name of the model that dbt's parse error says is missing; null where it says none."""
    found = _LACKED.search(message)
    return found.group(1) if found else None


def blamed(message: str) -> str | None:
    """The name of the model in dbt's parse error; null where it names none."""
    for pattern in _BLAMED:
        found = pattern.search(message)
        if found:
            return found.group(1)
    return None


def one_line(message: str) -> str:
    """A message in one line, without dbt's headings and hints."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    lines = [line for line in lines if not re.match(r"(called by|> in) ", line)]
    return " ".join(lines[:2])[:300] or "no message"
