"""What the gateway's parts hand to one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from stages.common.errors import UserError
from stages.common.files import Record

Outcome = Literal["ok", "cut", "refused", "failed", "timeout", "locked"]
"""How a call ended: answered in full, answered in part, not allowed, or not possible."""


class Limits(Record):
    """What one call may take."""

    rows: int = 200
    """Rows of a result that are shown."""
    bytes: int = 24_000
    """Size of an answer, UTF-8."""
    cell: int = 120
    """Characters of one value."""
    query_s: float = 60.0
    """Seconds that a call may read the database for."""
    lock_s: float = 600.0
    """Seconds to wait while another process holds the database's lock."""
    memory_mb: int = 1024
    """DuckDB's memory limit."""
    threads: int = 2


class Settings(Record):
    """What a server serves."""

    database: Path
    project: Path
    log: Path
    limits: Limits = Limits()

    @property
    def name(self) -> str:
        """The connection's name: the file's stem, which is DuckDB's name of the catalog too."""
        return self.database.stem


class Answer(Record):
    """What a tool found, in Markdown."""

    text: str
    rows: int | None = None
    """Rows shown, where the answer is the result of a query."""
    cut: bool = False
    """Whether something was left out for its size."""


class Reply(Record):
    """How a call ended, with the text for the client."""

    text: str
    outcome: Outcome
    rows: int | None = None
    sql: str = ""
    """The statements that reached the database, or that were to."""
    spent: bool = False
    """Whether the worker holds so much memory that a new one should answer the next call."""


class Call(Record):
    """One line of the query log."""

    time: str
    """When the call came, on the task's clock (UTC)."""
    tool: str
    arguments: dict[str, Any]
    sql: str
    rows: int | None
    ms: int
    """Duration on the real clock, waits included."""
    outcome: Outcome
    error: str
    """First line of what a call that was not answered was told."""


class CallError(UserError):
    """A call that has no answer: why, and what to do instead."""

    def __init__(self, outcome: Outcome, what: str, *, remedy: str = "") -> None:
        super().__init__(what, remedy=remedy)
        self.outcome = outcome


def refused(what: str, remedy: str = "") -> CallError:
    """The rules do not allow it."""
    return CallError("refused", what, remedy=remedy)


def failed(what: str, remedy: str = "") -> CallError:
    """It is allowed, and cannot be done."""
    return CallError("failed", what, remedy=remedy)
