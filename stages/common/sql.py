"""SQL that every part writes alike. Standard library only: sandboxes import it."""

from __future__ import annotations


def quote(*names: str) -> str:
    """A DuckDB name in double quotes, its parts joined by dots."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def quote_text(text: str) -> str:
    """A DuckDB string literal."""
    return "'" + text.replace("'", "''") + "'"
