"""The console that every stage prints to."""

from __future__ import annotations

from rich.console import Console

LOG_WIDTH = 150
"""Columns where the output is no terminal: a log has no edge, and wrapped tables read badly."""


def make_console() -> Console:
    """As wide as the terminal or, elsewhere, as `LOG_WIDTH`."""
    console = Console()
    return console if console.is_terminal else Console(width=LOG_WIDTH)
